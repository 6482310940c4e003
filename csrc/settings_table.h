// The table of all settings. From a row follow the member of Settings or CacheSettings and its
// check, its part of an engine's key, vkexec's flag, the attribute of Python's Settings and its
// check, and the tables of docs/settings.md (scripts/settings_page.py writes the fields and the
// tables). CONTRIBUTING.md says how to add one.
//
// A row is SETTING(kind, name, default, …), where … are other facts of SettingRow (setting_rows.h).
// A file that includes this one defines the macros of the scopes that it needs:
//
//   - TV_COMPILER_SETTING: read by the compiler; part of an engine's key unless the row says
//     otherwise
//   - TV_CACHE_SETTING: read by the engine cache
//   - TV_PYTHON_SETTING: read by the Python package only
//
// It may be included more than once, so it has no #pragma once.

#ifndef TV_COMPILER_SETTING
#define TV_COMPILER_SETTING(...)
#endif
#ifndef TV_CACHE_SETTING
#define TV_CACHE_SETTING(...)
#endif
#ifndef TV_PYTHON_SETTING
#define TV_PYTHON_SETTING(...)
#endif

// clang-format off: a row is read as a paragraph.

TV_PYTHON_SETTING(kDevice, device, {},
  .saved = true, .section = "Where and what",
  .help = "index into `tv.devices()`, part of a name, or UUID; None: the device that holds the "
          "inputs, else the best one")

// For the partition. An engine's graph already shows the outcome, so this is no part of the key;
// the same holds for on_cuda, torch_executed_ops and require_full_compilation.
TV_COMPILER_SETTING(kNodes, min_block_size, 5,
  .in_key = false, .saved = true, .section = "Where and what",
  .help = "the fewest compute nodes for which an engine is built; `math.inf`: nothing is built, "
          "and the dry-run report is printed. If left at 5, an engine on CUDA tensors that is not "
          "the whole graph needs 40, because running between CUDA's kernels costs two switches of "
          "the GPU's context")

// The budget changes how an engine is loaded, not the engine.
TV_COMPILER_SETTING(kBytes, weight_budget, -1,
  .low = -2, .unit = "bytes; -1: the device's free memory; -2: no limit", .in_key = false,
  .saved = true, .section = "Where and what", .shown = "-1",
  .help = "bytes of weights that each engine keeps on the device; the others stay in host memory "
          "and are copied to the device ahead of the kernels that read them "
          "([below](#weights-that-do-not-fit)). -1: as many as fit in what the device says is "
          "free, and all where its memory is the host's; -2: all, and too little memory is an error",
  .flags = {{"--weightStreamingBudget",
             "Weights kept on the device, in MiB or as 512K, 64M, 1GiB; -1: as fit; -2: all"}})

// The graph's tensors are on CUDA: the partition then counts what it costs to run an engine between
// CUDA's kernels.
TV_COMPILER_SETTING(kBool, on_cuda, false, .of_user = false, .in_key = false)

TV_COMPILER_SETTING(kOperators, torch_executed_ops, {},
  .in_key = false, .saved = true, .section = "Where and what",
  .help = "operators that stay native: `torch.ops.aten.relu`, `\"aten::relu\"` (every overload) "
          "or `\"aten::add.Tensor\"`. An unknown name is an error that suggests the nearest one")

TV_COMPILER_SETTING(kBool, require_full_compilation, false,
  .in_key = false, .saved = true, .section = "Where and what",
  .help = "True: unless everything is in engines, compilation fails with an error that lists what "
          "is not. A graph break counts, too: the error gives its reason and place; and so does an "
          "engine that cannot be built")

TV_PYTHON_SETTING(kBool, pass_through_build_failures, false,
  .saved = true, .section = "Where and what",
  .help = "True: a failed build raises; False: that block runs natively, with a warning. A graph "
          "that PyTorch's own AOTAutograd rejects then runs natively, too, in its original form")

TV_COMPILER_SETTING(kBool, truncate_long_and_double, false,
  .saved = true, .section = "Precision",
  .help = "int64 and float64 inputs and weights are computed as int32 and float32 and cast back")

TV_COMPILER_SETTING(kPrecisions, enabled_precisions, {},
  .saved = true, .section = "Precision", .shown = "the model's own",
  .help = "dtypes the compiler may compute in. `{torch.float32, torch.float16}`: float32 graphs run "
          "in float16 storage with float32 accumulation; inputs and outputs stay float32. "
          "`{torch.float32, torch.int8}`: products and convolutions that `calibration` covers run in "
          "int8, unless floats are measured to be faster; `{torch.int8}`: all of them "
          "([low_precision.md](low_precision.md#calibration))",
  .flags = {{"--fp16", "Hold float32 tensors as float16; sums stay float32",
             R"(["float32", "float16"])"},
            {"--bf16", "The same as bfloat16", R"(["float32", "bfloat16"])"},
            {"--int8", "Products and convolutions that --calib covers in int8 where that is faster",
             R"(["float32", "int8"])"},
            {"--best", "--fp16 and --int8", R"(["float32", "float16", "int8"])"}})

// Not part of the key itself: the scales that nodes take from it are.
TV_COMPILER_SETTING(kCalibration, calibration, {},
  .in_key = false, .saved = true, .section = "Precision", .shown = "none",
  .help = "what `tv.calibrate` returned, or the path of a calibration cache, which may be "
          "TensorRT's: the ranges of the tensors that products and convolutions read in int8, "
          "which `enabled_precisions` must permit",
  .flags = {{"--calib", "Calibration cache, as tv.calibrate and TensorRT write it"}})

TV_PYTHON_SETTING(kBool, enable_autocast, false,
  .saved = true, .section = "Precision",
  .help = "store values in 16 bits where that is safe, decided node by node, as torch.autocast "
          "does")

TV_PYTHON_SETTING(kLowPrecision, autocast_low_precision_type, {},
  .saved = true, .section = "Precision",
  .help = "the 16-bit dtype of `enable_autocast`; None: float16")

TV_COMPILER_SETTING(kPatterns, autocast_excluded_nodes, {},
  .saved = true, .section = "Precision",
  .help = "nodes that stay in float32 and out of int8: regular expressions (ECMAScript) for a "
          "node's own name or that of its module")

TV_COMPILER_SETTING(kOperators, autocast_excluded_ops, {},
  .saved = true, .section = "Precision",
  .help = "operators that stay in float32 and out of int8")

TV_PYTHON_SETTING(kBool, use_explicit_typing, true,
  .section = "Precision",
  .help = "True: keep the graph's dtypes. False requires `enabled_precisions`")

TV_PYTHON_SETTING(kOptionalBool, use_python_runtime, {},
  .section = "Where and what",
  .help = "accepted for scripts written for other backends; one warning, no effect")

TV_COMPILER_SETTING(kBool, use_fp32_acc, true,
  .in_key = false, .saved = true, .section = "Precision",
  .help = "accepted for scripts written for other backends, without effect: sums of 16-bit products "
          "are float32")

TV_COMPILER_SETTING(kBool, disable_tf32, true,
  .saved = true, .section = "Precision",
  .help = "False permits reduced-mantissa products for float32 matmul and convolution where "
          "torch's own switches would: matrix units then multiply two bfloat16 pieces of each "
          "number, with an error below 2^-15 of the sum of the products' magnitudes, or only the "
          "leading 11 bits, as TF32 does, with an error below 2^-10")

TV_COMPILER_SETTING(kBool, allow_transformed_convolutions, false,
  .saved = true, .section = "Precision",
  .help = "True permits Winograd's transforms for 3x3 convolutions of stride 1 where the tuner "
          "finds them faster: they multiply 2.25 or 4 times less, but an output's error then "
          "depends on its neighbours' sizes, too "
          "([accuracy.md](accuracy.md#transformed-convolutions)). On CPU drivers",
  .flags = {{"--allowTransformedConvolutions",
             "Permit Winograd's transforms, whose error depends on neighbours' sizes",
             "true"}})

TV_COMPILER_SETTING(kBool, check_indices, true,
  .saved = true, .section = "Building",
  .help = "an index out of range and an integer division by 0 are errors, as in PyTorch "
          "([accuracy.md](accuracy.md#values-that-are-refused)). False: kernels do not check; an "
          "index out of range is clamped to the nearest valid one, scatters skip it, and x / 0 is "
          "0",
  .flags = {{"--noCheckIndices",
             "Kernels do not look for indices out of range and integer divisors of 0", "false"}})

TV_COMPILER_SETTING(kBool, matrix_units, true,
  .saved = true, .section = "Building",
  .help = "False: no kernels that use the device's matrix units. For engines that will be loaded "
          "with `check_addresses`, which refuses such kernels, and for comparisons",
  .flags = {{"--noMatrixUnits", "No kernels that use the device's matrix units", "false"}})

TV_COMPILER_SETTING(kInteger, optimization_level, 3,
  .low = 0, .high = 5, .saved = true, .variable = "TORCH_VULKAN_OPTIMIZATION_LEVEL",
  .section = "Building",
  .help = "0: the first applicable tactic is taken and nothing is timed. 1 to 4: a growing share "
          "of the tactics is timed on the device, for at most 5, 15, 40, 180 s per engine (3, 6, "
          "15, 60 s on CPU drivers). 5: all of them. From level 4 on, conflicting layouts and "
          "fusions are compared, too ([0004](design/0004-tuner.md)). Level 1 and above check each "
          "winner against a reference kernel",
  .flags = {{"--builderOptimizationLevel", "0: no timing … 5: everything is timed"}})

TV_COMPILER_SETTING(kInteger, tuning_seconds, -1,
  .low = -1, .unit = "seconds; -1: the level's", .saved = true, .section = "Building",
  .help = "how long tactics may be timed for each engine, instead of the time that "
          "`optimization_level` allows; when it is used up, rules choose the tactics that are "
          "left. 0: nothing is timed, and only what the timing cache already holds is chosen by "
          "time. -1: the level's time",
  .flags = {{"--tuningSeconds", "Seconds of timing for an engine; 0: only the timing cache's"}})

TV_COMPILER_SETTING(kBytes, workspace_size, 0,
  .low = 0, .unit = "bytes; 0: no limit", .saved = true, .section = "Building",
  .help = "bytes of scratch memory that one tactic may use; tactics that need more are refused, "
          "and so are those whose need has no upper bound, if there are others; 0: no limit",
  .flags = {{"--memPoolSize",
             "workspace:N, in MiB or as 512K, 64M, 1GiB: scratch a kernel may use"}})

// With this setting frontends look at weights and mark those that are 2:4 sparse (Value::two_four).
TV_COMPILER_SETTING(kBool, sparse_weights, false,
  .saved = true, .section = "Building",
  .help = "products skip the zeros of weights that are 2:4 sparse (of each four neighbours in a "
          "row at most two are not zero), where that is faster: they read 0.56 of a 16-bit "
          "weight's bytes ([low_precision.md](low_precision.md#24-sparsity)). Refits must keep "
          "the pattern")

// Tactics whose names begin so are preferred to the rule's choice where they apply.
TV_COMPILER_SETTING(kNames, tactics, {}, .of_user = false)

// Debug kernels, which check each access.
TV_COMPILER_SETTING(kBool, check_addresses, false, .of_user = false)

TV_CACHE_SETTING(kBool, cache_built_engines, true,
  .section = "Building",
  .help = "engines are written to the cache on disk ([deployment.md](deployment.md)); compiled "
          "kernels and timings are kept there if `reuse_cached_engines` is set, too",
  .flags = {{"--noCache", "Neither read nor write the cache of engines and kernels", "false"}})

TV_CACHE_SETTING(kBool, reuse_cached_engines, true,
  .section = "Building",
  .help = "engines are read from that cache; compiled kernels and timings, if "
          "`cache_built_engines` is set, too",
  .flags = {{"--noCache", "Neither read nor write the cache of engines and kernels", "false"}})

TV_CACHE_SETTING(kDirectory, engine_cache_dir, {},
  .section = "Building", .shown = "per user",
  .help = "directory of that cache; default `$XDG_CACHE_HOME/torch_vulkan` or `~/.cache/torch_vulkan`",
  .flags = {{"--cacheDir", "Directory of built engines; default: the user's cache"}})

TV_CACHE_SETTING(kBytes, engine_cache_size, int64_t{5} << 30,
  .low = 1, .unit = "bytes", .section = "Building", .shown = "5 GiB",
  .help = "bytes of engines kept; beyond that, the least recently used are deleted")

// Digest of the contents of immutable weights; "": there are none.
TV_CACHE_SETTING(kText, weights_digest, {}, .of_user = false)

TV_COMPILER_SETTING(kFile, timing_cache_path, {},
  .in_key = false, .section = "Building", .shown = "in the cache",
  .help = "JSON file of the tuner's timings; default `timings.json` in `engine_cache_dir`, if both "
          "of its flags are set. What "
          "it holds is not timed again. Several processes may share it",
  .flags = {{"--timingCacheFile", "File of measured tactics, read and written"}})

// Where compiled SPIR-V is kept; "": nowhere.
TV_COMPILER_SETTING(kDirectory, cache_dir, {}, .of_user = false, .in_key = false)

// Where dumps are written; "": nowhere.
TV_COMPILER_SETTING(kDirectory, debug_dir, {},
  .of_user = false, .in_key = false,
  .flags = {{"--debugDir", "Write graphs, tactics and kernels there"}})

TV_PYTHON_SETTING(kBool, immutable_weights, false,
  .saved = true, .section = "Building",
  .help = "True: weights are never checked for changes and cannot be refitted, and their contents "
          "are part of the cache's key. False: a change is noticed by the weight's version "
          "counter; a weight that was made in `torch.inference_mode()` has none, so its bytes are "
          "read at each call (on CUDA it is prepared again at each call)")

TV_PYTHON_SETTING(kReport, dryrun, false,
  .section = "Where and what",
  .help = "True, or a file for the report (.json, .html, .txt): stop after partitioning, print or "
          "write what would be built and why the rest would not, run natively "
          "([dry_run.md](dry_run.md))")

TV_PYTHON_SETTING(kFlagOrPath, debug, false,
  .section = "Where and what",
  .help = "True, or a directory: dump the graph after each pass, the kernels, and the tactics "
          "with the reason for each refusal")

TV_PYTHON_SETTING(kOptionalBool, progress, {},
  .section = "Where and what",
  .help = "show a progress bar while engines are built; None: where standard error is a terminal")

TV_PYTHON_SETTING(kBool, background_tuning, false,
  .section = "Building",
  .help = "True: a compiled model answers as soon as its engines of `optimization_level` 0 are "
          "built. Engines of the requested level are tuned in a thread of low priority and take "
          "their place between two calls ([0026](design/0026-background-tuning.md)); "
          "`tv.wait_for_tuning()` waits for them. For `torch.compile` and `tv.compile` of modules")

// clang-format on

#undef TV_COMPILER_SETTING
#undef TV_CACHE_SETTING
#undef TV_PYTHON_SETTING
