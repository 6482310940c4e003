// Compiles the kernels of every converter's examples with the best Vulkan driver of the environment
// and prints what it says of them: registers, spills, shared memory, code size. Nothing is run, so
// Mesa's RADV serves without an AMD card:
//
//   RADV_FORCE_FAMILY=navi21 VK_ICD_FILENAMES=/usr/share/vulkan/icd.d/radeon_icd.x86_64.json
//   build/tests/cpp/shader_stats [--seconds N] [--op aten::softmax] [--cache DIR] [--spills]
//
// First the tactics that are taken by rule, all of them; then others in the order of their digests,
// for N seconds (default 10). --spills prints only pipelines that spill. NVIDIA's driver tells of
// registers, of bytes of local memory (what spills, and arrays whose index is no constant) and of
// code. Exit status 1: a pipeline failed, or one of a default tactic spills.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "csrc/codegen/kernel.h"
#include "csrc/compile/compile.h"
#include "csrc/converter.h"
#include "csrc/tuner/digest.h"
#include "runtime/base/error.h"
#include "runtime/vulkan/device_impl.h"

namespace tv {
namespace {

using Clock = std::chrono::steady_clock;

/// A device with the statistics of pipelines enabled, which engines have no use for.
class StatsDevice {
 public:
  explicit StatsDevice(const PhysicalDevice& physical) {
    const InstanceApi& instance = Instance::get().api();
    FeatureChain offered(physical.extensions), enabled(physical.extensions);
    instance.vkGetPhysicalDeviceFeatures2(physical.handle, &offered.core);
    enable_features(offered, enabled);
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics{};
    statistics.sType =
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
    statistics.pipelineExecutableInfo = VK_TRUE;
    statistics.pNext = &enabled.core;
    std::vector<const char*> extensions = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};
    for (const std::string& e : physical.extensions) extensions.push_back(e.c_str());
    const float priority = 1;
    VkDeviceQueueCreateInfo queue{};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = physical.queue_family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &statistics;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    VkDevice device = VK_NULL_HANDLE;
    need(instance.vkCreateDevice(physical.handle, &info, nullptr, &device), "device");
    api_ = load_device_api(instance, device);
    statistics_ = reinterpret_cast<PFN_vkGetPipelineExecutableStatisticsKHR>(
        instance.vkGetDeviceProcAddr(device, "vkGetPipelineExecutableStatisticsKHR"));
    if (!statistics_) throw Error(ErrorKind::kDevice, "[stats] no statistics");
    const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
    VkPipelineLayoutCreateInfo layout{};
    layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout.pushConstantRangeCount = 1;
    layout.pPushConstantRanges = &push;
    VkPipelineLayout handle = VK_NULL_HANDLE;
    need(api_.vkCreatePipelineLayout(device, &layout, nullptr, &handle), "layout");
    layout_ = OwnedPipelineLayout(api_, handle);
  }
  ~StatsDevice() {
    layout_.reset();
    api_.vkDestroyDevice(api_.device, nullptr);
  }
  StatsDevice(const StatsDevice&) = delete;

  /// The driver's statistics of one pipeline, by its names for them. Throws Error(kDevice).
  std::map<std::string, uint64_t> compile(const Pipeline& pipeline,
                                          const std::vector<uint32_t>& words) const {
    VkShaderModuleCreateInfo module_info{};
    module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    module_info.codeSize = words.size() * 4;
    module_info.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    need(api_.vkCreateShaderModule(api_.device, &module_info, nullptr, &module), "module");
    const OwnedShaderModule owned_module(api_, module);

    std::vector<VkSpecializationMapEntry> entries;
    for (uint32_t i = 0; i < pipeline.spec_constants.size(); ++i) entries.push_back({i, i * 4, 4});
    VkSpecializationInfo constants{};
    constants.mapEntryCount = static_cast<uint32_t>(entries.size());
    constants.pMapEntries = entries.data();
    constants.dataSize = pipeline.spec_constants.size() * 4;
    constants.pData = pipeline.spec_constants.data();
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{};
    subgroup.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
    subgroup.requiredSubgroupSize = pipeline.subgroup_size;
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.pNext = pipeline.subgroup_size ? &subgroup : nullptr;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = &constants;
    info.layout = layout_.get();
    VkPipeline handle = VK_NULL_HANDLE;
    need(api_.vkCreateComputePipelines(api_.device, VK_NULL_HANDLE, 1, &info, nullptr, &handle),
         "pipeline");
    const OwnedPipeline owned_pipeline(api_, handle);
    return statistics_of(handle);
  }

 private:
  static void need(VkResult result, const char* what) {
    if (result == VK_SUCCESS) return;
    throw Error(ErrorKind::kDevice, std::string("[stats] ") + what + ": " + result_name(result));
  }

  std::map<std::string, uint64_t> statistics_of(VkPipeline pipeline) const {
    VkPipelineExecutableInfoKHR info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR;
    info.pipeline = pipeline;
    uint32_t count = 0;
    need(statistics_(api_.device, &info, &count, nullptr), "statistics");
    VkPipelineExecutableStatisticKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    std::vector<VkPipelineExecutableStatisticKHR> found(count, empty);
    need(statistics_(api_.device, &info, &count, found.data()), "statistics");
    std::map<std::string, uint64_t> result;
    for (const auto& s : found) {
      if (s.format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR) {
        result[s.name] = s.value.u64;
      }
    }
    return result;
  }

  DeviceApi api_;
  PFN_vkGetPipelineExecutableStatisticsKHR statistics_ = nullptr;
  OwnedPipelineLayout layout_;
};

/// Collects the programs of the tactics that are not taken.
class Others : public CostModel {
 public:
  explicit Others(const DeviceProfile& device) : device_(device) {}
  TacticChoice choose(const TacticProblem& problem, size_t rule, const Progress&) override {
    for (size_t i = 0; i < problem.candidates.size(); ++i) {
      if (i == rule || !problem.candidates[i].refusal.empty()) continue;
      TacticProgram program = problem.program(i);
      std::string digest = program_digest(program, device_);
      programs.emplace(std::move(digest), std::move(program));
    }
    return {.candidate = rule};
  }
  std::map<std::string, TacticProgram> programs;  ///< by digest: a random order that never changes

 private:
  const DeviceProfile& device_;
};

struct Options {
  double seconds = 10;
  std::string op, cache;
  bool spills_only = false;
};

class Report {
 public:
  Report(const StatsDevice& device, const Options& options) : device_(device), options_(options) {
    std::printf("%-8s %5s %5s %6s %6s %6s %7s %8s  %s\n", "", "VGPR", "SGPR", "spillV", "spillS",
                "local", "LDS", "code", "tactic (kernel) of operator");
  }

  void add(const char* kind, const std::string& op, const EngineSpec& spec) {
    for (const auto* program : {&spec.weight_program, &spec.dispatches}) {
      for (const Dispatch& dispatch : *program) add(kind, op, spec, dispatch);
    }
  }
  int64_t pipelines() const { return static_cast<int64_t>(seen_.size()); }
  bool failed() const { return failed_; }

 private:
  void add(const char* kind, const std::string& op, const EngineSpec& spec,
           const Dispatch& dispatch) {
    const Pipeline& pipeline = spec.pipelines.at(dispatch.pipeline);
    const std::vector<uint32_t>& words = spec.modules.at(pipeline.module);
    if (!seen_.insert({words, pipeline.spec_constants}).second) return;
    const std::string name = dispatch.tactic + " of " + op;
    const bool is_default = std::strcmp(kind, "default") == 0;
    try {
      auto stats = device_.compile(pipeline, words);
      const uint64_t spills = stats["Spilled VGPRs"] + stats["Spilled SGPRs"];
      const uint64_t local = stats["Local Memory Size"] & 0xffffffffu;  // above: no size
      failed_ |= is_default && spills > 0;
      if (options_.spills_only && spills == 0 && local == 0) return;
      std::printf("%-8s %5llu %5llu %6llu %6llu %6llu %7llu %8llu  %s\n", kind,
                  number(stats["VGPRs"] + stats["Register Count"]), number(stats["SGPRs"]),
                  number(stats["Spilled VGPRs"]), number(stats["Spilled SGPRs"]), number(local),
                  number(stats["LDS size"] + stats["Shared Memory Size"]),
                  number(stats["Code size"] + stats["Binary Size"]), name.c_str());
    } catch (const Error& e) {
      failed_ = true;
      std::printf("%-8s FAILED %s: %s\n", kind, name.c_str(), e.what());
    }
  }
  static unsigned long long number(uint64_t v) { return v; }

  const StatsDevice& device_;
  const Options& options_;
  std::set<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> seen_;
  bool failed_ = false;
};

int run(const Options& options) {
  const std::vector<PhysicalDevice>& devices = Instance::get().devices();
  if (devices.empty()) throw Error(ErrorKind::kDevice, "[stats] there is no Vulkan device");
  const PhysicalDevice& physical = devices.front();
  const StatsDevice device(physical);
  std::printf("%s, %s %s\n", physical.profile.name.c_str(), physical.profile.driver_name.c_str(),
              physical.profile.driver_info.c_str());
  Settings settings;
  settings.cache_dir = options.cache;
  Report report(device, options);
  Others others(physical.profile);
  for (const auto& [op, converter] : Registry::instance().all()) {
    if (!converter.examples || (!options.op.empty() && op != options.op)) continue;
    for (Graph& graph : converter.examples()) {
      report.add("default", op,
                 compile(std::move(graph), settings, physical.profile, nullptr, &others));
    }
  }
  const int64_t defaults = report.pipelines();
  const auto start = Clock::now();
  size_t taken = 0;
  for (auto& [digest, program] : others.programs) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > options.seconds) break;
    for (const TacticProgram::Kernel& kernel : program.kernels) {
      program.spec.modules.push_back(compile_kernel(kernel.name, kernel.glsl, settings));
    }
    report.add("other", program.spec.name, program.spec);
    ++taken;
  }
  std::printf("%lld pipelines of default tactics; %lld more of %zu of %zu other tactics\n",
              static_cast<long long>(defaults),
              static_cast<long long>(report.pipelines() - defaults), taken, others.programs.size());
  return report.failed() ? 1 : 0;
}

}  // namespace
}  // namespace tv

int main(int argc, char** argv) {
  tv::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool more = i + 1 < argc;
    if (arg == "--seconds" && more) {
      options.seconds = std::atof(argv[++i]);
    } else if (arg == "--op" && more) {
      options.op = argv[++i];
    } else if (arg == "--cache" && more) {
      options.cache = argv[++i];
    } else if (arg == "--spills") {
      options.spills_only = true;
    } else {
      std::fprintf(stderr,
                   "usage: shader_stats [--seconds N] [--op OP] [--cache DIR] [--spills]\n");
      return 2;
    }
  }
  try {
    return tv::run(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
