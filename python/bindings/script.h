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
  std::string device;  ///< as for open_device; "": the best
  bool immutable_weights = false;
  bool pass_through_build_failures = false;
  /// For engines with ranges of sizes, the examples are one call at several sizes: the first
  /// `fitted` of them show how the program's sizes depend on each other, the rest are the bounds.
  /// 0: engines are for the sizes of the examples.
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
  std::vector<Native> native;  ///< nodes that do work and that PyTorch runs
  int64_t compute_nodes = 0, covered_nodes = 0;
  bool is_whole() const { return covered_nodes == compute_nodes; }
  std::vector<std::string> failures;  ///< engines that were not built, and why
  std::vector<std::string> reports;   ///< of a dry run, for each stretch of code (script/report.h)
};

/// Compiles `forward` for these inputs. An engine runs if a call's tensors have the example's
/// dtypes and sizes, or sizes between those of the examples (Options::fitted), and numbers that
/// shapes depend on have the example's values; otherwise the same nodes run natively. `forward`
/// runs once on each set of `examples`, and may write to it. Throws tv::Error.
Result compile(const torch::jit::Module& module,
               const std::vector<std::vector<c10::IValue>>& examples, const Options& options = {});

}  // namespace tv::script
