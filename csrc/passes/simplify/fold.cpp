#include "csrc/passes/simplify/fold.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/moves.h"

namespace tv {
namespace {

/// Where the same shape on both sides means the same elements in the same places.
bool keeps_elements(const Node& node) {
  return keeps_values(node) || keeps_order(node) ||
         moves(node, {Moves::kSpreads, Moves::kCuts, Moves::kParts});
}

bool is_dropout(const std::string& op) {
  return op == "aten::dropout" || op == "aten::native_dropout" || op == "aten::feature_dropout" ||
         op == "aten::alpha_dropout";
}

/// True if the instruction gives its one operand back, whatever it is.
bool is_identity(const PointwiseInstr& instr, DType input) {
  if (instr.operands.size() != 1 || instr.result != input || instr.compute != input) return false;
  if (instr.function == "copy" || instr.function == "cast") return true;
  if (instr.scalars.size() + instr.integers.size() != 1) return false;
  const double immediate =
      instr.scalars.empty() ? static_cast<double>(instr.integers[0]) : instr.scalars[0];
  if (instr.function == "mul" || instr.function == "div") return immediate == 1;
  // -0 - 0 is -0, but -0 + 0 is 0.
  if (instr.function == "sub") return immediate == 0 && !std::signbit(immediate);
  if (instr.function == "add")
    return immediate == 0 && (is_integer(input) || std::signbit(immediate));
  return false;
}

class Folder {
 public:
  explicit Folder(Graph graph)
      : graph_(std::move(graph)),
        made_by_(producers(graph_)),
        returned_(graph_.values.size(), false) {
    for (const GraphOutput& out : graph_.outputs) returned_[out.value] = true;
  }

  Graph run() {
    for (Node& node : graph_.nodes) {
      replaced_.apply(node);
      const ValueId same = equal_input(node);
      if (same == kNoValue || node.outputs.at(0) == kNoValue) continue;
      if (may_replace(node.outputs[0], same)) replaced_.add(node.outputs[0], same);
    }
    replaced_.apply(graph_);
    return std::move(graph_);
  }

 private:
  /// The input that outputs[0] equals in dtype, shape and elements, or kNoValue.
  ValueId equal_input(const Node& node) const {
    if (node.outputs.empty() || node.outputs[0] == kNoValue || node.epilogue || node.prologue) {
      return kNoValue;
    }
    const std::vector<ValueId> inputs = node.all_inputs();
    if (inputs.size() != 1) return kNoValue;
    const ValueId input = inputs[0];
    if (const auto undone = permutation_undone(node, input)) return *undone;
    const bool same = node.op == "tv::pointwise" ? is_identity_program(*node.program)
                      : is_dropout(node.op)      ? !node.flag("train")
                                                 : keeps_elements(node);
    return same && alike(node.outputs[0], input) ? input : kNoValue;
  }

  static bool is_identity_program(const PointwiseProgram& program) {
    if (program.inputs.size() != 1 || program.results.size() != 1) return false;
    if (program.results[0] == 0) return true;
    return program.instrs.size() == 1 && is_identity(program.instrs[0], program.inputs[0]);
  }

  bool alike(ValueId a, ValueId b) const {
    return graph_.value(a).dtype == graph_.value(b).dtype &&
           graph_.value(a).shape == graph_.value(b).shape;
  }

  /// What a permutation, or this one after the one before it, shows unpermuted.
  std::optional<ValueId> permutation_undone(const Node& node, ValueId input) const {
    const std::optional<std::vector<int64_t>> outer = permutation(graph_, node);
    if (!outer) return std::nullopt;
    if (std::is_sorted(outer->begin(), outer->end())) return input;
    if (made_by_[input] < 0) return std::nullopt;
    const Node& before = graph_.nodes[made_by_[input]];
    const std::optional<std::vector<int64_t>> inner = permutation(graph_, before);
    if (!inner) return std::nullopt;
    for (size_t d = 0; d < outer->size(); ++d) {
      if ((*inner)[(*outer)[d]] != static_cast<int64_t>(d)) return std::nullopt;
    }
    return before.all_inputs().front();
  }

  /// An output needs a node that writes it, and one of its own.
  bool may_replace(ValueId output, ValueId by) const {
    return !returned_[output] || (made_by_[by] >= 0 && !returned_[by]);
  }

  Graph graph_;
  const std::vector<int32_t> made_by_;
  std::vector<bool> returned_;
  Replacements replaced_;
};

}  // namespace

Graph fold(Graph graph) { return Folder(std::move(graph)).run(); }

}  // namespace tv
