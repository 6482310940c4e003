#include "csrc/passes/quantised_pieces.h"

#include <set>
#include <string>

#include "csrc/graph/edit.h"

namespace tv {
namespace {

constexpr int64_t kSmallestBlock = 8;  // smaller ones have more bytes of scales than of elements

/// Row-major elements stay as they are.
bool is_reshape(const Node& node) {
  static const std::set<std::string, std::less<>> ops = {
      "aten::view",         "aten::reshape", "aten::_unsafe_view", "aten::unsqueeze",
      "aten::squeeze",      "aten::alias",   "aten::squeeze.dim",  "aten::flatten.using_ints",
      "aten::squeeze.dims", "aten::detach",  "aten::clone",        "aten::contiguous"};
  return ops.contains(node.op);
}

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
      if (!(node->op == "aten::_to_copy" && wide) && !(reshapes && is_reshape(*node))) break;
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
    if (!is_small_integer(dtype(found.q.input)) || !is_constant(found.q.input)) {
      return std::nullopt;
    }
    return found;
  }

  /// Blocks of a tensor of shape `whole` whose elements, as `core`, meet scales of shape `of`.
  static std::optional<Shape> blocks_of(const Shape& core, const Shape& of, const Shape& whole) {
    Shape scales(core.size() - std::min(of.size(), core.size()), Expr(1));
    scales.insert(scales.end(), of.begin(), of.end());
    Shape blocks;
    size_t at = 0;
    for (const Expr& size : whole) {
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

}  // namespace tv
