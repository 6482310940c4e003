#pragma once
// TorchScript modules as programs of engines and native operators, without Python.

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace tv::script {

/// How to compile. The defaults are those of docs/settings.md.
struct Options {
  std::string settings = "{}";  ///< csrc/settings.h, as JSON
  std::string cache = R"({"reuse_cached_engines": false, "cache_built_engines": false})";
  std::string device;  ///< as open_device takes it; "": the best
  bool immutable_weights = false;
  bool pass_through_build_failures = false;
  /// Engines are for ranges of sizes: the examples are one call at several sizes, the first so many
  /// of which say how the program's sizes depend on each other; the rest are bounds. 0: engines are
  /// for the sizes of the examples.
  size_t fitted = 0;
  size_t usual = 0;  ///< the example whose sizes kernels are chosen for
  /// The JSON of a device profile: nothing is built, and no device is needed.
  std::string dry_run_for;
};

struct Engine {
  std::string name;  ///< of the module's attribute that holds it
  int64_t compute_nodes = 0;
  double build_s = 0;
};

struct Native {
  std::string op, reason, source, module_path;
};

struct Result {
  /// A module with the parameters and buffers of the given one (the same tensors) and one method,
  /// forward; torch::jit::save and load keep it.
  torch::jit::Module module;
  std::vector<Engine> engines;
  std::vector<Native> native;  ///< nodes that do work and stay PyTorch's
  int64_t compute_nodes = 0, covered_nodes = 0;
  std::vector<std::string> failures;  ///< engines that were not built, and why
  std::vector<std::string> reports;   ///< of a dry run: each stretch of code, script_report.h
};

/// Compiles forward for these inputs: an engine runs where a call's tensors have the dtypes and
/// sizes (and the numbers that shapes depend on the values) of the example, or sizes between those
/// of the examples (Options::fitted); where they have others, the same nodes run natively. Each set
/// in `examples` is run once, and may be written to. Throws tv::Error.
Result compile(const torch::jit::Module& module,
               const std::vector<std::vector<c10::IValue>>& examples, const Options& options = {});

}  // namespace tv::script
