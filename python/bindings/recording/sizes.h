#pragma once
// Engines for ranges of sizes, in TorchScript: whether what they were made of is what the program
// does at the sizes of a call.
//
// A program's sizes are numbers that it computes as it runs; an engine's are expressions, found by
// looking at a few sizes. So at each new size the nodes that the engine stands for are run once on
// tensors without data, and the operators that they call are compared with the engine's: names,
// arguments, sizes of results.

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "python/bindings/recording/trace.h"
#include "runtime/base/expr.h"

namespace tv::script {

/// What an engine was made of, over its symbols.
struct SizeRule {
  std::set<std::string> whole;  ///< composite operators that are not taken apart
  std::vector<Shape> strides;   ///< of each input that is not row-major; empty of others
  std::string digest;           ///< of Trace::text
  std::vector<Expr> numbers;    ///< Trace::numbers

  std::string str() const;
  static SizeRule parse(const std::string& text);  ///< throws Error(kUser)
};

std::string digest_of(const std::string& text);

/// What a method `(self, Tensor[] inputs, Tensor[] weights) -> Tensor[]` does with tensors of these
/// types, which have no data.
Trace trace_without_data(const std::shared_ptr<torch::jit::Graph>& graph, const c10::IValue& self,
                         const std::vector<at::Tensor>& inputs,
                         const std::vector<at::Tensor>& weights,
                         const std::set<std::string>& whole);

/// A method of a program and the rule that it has to follow. Thread-safe.
class SizeCheck {
 public:
  /// `self`: a ScriptModule that has the method. Throws Error(kUser) if it has none.
  SizeCheck(const c10::IValue& self, const std::string& method, const std::string& rule);

  /// Throws Error(kUser) unless the rule holds for the tensors of a call, and `runs`; `symbols`:
  /// their sizes as the engine's symbols. Looks once at each size, thrice where that fails.
  void require(const c10::IValue& self, const std::vector<at::Tensor>& inputs,
               const std::vector<at::Tensor>& weights, const std::vector<int64_t>& symbols,
               const std::function<bool()>& runs);

 private:
  /// Nothing where PyTorch fails.
  std::optional<bool> holds(const c10::IValue& self, const std::vector<at::Tensor>& inputs,
                            const std::vector<at::Tensor>& weights,
                            const std::vector<int64_t>& symbols) const;

  SizeRule rule_;
  std::shared_ptr<torch::jit::Graph> graph_;
  std::mutex mutex_;
  std::map<std::vector<int64_t>, bool> known_;
  std::map<std::vector<int64_t>, int> failed_;  ///< looks
};

}  // namespace tv::script
