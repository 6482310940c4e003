#include "csrc/cli/flags/trtexec_flags.h"

#include <algorithm>
#include <array>

#include "csrc/cli/text/command_error.h"

namespace tv::cli {
namespace {

struct Absent {
  std::string_view flag;
  const char* reason;
};

constexpr const char* kInt4 =
    "quantised ONNX files (Q/DQ pairs) run as they define; --int8 quantises others";
constexpr const char* kDla = "Vulkan devices have no DLA; --device picks one of --listDevices";
constexpr const char* kPlugin = "there are no plugins: an operator is part of the program";
constexpr const char* kFormats = "inputs and outputs are dense tensors of the model's types";
constexpr const char* kPerLayer =
    "precision is chosen for the whole network; --fp16 and --bf16 keep what would lose range in "
    "float32, and autocast_excluded_nodes in a --config file names others, which vkexec debug "
    "precision finds";
constexpr const char* kOneRuntime = "there is one runtime, libvk_runtime, for every file";
constexpr const char* kStreaming = "every engine can stream its weights: --weightStreamingBudget";
constexpr const char* kBatch = "batches are explicit: --shapes";
constexpr const char* kClock =
    "waiting polls first and then sleeps, whichever ends sooner; there is nothing to choose";
constexpr const char* kTransfers =
    "a call takes host memory; its copies are reported apart (H2D and D2H Latency)";
constexpr const char* kRoutes =
    "there are no build routes: --builderOptimizationLevel says how much is timed, --tuningSeconds "
    "for how long";
constexpr const char* kReferences = "want vkexec compare --ref=DIR";
constexpr const char* kSlim =
    "onnxslim is a Python package: the vkexec that pip installs runs it, and so does "
    "tv.onnx.compile(simplify=True). Engines do not need it: constants are folded, and what "
    "nothing "
    "reads is left out, when they are built";
constexpr const char* kCalibrates = "--calibData calibrates with the shapes that the batches have";
constexpr const char* kDebugTensors = "vkexec compare looks at tensors between layers";

/// Of trtexec 8 to 11, and --slim, which people look for here.
constexpr auto kAbsent = std::to_array<Absent>({
    {"slim", kSlim},
    {"calibProfile", kCalibrates},
    {"int4", kInt4},
    {"fp8", "Vulkan has no 8-bit floats; --fp16, --bf16 and --int8 are there"},
    {"precisionConstraints", kPerLayer},
    {"layerPrecisions", kPerLayer},
    {"layerOutputTypes", kPerLayer},
    {"layerDeviceTypes", kDla},
    {"useDLACore", kDla},
    {"buildDLAStandalone", kDla},
    {"uint8AsymmetricQuantizationDLA", kDla},
    {"reportCapabilityDLA", kDla},
    {"adjustForDLA", kDla},
    {"plugins", kPlugin},
    {"staticPlugins", kPlugin},
    {"dynamicPlugins", kPlugin},
    {"setPluginsToSerialize", kPlugin},
    {"pluginInstanceNorm", kPlugin},
    {"pi", kPlugin},
    {"enablePluginOverride", kPlugin},
    {"safetyPlugins", kPlugin},
    {"inputIOFormats", kFormats},
    {"outputIOFormats", kFormats},
    {"directIO", kFormats},
    {"uff", "want an ONNX file: --onnx"},
    {"deploy", "want an ONNX file: --onnx"},
    {"model", "want an ONNX file: --onnx"},
    {"output", "every output of the model is computed"},
    {"batch", kBatch},
    {"maxBatch", kBatch},
    {"workspace", "want --memPoolSize=workspace:MiB"},
    {"leanDLLPath", kOneRuntime},
    {"hardwareCompatibilityLevel",
     "an engine runs on every device with the features it was built for; it warns where it was "
     "tuned "
     "for another"},
    {"runtimePlatform", "an engine is built for the device that --device names"},
    {"tacticSources",
     "each operator's tactics are measured; --builderOptimizationLevel says how many"},
    {"maxTactics", "--builderOptimizationLevel says how many are measured"},
    {"heuristic", "want --builderOptimizationLevel=0"},
    {"preview", "there are no preview features"},
    {"errorOnTimingCacheMiss", "a tactic that was not timed before is timed"},
    {"noBuilderCache", "want --noCache"},
    {"disableCompilationCache", "want --noCache"},
    {"noCompilationCache", "want --noCache"},
    {"restricted", "engines have no restricted mode"},
    {"safe", "engines have no restricted mode"},
    {"exportEngineLayers", "want --exportLayerInfo"},
    {"getPlanVersionOnly", "want --dumpLayerInfo or --exportLayerInfo: they name the builder"},
    {"profile", "one range of shapes is built: --minShapes, --optShapes, --maxShapes"},
    {"useProfile", "the shape profile is chosen by the shapes"},
    {"dumpOptimizationProfile", "want --exportLayerInfo: its Symbols have the ranges"},
    {"sleepTime", "a call begins at once; --idleTime waits between two"},
    {"allocationStrategy", "the arena is planned for each shape when it is first used"},
    {"markDebug", kDebugTensors},
    {"saveDebugTensors", kDebugTensors},
    {"saveAllDebugTensors", kDebugTensors},
    {"markUnfusedTensorsAsDebugTensors", kDebugTensors},
    {"dumpRawBindingsToFile", "want --exportOutput"},
    {"dumpKernelText", "want --debugDir: the GLSL of every kernel is in it"},
    {"stripAllWeights", "want --stripWeights: it leaves out all of them"},
    {"tilingOptimizationLevel", "want --builderOptimizationLevel"},
    {"l2LimitForTiling", "want --builderOptimizationLevel"},
    {"setBuildRoute", kRoutes},
    {"helpBuildRoute", kRoutes},
    {"tuneBuildRoutes", kRoutes},
    {"tuneBuildRouteFile", kRoutes},
    {"tuningSearch", kRoutes},
    {"tuningTimeOut", kRoutes},
    {"tuningCacheFile", "want --timingCacheFile"},
    {"continue", kRoutes},
    {"tuningResultFile", kRoutes},
    {"dryRun", "tv.dry_run tells what would be built"},
    {"remoteAutoTuningConfig", "tactics are timed on the device that --device names"},
    {"cpuOnly", "want --builderOptimizationLevel=0: nothing is timed then"},
    {"saveAllEngines", "one engine is built, and --saveEngine writes it"},
    {"distributiveIndependence",
     "there is no such mode: a result depends on the engine and the inputs alone"},
    {"decomposableAttentions", "the compiler chooses which attentions are one kernel"},
    {"noCudaGraph", "commands are recorded once for a shape in any case"},
    {"loadRefOutputs", kReferences},
    {"refPair", kReferences},
    {"accuracyAlgorithm", kReferences},
    {"accuracyThreshold", kReferences},
    {"atol", kReferences},
    {"rtol", kReferences},
});

struct Idle {
  std::string_view flag;
  std::string_view value;  ///< that changes nothing; "*": any, "": the flag has none
  const char* reason;
};

constexpr auto kIdle = std::to_array<Idle>({
    {"useCudaGraph", "", "commands are recorded once for a shape and submitted again"},
    {"noDataTransfers", "", kTransfers},
    {"includeDataTransfers", "", kTransfers},
    {"profilingVerbosity", "*", "layers are always described in detail"},
    {"noTF32", "", "float32 products keep their mantissa"},
    {"explicitBatch", "", "batches are always explicit"},
    {"useSpinWait", "", kClock},
    {"spinWait", "", kClock},
    {"asyncFileReader", "", "a file is read at once"},
    {"stronglyTyped", "", "types are the model's unless --fp16 or --bf16 is given"},
    {"timeDeserialize", "", "how long loading took is always printed"},
    {"timeRefit", "", "how long refitting took is always printed"},
    {"monitorMemory", "", "the memory of an engine is always printed"},
    {"useManagedMemory", "", kTransfers},
    {"exposeDMA", "", kTransfers},
    {"versionCompatible", "", kOneRuntime},
    {"vc", "", kOneRuntime},
    {"excludeLeanRuntime", "", kOneRuntime},
    {"useRuntime", "*", kOneRuntime},
    {"maxAuxStreams", "*", "dispatches that do not depend on each other overlap by themselves"},
    {"tempdir", "*", "no temporary files are made"},
    {"tempfileControls", "*", "no temporary files are made"},
    {"allowGPUFallback", "", kDla},
    {"allowWeightStreaming", "", kStreaming},
    {"persistentCacheRatio", "*", "Vulkan leaves the L2 cache to the driver"},
    {"avgTiming", "*", "the tuner repeats until the median is certain enough"},
    {"ignoreParsedPluginLibs", "", kPlugin},
    {"consistency", "", "a .vke file is checked whenever it is read"},
    {"noSpinWait", "", kClock},
    {"hardwareCompatibilityLevel", "none", "an engine warns where it was tuned for another device"},
    {"precisionConstraints", "none", "layers have no precisions of their own"},
    {"inputIOFormats", "fp32:chw", kFormats},
    {"outputIOFormats", "fp32:chw", kFormats},
});

}  // namespace

std::string why_nothing_changes(std::string_view argument) {
  if (!argument.starts_with("--")) return {};
  argument.remove_prefix(2);
  const size_t equals = std::min(argument.find('='), argument.size());
  const std::string_view flag = argument.substr(0, equals);
  const std::string_view value =
      equals < argument.size() ? argument.substr(equals + 1) : std::string_view();
  for (const Idle& idle : kIdle) {
    if (idle.flag == flag && (idle.value == "*" || idle.value == value)) return idle.reason;
  }
  return {};
}

void put_in_new_words(std::vector<std::string>& arguments) {
  constexpr std::string_view kWorkspace = "--workspace";
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    if (argument == kWorkspace && i + 1 < arguments.size()) {
      argument += "=" + arguments[i + 1];
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    if (!argument.starts_with(std::string(kWorkspace) + "=")) continue;
    const std::string size = argument.substr(kWorkspace.size() + 1);
    if (size.empty() || size.find_first_of("0123456789.") != 0) {
      throw CommandError("--workspace: got '" + size +
                         "', want a number of MiB, or one with a unit");
    }
    argument = "--memPoolSize=workspace:" + size;
  }
}

std::string why_not(std::string_view flag) {
  for (const Absent& absent : kAbsent) {
    if (absent.flag == flag) return absent.reason;
  }
  return {};
}

}  // namespace tv::cli
