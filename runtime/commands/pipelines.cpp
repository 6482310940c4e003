#include "runtime/commands/pipelines.h"

#include "runtime/base/error.h"
#include "runtime/base/parallel.h"
#include "runtime/spirv/guard.h"
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

}  // namespace

OwnedPipeline create_pipeline(Device& device, const EngineSpec& spec, uint32_t index,
                              const GuardPlan& guard) {
  const std::vector<uint32_t>& code = spec.modules.at(spec.pipelines.at(index).module);
  const OwnedShaderModule module =
      create_module(device, guard.on() ? guarded(device, spec, index, guard) : code);
  return create_from_module(device, spec, index, module.get());
}

std::vector<OwnedPipeline> create_pipelines(Device& device, const EngineSpec& spec,
                                            const GuardPlan& guard) {
  std::vector<OwnedShaderModule> modules;
  for (const auto& words : spec.modules) {
    if (!guard.on()) modules.push_back(create_module(device, words));
  }
  std::vector<OwnedPipeline> pipelines(spec.pipelines.size());
  for_each_parallel(pipelines.size(), [&](size_t i) {
    const auto index = static_cast<uint32_t>(i);
    pipelines[i] = guard.on() ? create_pipeline(device, spec, index, guard)
                              : create_from_module(device, spec, index,
                                                   modules.at(spec.pipelines[i].module).get());
  });
  return pipelines;
}

}  // namespace tv
