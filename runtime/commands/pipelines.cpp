#include "runtime/commands/pipelines.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <span>

#include "runtime/base/debug.h"
#include "runtime/base/error.h"
#include "runtime/base/parallel.h"
#include "runtime/base/sha256.h"
#include "runtime/spirv/guard.h"
#include "runtime/vulkan/driver_room.h"
#include "runtime/vulkan/float_controls.h"

namespace tv {
namespace {

std::string first_user(const EngineSpec& spec, uint32_t pipeline) {
  for (const auto* program : {&spec.dispatches, &spec.weight_program}) {
    for (const Dispatch& d : *program) {
      if (d.pipeline == pipeline) return d.name + (d.tactic.empty() ? "" : " by " + d.tactic);
    }
  }
  return "pipeline " + std::to_string(pipeline);
}

OwnedPipeline create_from_module(Device& device, const EngineSpec& spec, uint32_t index,
                                 VkShaderModule module) {
  const Pipeline& wanted = spec.pipelines[index];
  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t i = 0; i < wanted.spec_constants.size(); ++i) entries.push_back({i, i * 4, 4});
  VkSpecializationInfo constants{};
  constants.mapEntryCount = static_cast<uint32_t>(entries.size());
  constants.pMapEntries = entries.data();
  constants.dataSize = wanted.spec_constants.size() * 4;
  constants.pData = wanted.spec_constants.data();

  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{};
  subgroup.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  subgroup.requiredSubgroupSize = wanted.subgroup_size;

  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = entries.empty() ? nullptr : &constants;
  info.layout = device.pipeline_layout();
  const DeviceProfile& profile = device.profile();
  if (wanted.subgroup_size != 0 && profile.subgroup_size_control) {
    if (wanted.subgroup_size < profile.min_subgroup_size ||
        wanted.subgroup_size > profile.max_subgroup_size) {
      throw Error(ErrorKind::kUser, "[" + first_user(spec, index) + "] needs subgroups of " +
                                        std::to_string(wanted.subgroup_size) + "; " + profile.name +
                                        " has " + std::to_string(profile.min_subgroup_size) +
                                        " to " + std::to_string(profile.max_subgroup_size));
    }
    info.stage.pNext = &subgroup;
  } else if (wanted.subgroup_size != 0 && wanted.subgroup_size != profile.subgroup_size) {
    throw Error(ErrorKind::kUser, "[" + first_user(spec, index) + "] needs subgroups of " +
                                      std::to_string(wanted.subgroup_size) + "; " + profile.name +
                                      " has " + std::to_string(profile.subgroup_size));
  }
  if (wanted.full_subgroups && profile.subgroup_size_control) {
    info.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  const DeviceApi& api = device.api();
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result =
      api.vkCreateComputePipelines(api.device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
  if (result != VK_SUCCESS) device.check(result, first_user(spec, index).c_str());
  return {api, pipeline};
}

/// The kernel of a pipeline, bounded to its operands.
std::vector<uint32_t> guarded(Device& device, const EngineSpec& spec, uint32_t index,
                              const GuardPlan& guard) {
  const DeviceProfile& profile = device.profile();
  SpirvLimits limits;
  limits.shared_bytes = static_cast<uint64_t>(profile.max_shared_bytes);
  limits.invocations = static_cast<uint64_t>(profile.max_workgroup_invocations);
  try {
    return guard_spirv(spec.modules.at(spec.pipelines.at(index).module),
                       {.ranges = guard.ranges.at(index),
                        .max_iterations = guard.max_iterations,
                        .limits = limits});
  } catch (const Error& error) {
    throw Error(error.kind(), "[" + first_user(spec, index) + "] " + error.what());
  }
}

OwnedShaderModule create_module(Device& device, const std::vector<uint32_t>& code) {
  const std::vector<uint32_t> words = with_float_controls(code, offered_float_controls(device));
  VkShaderModuleCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  info.codeSize = words.size() * 4;
  info.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  const DeviceApi& api = device.api();
  device.check(api.vkCreateShaderModule(api.device, &info, nullptr, &module), "shader");
  return {api, module};
}

OwnedPipeline make_pipeline(Device& device, const EngineSpec& spec, uint32_t index,
                            const GuardPlan& guard) {
  require_pipeline_room();
  const std::vector<uint32_t>& code = spec.modules.at(spec.pipelines.at(index).module);
  const OwnedShaderModule module =
      create_module(device, guard.on() ? guarded(device, spec, index, guard) : code);
  return create_from_module(device, spec, index, module.get());
}

std::span<const uint8_t> bytes_of(const std::vector<uint32_t>& words) {
  return {reinterpret_cast<const uint8_t*>(words.data()), words.size() * 4};
}

using Digest = std::array<uint8_t, 32>;

Digest digest_of(const std::vector<uint32_t>& words) {
  return Sha256().update(bytes_of(words)).finish();
}

/// Of all that `make_pipeline` reads but the device, which has the layout, the limits of guarded
/// kernels and the float controls.
PipelineKey key_of(const EngineSpec& spec, uint32_t index, const Digest& module,
                   const GuardPlan& guard) {
  const Pipeline& wanted = spec.pipelines[index];
  std::vector<uint32_t> words = {wanted.subgroup_size, uint32_t{wanted.full_subgroups},
                                 uint32_t{guard.on()}};
  if (guard.on()) words.insert(words.end(), {guard.ranges.at(index), guard.max_iterations});
  words.insert(words.end(), wanted.spec_constants.begin(), wanted.spec_constants.end());
  return Sha256().update(module).update(bytes_of(words)).finish();
}

/// A key that no other pipeline has.
PipelineKey key_of_its_own() {
  static std::atomic<uint32_t> next{0};
  return digest_of({next++});
}

SharedPipeline shared_pipeline(Device& device, const EngineSpec& spec, uint32_t index,
                               const Digest& module, const GuardPlan& guard,
                               WhenUnused when_unused) {
  if (device.lost()) device.check(VK_ERROR_DEVICE_LOST, first_user(spec, index).c_str());
  const bool own = debug_modes().own_pipelines;
  return device.pipelines().get(
      own ? key_of_its_own() : key_of(spec, index, module, guard),
      [&] { return make_pipeline(device, spec, index, guard); },
      own ? WhenUnused::kDestroy : when_unused);
}

}  // namespace

std::vector<uint32_t> order_of_creation(const EngineSpec& spec) {
  std::vector<uint32_t> order(spec.pipelines.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto words = [&](uint32_t i) { return spec.modules.at(spec.pipelines[i].module).size(); };
  std::ranges::stable_sort(order, std::ranges::greater(), words);
  return order;
}

SharedPipeline create_pipeline(Device& device, const EngineSpec& spec, uint32_t index,
                               const GuardPlan& guard) {
  const Digest module = digest_of(spec.modules.at(spec.pipelines.at(index).module));
  return shared_pipeline(device, spec, index, module, guard, WhenUnused::kKeep);
}

std::vector<SharedPipeline> create_pipelines(Device& device, const EngineSpec& spec,
                                             const GuardPlan& guard, WhenUnused when_unused) {
  std::vector<Digest> modules(spec.modules.size());
  for_each_parallel(modules.size(), [&](size_t i) { modules[i] = digest_of(spec.modules[i]); });
  std::vector<SharedPipeline> pipelines(spec.pipelines.size());
  const std::vector<uint32_t> order = order_of_creation(spec);
  for_each_parallel(order.size(), [&](size_t at) {
    const uint32_t i = order[at];
    pipelines[i] =
        shared_pipeline(device, spec, i, modules.at(spec.pipelines[i].module), guard, when_unused);
  });
  return pipelines;
}

}  // namespace tv
