#include "csrc/passes/kit/quantised_pieces.h"

#include <algorithm>
#include <set>
#include <string>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/moves.h"

namespace tv {
namespace {

constexpr int64_t kSmallestBlock = 8;  // smaller ones have more bytes of scales than of elements

bool is_small_integer(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

class Matcher {
 public:
  explicit Matcher(const PiecesGraph& graph) : g_(graph) {}

  std::optional<QuantisedPieces> match(ValueId value) const {
    const Shape whole = shape(value);
    const ValueId scaled = without(value, true);
    const Node* mul = g_.maker(scaled);
    if (!mul || mul->op != "aten::mul.Tensor") return std::nullopt;
    for (const auto& [x, scale] : {std::pair{"self", "other"}, std::pair{"other", "self"}}) {
      auto found = parts(mul->input(x), mul->input(scale), whole, shape(scaled));
      if (found) return found;
    }
    return std::nullopt;
  }

 private:
  const Shape& shape(ValueId value) const { return g_.graph.value(value).shape; }
  DType dtype(ValueId value) const { return g_.graph.value(value).dtype; }
  bool is_constant(ValueId value) const { return g_.constant[static_cast<size_t>(value)]; }

  /// `value` before casts that keep integers of 8 bits, and before reshapes where `reshapes`.
  ValueId without(ValueId value, bool reshapes) const {
    for (const Node* node = g_.maker(value); node; node = g_.maker(value)) {
      const bool wide =
          is_float(dtype(value)) || (is_integer(dtype(value)) && !is_small_integer(dtype(value)));
      if (!(node->op == "aten::_to_copy" && wide) && !(reshapes && keeps_order(*node))) break;
      value = node->input("self");
    }
    return value;
  }

  /// (input - zero_point) of `core`'s shape, which is a reshaped `whole`, and its scale.
  std::optional<QuantisedPieces> parts(ValueId x, ValueId scale, const Shape& whole,
                                       const Shape& core) const {
    QuantisedPieces found{.shape = whole};
    found.q.scale = scale;
    if (x == kNoValue || scale == kNoValue || !is_constant(scale) || !is_float(dtype(scale)) ||
        !(shape(x) == core)) {
      return std::nullopt;
    }
    const auto blocks = blocks_of(core, shape(scale), whole);
    if (!blocks || !are_large(*blocks, whole)) return std::nullopt;
    found.blocks = *blocks;
    x = without(x, false);
    const Node* sub = g_.maker(x);
    if (sub && sub->op == "aten::sub.Tensor" && is_one(*sub, "alpha")) {
      x = sub->input("self");
      const ValueId zero = sub->input("other");
      if (!is_constant(zero) || !(shape(x) == core)) return std::nullopt;
      if (blocks_of(core, shape(zero), whole) != blocks) return std::nullopt;
      found.q.zero_point = without(zero, true);
    }
    found.q.input = without(x, true);
    if (found.q.zero_point == kNoValue) take_decoded(found.q);
    if (!is_small_integer(dtype(found.q.input)) || !is_constant(found.q.input)) {
      return std::nullopt;
    }
    return found;
  }

  /// In place of numbers that are decoded, and which 16 bits hold exactly, their codes.
  void take_decoded(Quantised& q) const {
    const Node* made = g_.maker(q.input);
    if (!made || made->op != "tv::dequantize") return;
    const Quantised codes = quantised_of(*made);
    if (codes.has_integers() || codes.scale != kNoValue || codes.format == "float8_e8m0fnu") return;
    q.input = codes.input;
    q.bits = codes.bits;
    q.format = codes.format;
    take_powers(q);
  }

  /// In place of scales that are decoded powers of two, which float32 and bfloat16 hold exactly,
  /// their codes.
  void take_powers(Quantised& q) const {
    const Node* made = g_.maker(q.scale);
    for (; made && made->op != "tv::dequantize"; made = g_.maker(made->input("self"))) {
      const DType type = dtype(made->outputs[0]);
      const bool exact = type == DType::kF32 || type == DType::kBF16;
      if (!exact || !(made->op == "aten::_to_copy" || keeps_order(*made))) return;
    }
    const bool exact =
        made && (dtype(made->outputs[0]) == DType::kF32 || dtype(made->outputs[0]) == DType::kBF16);
    if (!exact) return;
    const Quantised scale = quantised_of(*made);
    if (scale.format != "float8_e8m0fnu" || scale.scale != kNoValue) return;
    q.scale = scale.input;
    q.scale_format = scale.format;
  }

  /// Blocks of a tensor of shape `whole` whose elements, as `core`, meet scales of shape `of`.
  static std::optional<Shape> blocks_of(Shape core, const Shape& of, const Shape& whole) {
    Shape scales(core.size() - std::min(of.size(), core.size()), Expr(1));
    scales.insert(scales.end(), of.begin(), of.end());
    if (scales.size() != core.size()) return std::nullopt;
    Shape blocks;
    size_t at = 0;
    for (const Expr& size : whole) {
      split(core, scales, at, size);
      Expr covered = 1, count = 1;
      bool repeats = false;
      while (at < core.size() && !(covered == size && !(core[at] == Expr(1)))) {
        const bool each = scales[at] == core[at];
        if (!each && !(scales[at] == Expr(1))) return std::nullopt;
        if (each && repeats && !(core[at] == Expr(1))) return std::nullopt;
        repeats |= !each;
        covered *= core[at];
        count *= scales[at];
        ++at;
      }
      if (!(covered == size)) return std::nullopt;
      blocks.push_back(count);
    }
    return at == core.size() ? std::optional(blocks) : std::nullopt;
  }

  /// A dimension that the result's dimension of `size` is the outer part of becomes two.
  static void split(Shape& core, Shape& scales, size_t at, const Expr& size) {
    if (at == core.size()) return;
    const auto joined = core[at].constant(), outer = size.constant();
    if (!joined || !outer || *outer < 1 || *joined <= *outer || *joined % *outer != 0) return;
    const Expr inner(*joined / *outer);
    const bool each = scales[at] == core[at];
    if (!each && !(scales[at] == Expr(1))) return;
    core[at] = size;
    core.insert(core.begin() + static_cast<ptrdiff_t>(at) + 1, inner);
    scales[at] = each ? size : Expr(1);
    scales.insert(scales.begin() + static_cast<ptrdiff_t>(at) + 1, each ? inner : Expr(1));
  }

  static bool are_large(const Shape& blocks, const Shape& whole) {
    const auto count = product(blocks).constant(), elements = product(whole).constant();
    return count && elements && *count * kSmallestBlock <= *elements;
  }

  const PiecesGraph& g_;
};

}  // namespace

const Node* PiecesGraph::maker(ValueId value) const {
  const int32_t index = made_by[static_cast<size_t>(value)];
  return index < 0 ? nullptr : &nodes[static_cast<size_t>(index)];
}

std::optional<QuantisedPieces> quantised_pieces(const PiecesGraph& graph, ValueId value) {
  return Matcher(graph).match(value);
}

std::set<ValueId> live_values(const Graph& graph) {
  std::set<ValueId> live;
  for (const GraphOutput& output : graph.outputs) live.insert(output.value);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (std::ranges::none_of(node.outputs, [&](ValueId v) { return live.contains(v); })) continue;
    for (const ValueId input : node.all_inputs()) live.insert(input);
  }
  return live;
}

}  // namespace tv
