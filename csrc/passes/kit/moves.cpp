#include "csrc/passes/kit/moves.h"

#include <algorithm>
#include <numeric>

namespace tv {

std::optional<std::vector<int64_t>> permutation(const Graph& graph, const Node& node) {
  if (!moves(node, {Moves::kPermutes})) return std::nullopt;
  const int64_t rank = graph.rank(node.outputs.at(0));
  const auto wrapped = [&](int64_t d) { return d < 0 ? d + rank : d; };
  if (node.find("dims") != nullptr) {
    std::vector<int64_t> dims = node.integers("dims");
    for (int64_t& d : dims) d = wrapped(d);
    return dims;
  }
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  const bool axes = node.find("axis0") != nullptr;  // as numpy calls them
  if (axes || node.find("dim0") != nullptr) {
    const int64_t a = wrapped(node.integer(axes ? "axis0" : "dim0"));
    const int64_t b = wrapped(node.integer(axes ? "axis1" : "dim1"));
    if (rank > 0) std::swap(dims.at(static_cast<size_t>(a)), dims.at(static_cast<size_t>(b)));
  } else if (node.op == "aten::numpy_T") {
    std::ranges::reverse(dims);
  } else if (rank >= 2) {
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  }
  return dims;
}

std::optional<double> padding_of(const Node& node) {
  const Arg& value = node.arg("value");
  if (value.is_tensor) return std::nullopt;
  if (std::holds_alternative<std::monostate>(value.attr)) return 0.0;
  const Expr* whole = std::get_if<Expr>(&value.attr);
  return whole && !whole->is_constant() ? std::nullopt : std::optional(node.number("value"));
}

void pad_by(Node& node, Arg value) {
  node.op = value.is_tensor ? "tv::constant_pad" : "aten::constant_pad_nd";
  for (Arg& arg : node.args) {
    if (arg.name == value.name) arg = value;
  }
}

bool has_no_empty_window(const Node& node) {
  // PyTorch pads by half a window at most, so neighbours reach into the input.
  const auto all = [&](const char* arg, int64_t number) {
    return !node.has(arg) ||
           std::ranges::all_of(node.exprs(arg), [&](const Expr& e) { return e == Expr(number); });
  };
  return all("dilation", 1) || all("padding", 0);
}

}  // namespace tv
