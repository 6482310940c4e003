#include "csrc/passes/quantise/move_integers.h"

#include <algorithm>
#include <optional>
#include <set>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/quantise/one_scale.h"
#include "csrc/passes/simplify/simplify.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

Arg* first_tensors(Node& node) {
  const auto at = std::ranges::find_if(node.args, [](const Arg& arg) { return arg.is_tensor; });
  return at == node.args.end() ? nullptr : &*at;
}

/// One node at a time: each has the nodes before it as they are by then.
class IntegerMover {
 public:
  IntegerMover(Graph& graph, IntegerReads* reads, std::set<ValueId>& moved)
      : graph_(graph),
        makers_(graph),
        constant_(constant_values(graph)),
        reads_(reads),
        moved_(moved) {}

  /// Moves what is behind one layer of dequantising; false if there is nothing.
  bool run() {
    const std::vector<Node> nodes = graph_.nodes;
    bool any = false;
    for (const Node& node : nodes) {
      if (move(node) || drop(node)) {
        any = true;
      } else {
        out_.push_back(node);
      }
    }
    graph_.nodes = std::move(out_);
    replaced_.apply(graph_);
    return any;
  }

 private:
  std::optional<Quantised> integers_of(ValueId value) const {
    if (value == kNoValue || constant_[static_cast<size_t>(value)]) return std::nullopt;
    return of_one_scale(graph_, makers_, value);
  }

  bool is_used(ValueId v) const {
    return v != kNoValue && (makers_.is_result(v) || !makers_.readers(v).empty());
  }

  /// What all operands of a node that moves them are; nullopt where it cannot move integers.
  std::optional<Quantised> source_of(const Node& node) const {
    const std::vector<ValueId> read = node.all_inputs();
    const Moves how = moves_of(node.op);
    if (how == Moves::kNothing || how == Moves::kCasts || how == Moves::kMeans || read.empty()) {
      return std::nullopt;
    }
    const bool joins = how == Moves::kJoins || how == Moves::kStacks;
    if (!joins && read.size() != 1) return std::nullopt;
    const std::optional<Quantised> first = integers_of(read[0]);
    if (!first) return std::nullopt;
    for (const ValueId other : read) {
      const std::optional<Quantised> q = integers_of(other);
      const bool alike = q && graph_.value(q->input).dtype == graph_.value(first->input).dtype &&
                         same_number(graph_, makers_, q->scale, first->scale) &&
                         same_number(graph_, makers_, q->zero_point, first->zero_point);
      if (!alike) return std::nullopt;
    }
    if (how == Moves::kLargest && !takes_largest(node, first->scale)) return std::nullopt;
    if (how == Moves::kPads && !padding(node, *first)) return std::nullopt;
    return first;
  }

  /// Whether the largest integers are those of the largest floats, and each window has some.
  bool takes_largest(const Node& node, ValueId scale) const {
    for (size_t i = 1; i < node.outputs.size(); ++i) {
      if (is_used(node.outputs[i])) return false;  // equal floats may be of two integers
    }
    return is_positive(graph_, makers_, scale) && has_no_empty_window(node);
  }

  /// What stands for 0 around integers, as the argument `value`.
  std::optional<Arg> padding(const Node& node, const Quantised& q) const {
    if (padding_of(node) != 0) return std::nullopt;
    return zero_point_arg(graph_, makers_, "value", q.zero_point, graph_.value(q.input).dtype);
  }

  bool move(const Node& node) {
    const std::optional<Quantised> q = source_of(node);
    if (!q) return false;
    Rewriter rw(graph_, node, out_);
    Node moved = node;
    for (ValueId& value : first_tensors(moved)->values) {
      const ValueId integers = integers_of(value)->input;
      if (reads_ && !moved_.contains(integers)) {
        reads_->add(graph_.value(integers).name, node);
      }
      value = integers;
    }
    if (moves_of(node.op) == Moves::kPads) pad_by(moved, *padding(node, *q));
    std::vector<std::pair<DType, Shape>> types;
    for (const ValueId out : node.outputs) {
      if (out != kNoValue) types.emplace_back(graph_.value(q->input).dtype, shape(out));
    }
    const std::vector<ValueId> made = rw.add_multi(moved.op, std::move(moved.args), types);
    moved_.insert(made.begin(), made.end());
    size_t next = 0;
    for (const ValueId out : node.outputs) {
      if (out != kNoValue) dequantise(rw, *q, made[next++], out);
    }
    return true;
  }

  Shape shape(ValueId value) const { return graph_.value(value).shape; }

  void dequantise(Rewriter& rw, Quantised q, ValueId integers, ValueId out) {
    const Shape ones(shape(out).size(), Expr(1));
    q.input = integers;
    for (ValueId* part : {&q.scale, &q.zero_point}) {
      if (*part != kNoValue) *part = rw.reshape(*part, ones);
    }
    const DType dtype = graph_.value(out).dtype;
    replaced_.add(out, rw.add("tv::dequantize", arguments_of(q), dtype, shape(out)));
  }

  /// What quantises dequantised integers as they were.
  bool drop(const Node& node) {
    if (node.op != "tv::quantize") return false;
    const std::optional<Quantised> q = integers_of(node.input("input"));
    const ValueId out = node.outputs.at(0);
    if (!q || graph_.value(q->input).dtype != graph_.value(out).dtype) return false;
    if (makers_.is_result(out) && !makers_.maker(q->input)) return false;  // the input itself
    if (!undoes(graph_, makers_, quantising_of(node), *q)) return false;
    replaced_.add(out, q->input);
    return true;
  }

  Graph& graph_;
  const Makers makers_;
  const std::vector<bool> constant_;
  IntegerReads* reads_;
  std::set<ValueId>& moved_;  ///< what this pass made: on its way from a tensor that is told of
  std::vector<Node> out_;
  Replacements replaced_;
};

}  // namespace

Graph move_integers(Graph graph, IntegerReads* reads) {
  const auto is_dequantize = [](const Node& node) { return node.op == "tv::dequantize"; };
  if (std::ranges::none_of(graph.nodes, is_dequantize)) return graph;
  std::set<ValueId> moved;
  for (bool again = true; again;) {
    graph = simplify(std::move(graph));
    again = IntegerMover(graph, reads, moved).run();
    make_names_unique(graph);
  }
  return graph;
}

}  // namespace tv
