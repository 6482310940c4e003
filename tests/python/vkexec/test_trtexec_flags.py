"""Every flag that trtexec has, or had: taken, without effect, or refused with the reason."""

import re

import pytest

from vkexec_helpers import run

# Of trtexec in TensorRT 11.
CURRENT = """
accuracyAlgorithm accuracyThreshold adjustForDLA allocationStrategy allowGPUFallback
allowWeightStreaming asyncFileReader atol avgRuns avgTiming buildDLAStandalone
builderOptimizationLevel consistency continue cpuOnly decomposableAttentions device directIO
distributiveIndependence dryRun dumpKernelText dumpLayerInfo dumpOptimizationProfile dumpOutput
dumpProfile dumpRawBindingsToFile dumpRefit duration dynamicPlugins enablePluginOverride
errorOnTimingCacheMiss excludeLeanRuntime exportLayerInfo exportOutput exportProfile exportTimes
exposeDMA getPlanVersionOnly hardwareCompatibilityLevel help helpBuildRoute idleTime
ignoreParsedPluginLibs includeDataTransfers infStreams inputIOFormats iterations l2LimitForTiling
layerDeviceTypes leanDLLPath loadEngine loadInputs loadRefOutputs markDebug
markUnfusedTensorsAsDebugTensors maxAuxStreams maxShapes maxTactics memPoolSize minShapes
monitorMemory noBuilderCache noCompilationCache noCudaGraph noDataTransfers noSpinWait noTF32 onnx
optShapes outputIOFormats percentile persistentCacheRatio pi pluginInstanceNorm plugins preview
profile profilingVerbosity refPair refit refitFromOnnx remoteAutoTuningConfig reportCapabilityDLA
rtol runtimePlatform safe safetyPlugins saveAllDebugTensors saveAllEngines saveDebugTensors
saveEngine separateProfileRun setBuildRoute setPluginsToSerialize shapes skipInference sleepTime
sparsity staticPlugins streams stripAllWeights stripWeights stronglyTyped tacticSources tempdir
tempfileControls threads tilingOptimizationLevel timeDeserialize timeRefit timingCacheFile
tuneBuildRouteFile tuneBuildRoutes tuningCacheFile tuningResultFile tuningSearch tuningTimeOut
uint8AsymmetricQuantizationDLA useCudaGraph useDLACore useManagedMemory useProfile useRuntime
useSpinWait vc verbose versionCompatible warmUp weightStreamingBudget
""".split()
# Of trtexec in TensorRT 8 to 10, which later ones have lost.
EARLIER = """
batch best bf16 buildOnly calib calibProfile deploy disableCompilationCache exportEngineLayers
explicitBatch fp16 fp8 heuristic int4 int8 layerOutputTypes layerPrecisions maxBatch model output
precisionConstraints restricted uff workspace
""".split()
# --flag=value that means something there.
VALUES = {"profilingVerbosity": "detailed", "useRuntime": "full", "maxAuxStreams": "4",
          "tempdir": "/tmp", "tempfileControls": "in_memory:allow", "persistentCacheRatio": "0.5",
          "avgTiming": "8", "hardwareCompatibilityLevel": "none", "precisionConstraints": "none",
          "inputIOFormats": "fp32:chw", "outputIOFormats": "fp32:chw"}


@pytest.fixture(scope="module")
def taken():
    return {name for line in run("--help").splitlines() if line.startswith("  -")
            for name in re.findall(r"--(\w+)", line.split("   ")[0])}


@pytest.fixture(scope="module")
def idle():
    """Those that one warning says change nothing, of all flags that are written without a value."""
    candidates = ["useCudaGraph", "noDataTransfers", "includeDataTransfers", "profilingVerbosity",
                  "noTF32", "explicitBatch", "useSpinWait", "asyncFileReader", "stronglyTyped",
                  "timeDeserialize", "timeRefit", "monitorMemory", "useManagedMemory", "exposeDMA",
                  "versionCompatible", "vc", "excludeLeanRuntime", "useRuntime", "maxAuxStreams",
                  "tempdir", "tempfileControls", "allowGPUFallback", "allowWeightStreaming",
                  "persistentCacheRatio", "avgTiming", "ignoreParsedPluginLibs", "consistency",
                  "noSpinWait", "hardwareCompatibilityLevel", "precisionConstraints",
                  "inputIOFormats", "outputIOFormats"]
    flags = [f"--{name}" + (f"={VALUES[name]}" if name in VALUES else "") for name in candidates]
    said = run("--loadEngine=missing.vke", *flags, code=1)
    (line,) = [line for line in said.splitlines() if "Without effect" in line]
    found = set(re.findall(r"--(\w+)(?:=[\w:/.]+)?: ", line))
    assert found == set(candidates)
    return found


@pytest.mark.parametrize("flag", [*CURRENT, *EARLIER])
def test_every_flag_is_known(flag, taken, idle):
    if flag in taken or flag in idle or flag == "workspace":
        return
    said = run("--onnx=missing.onnx", f"--{flag}=1", code=2)
    reason = re.search(rf"--{flag} is not supported: (.*)", said)
    assert reason and len(reason[1]) > 10, said


def test_the_lists_have_every_flag_that_is_taken_over(taken, idle):
    """What vkexec has beyond them is its own; these two lists are exact."""
    assert len(set(CURRENT)) == len(CURRENT) and len(set(EARLIER)) == len(EARLIER)
    assert not set(CURRENT) & set(EARLIER)
    assert idle <= {*CURRENT, *EARLIER}
    own = {"config", "checkAddresses", "weights", "constants", "noCheckIndices", "noMatrixUnits",
           "tuningSeconds", "debugDir", "noCache", "cacheDir", "fill", "seed", "exportGraph",
           "graph", "listDevices", "version", "calibData", "calibMethod", "calibPercentile",
           "calibSmoothQuant", "calibBiasCorrection", "allowTransformedConvolutions"}
    assert taken - own <= {*CURRENT, *EARLIER}, taken - own - {*CURRENT, *EARLIER}


def test_flags_that_people_look_for():
    assert "tv.onnx.compile(simplify=True)" in run("--onnx=x", "--slim", code=2)
    assert "--calibData" in run("--onnx=x", "--calibProfile=0", code=2)
    assert "MiB" in run("--onnx=missing.onnx", "--workspace=64", code=1)
