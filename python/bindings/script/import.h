#pragma once
// Straight-line nodes of torch::jit as the compiler's Graph.

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "csrc/graph/graph.h"
#include "python/bindings/recording/record.h"
#include "python/bindings/script/sizes.h"

namespace tv::script {

/// What was seen of one thing in several executions of a program. For an execution that did not
/// reach it, the first one's answer is used.
struct SampleRuns {
  std::vector<const Recording*> all;  ///< [0]: the one that the rest of the import reads
  size_t fitted = 1;                  ///< how many, from the first, decide the sizes (Sizes)

  /// By dimension: of the i-th tensor of a value, and of a result of the operators of a node.
  std::vector<Numbers> sizes(const torch::jit::Value* value, size_t i) const;
  std::vector<Numbers> strides(const torch::jit::Value* value, size_t i) const;  ///< as promised
  std::vector<Numbers> sizes(const torch::jit::Node* node, size_t call, size_t output) const;
  /// An argument that is not a tensor, by execution.
  std::vector<c10::IValue> argument(const torch::jit::Node* node, size_t call, size_t index) const;
  /// The number that a tensor without dimensions holds, and one that is not a tensor.
  std::vector<c10::IValue> number(const torch::jit::Value* value) const;
  std::vector<c10::IValue> plain(const torch::jit::Value* value) const;
};

/// What an import reads besides the nodes.
struct ImportContext {
  const Recording& recording;
  SampleRuns runs;
  Sizes* sizes = nullptr;  ///< over the whole program
  /// Values that are weights and what they are called; constants of the graph are weights, too.
  std::unordered_map<const torch::jit::Value*, std::string> weights;
  std::unordered_set<const torch::jit::Node*> hosts;     ///< host_nodes()
  std::unordered_set<const torch::jit::Value*> written;  ///< tensors that something writes to
  c10::Device device = c10::kCPU;                        ///< where tensors of engines live
};

/// A Graph and what its parts stand for.
struct Imported {
  Graph graph;
  std::vector<torch::jit::Node*> nodes;  ///< by Origin::index
  /// What the graph calls a tensor, or each of a list of them; and the other way round for weights.
  std::unordered_map<const torch::jit::Value*, std::vector<ValueId>> values;
  std::unordered_map<ValueId, torch::jit::Value*> weights;
};

/// The expression of a size; throws Error(kUnsupported) if there is none.
Expr expr_of(Sizes& sizes, const Numbers& values);

/// Why a node cannot be expressed as nodes of the Graph; "" if it can. Converters are not asked.
std::string refusal(const ImportContext& context, const torch::jit::Node* node);

/// Why nodes stay native, by node.
using Refusals = std::unordered_map<const torch::jit::Node*, std::string>;

/// `nodes` (of one block, in order) as a Graph. Those that are not expressible, or in `native`,
/// have a refusal in their Origin. `returned`: tensors and lists of them that become outputs. The
/// graph's symbols are those of `sizes`. Throws Error(kUnsupported).
Imported import_nodes(const ImportContext& context, const std::vector<torch::jit::Node*>& nodes,
                      const Refusals& native, const std::vector<torch::jit::Value*>& returned,
                      Sizes& sizes);

}  // namespace tv::script
