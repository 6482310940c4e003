#include "csrc/passes/quantise/quantise_early.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/quantise/one_scale.h"
#include "csrc/passes/simplify/simplify.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

/// A quantisation, what is computed of each element before it, and what moves elements before that.
struct Late {
  std::vector<const Node*> chain;  ///< in order; the last is the tv::quantize
  const Node* mover = nullptr;
};

class EarlyQuantiser {
 public:
  explicit EarlyQuantiser(Graph& graph)
      : graph_(graph), makers_(graph), constant_(constant_values(graph)) {}

  /// False if there is nothing to do.
  bool run() {
    const std::vector<Node> nodes = graph_.nodes;
    for (const Node& node : nodes) {
      const auto late = node.op == "tv::quantize" ? late_of(node) : std::nullopt;
      if (late) quantise(*late);
      out_.push_back(node);  // nothing reads it then
    }
    graph_.nodes = std::move(out_);
    replaced_.apply(graph_);
    return !replaced_.empty();
  }

 private:
  bool is_constant(ValueId v) const { return constant_[static_cast<size_t>(v)]; }
  bool read_once(ValueId v) const { return makers_.only_reader(v) != nullptr; }
  Shape shape(ValueId v) const { return graph_.value(v).shape; }

  /// An operator of one tensor whose results follow from one element each.
  static bool is_of_elements(const Node& node) {
    const Converter* converter = Registry::instance().find(node.op);
    return converter && converter->pointwise && node.outputs.size() == 1 &&
           node.all_inputs().size() == 1;
  }

  std::optional<Late> late_of(const Node& quantize) const {
    Late late{.chain = {&quantize}};
    ValueId value = quantize.input("input");
    const Node* node = makers_.maker(value);
    for (; node && is_of_elements(*node) && read_once(value); node = makers_.maker(value)) {
      late.chain.insert(late.chain.begin(), node);
      value = node->all_inputs()[0];
    }
    if (!node || !read_once(value) || node->outputs.at(0) != value) return std::nullopt;
    late.mover = node;
    return is_worth_it(late) && keeps_results(late) ? std::optional(late) : std::nullopt;
  }

  /// Whether moving and what is computed of elements can change places.
  bool keeps_results(const Late& late) const {
    const Node& mover = *late.mover;
    const std::vector<ValueId> read = mover.all_inputs();
    switch (moves_of(mover.op)) {
      case Moves::kNothing:
      case Moves::kCasts:
      case Moves::kMeans:
      case Moves::kParts:
        return false;
      case Moves::kPads:
        return read.size() == 1 && padding(late).has_value();
      case Moves::kLargest:
        return late.chain.size() == 1 && read.size() == 1 && takes_largest(late);
      case Moves::kJoins:
      case Moves::kStacks:
        return true;
      default:
        return read.size() == 1;
    }
  }

  bool takes_largest(const Late& late) const {
    const Node& mover = *late.mover;
    for (size_t i = 1; i < mover.outputs.size(); ++i) {
      const ValueId out = mover.outputs[i];
      if (out != kNoValue && (makers_.is_result(out) || !makers_.readers(out).empty())) {
        return false;
      }
    }
    const Quantising q = quantising_of(*late.chain[0]);
    const bool grows = q.scale == kNoValue ? q.step > 0 : is_positive(graph_, makers_, q.scale);
    return grows && has_no_empty_window(mover) && is_never_nan(mover.all_inputs()[0]);
  }

  /// Integers times scales, and what follows from such numbers and constants: of NaN a pool makes
  /// NaN, a quantisation some integer.
  bool is_never_nan(ValueId value) const {
    if (is_constant(value)) return true;
    const Node* node = makers_.maker(value);
    if (!node) return false;
    if (is_integer(graph_.value(value).dtype) || node->op == "tv::dequantize") return true;
    const bool scales = node->op == "tv::pointwise" && is_linear(*node);
    const bool keeps = node->op == "aten::relu" || node->op == "aten::hardtanh" ||
                       moves_of(node->op) != Moves::kNothing;
    if (!scales && !keeps) return false;
    return std::ranges::all_of(node->all_inputs(), [&](ValueId v) { return is_never_nan(v); });
  }

  static bool is_linear(const Node& node) {
    return std::ranges::all_of(node.program->instrs, [](const PointwiseInstr& instr) {
      return instr.function == "mul" || instr.function == "add" || instr.function == "cast";
    });
  }

  /// Whether what makes the operands can compute the chain as it stores them.
  bool is_worth_it(const Late& late) const {
    const std::vector<ValueId> read = late.mover->all_inputs();
    if (read.empty()) return false;
    return std::ranges::all_of(read, [&](ValueId v) {
      if (!makers_.maker(v) || is_constant(v) || !is_float(graph_.value(v).dtype)) return false;
      return read_once(v) || of_one_scale(graph_, makers_, v).has_value();
    });
  }

  /// The integer that the number around the elements becomes, as the argument `value`.
  std::optional<Arg> padding(const Late& late) const {
    const std::optional<double> number = padding_of(*late.mover);
    const Quantising q = quantising_of(*late.chain.back());
    if (late.chain.size() > 1 || !number) return std::nullopt;
    const auto of_number = [](int64_t integer) { return attr_arg("value", Expr(integer)); };
    if (std::isinf(*number)) return of_number(*number < 0 ? q.least : q.most);
    if (*number != 0) return std::nullopt;
    if (const auto zero = number_of(graph_, makers_, q.zero_point)) {
      return of_number(static_cast<int64_t>(
          std::clamp(*zero, static_cast<double>(q.least), static_cast<double>(q.most))));
    }
    const DType dtype = graph_.value(late.chain.back()->outputs[0]).dtype;
    const bool is_signed = dtype == DType::kI8;
    const bool clips = q.least > (is_signed ? -128 : 0) || q.most < (is_signed ? 127 : 255);
    return clips ? std::nullopt : zero_point_arg(graph_, makers_, "value", q.zero_point, dtype);
  }

  void quantise(const Late& late) {
    const Node& quantize = *late.chain.back();
    Node moved = *late.mover;
    for (Arg& arg : moved.args) {
      if (!arg.is_tensor) continue;
      for (ValueId& value : arg.values) {
        if (value != kNoValue) value = computed(late.chain, value);
      }
    }
    if (moves_of(moved.op) == Moves::kPads) pad_by(moved, *padding(late));
    const ValueId out = quantize.outputs[0];
    std::vector<std::pair<DType, Shape>> types = {{graph_.value(out).dtype, shape(out)}};
    for (size_t i = 1; i < moved.outputs.size(); ++i) {
      if (moved.outputs[i] == kNoValue) continue;
      types.emplace_back(graph_.value(moved.outputs[i]).dtype, shape(moved.outputs[i]));
    }
    Rewriter like(graph_, *late.mover, out_);
    replaced_.add(out, like.add_multi(moved.op, std::move(moved.args), types).front());
  }

  /// The chain of one operand.
  ValueId computed(const std::vector<const Node*>& chain, ValueId value) {
    for (const Node* link : chain) {
      Rewriter rw(graph_, *link, out_);
      std::vector<Arg> args = link->args;
      const Shape whole = shape(value), ones(whole.size(), Expr(1));
      const ValueId before =
          link->op == "tv::quantize" ? link->input("input") : link->all_inputs()[0];
      for (Arg& arg : args) {
        for (ValueId& v : arg.values) {
          if (v == before) {
            v = value;
          } else if (v != kNoValue) {
            v = rw.reshape(v, ones);  // scale and zero point
          }
        }
      }
      value = rw.add(link->op, std::move(args), graph_.value(link->outputs[0]).dtype, whole);
    }
    return value;
  }

  Graph& graph_;
  const Makers makers_;
  const std::vector<bool> constant_;
  std::vector<Node> out_;
  Replacements replaced_;
};

}  // namespace

Graph quantise_early(Graph graph) {
  const auto is_quantize = [](const Node& node) { return node.op == "tv::quantize"; };
  if (std::ranges::none_of(graph.nodes, is_quantize)) return graph;
  for (bool again = true; again;) {
    graph = simplify(std::move(graph));
    again = EarlyQuantiser(graph).run();
    make_names_unique(graph);
  }
  return simplify(std::move(graph));
}

}  // namespace tv
