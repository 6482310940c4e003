#include "csrc/passes/kit/product_operands.h"

#include <set>
#include <string>

#include "csrc/converter.h"
#include "csrc/graph/edit.h"
#include "csrc/passes/kit/moves.h"

namespace tv {

std::optional<ProductOperands> product_of(const Node& node) {
  const Converter* converter = Registry::instance().find(node.op);
  if (!converter || !converter->product) return std::nullopt;
  if (!is_one(node, "beta") || !is_one(node, "alpha")) return std::nullopt;
  const ProductArgs& args = *converter->product;
  return ProductOperands{.a = node.input(args.a),
                         .b = node.input(args.b),
                         .bias = args.bias ? node.input(args.bias) : kNoValue,
                         .b_by_steps = args.b_by_steps};
}

bool is_product(const Node& node) {
  const Converter* converter = Registry::instance().find(node.op);
  return converter && converter->product.has_value();
}

bool swaps_dimensions(const Node& node) {
  const auto wrapped = [](int64_t dim) { return dim < 0 ? dim + 2 : dim; };
  if (!moves(node, {Moves::kPermutes})) return false;
  if (node.find("dims") != nullptr) return wrapped(node.integers("dims").at(0)) == 1;
  for (const auto& [first, second] : {std::pair{"dim0", "dim1"}, {"axis0", "axis1"}}) {
    if (node.find(first) == nullptr) continue;
    return wrapped(node.integer(first)) != wrapped(node.integer(second));
  }
  return true;
}

bool convolves(const Node& node) {
  const Converter* converter = Registry::instance().find(node.op);
  return converter && converter->convolves;
}

bool is_convolution(const Node& node) { return convolves(node) && !node.flag("transposed"); }

bool sums_fit(const Graph& graph, const Expr& terms) {
  constexpr int64_t kMostTerms = ((int64_t{1} << 31) - 1) / (255 * 255);
  return terms.bounds(graph.symbols).second <= kMostTerms;
}

namespace {

std::optional<Quantisable> operands_of(const Graph& graph, const Node& node) {
  if (is_convolution(node)) {
    const Arg* padding = node.find("padding");
    if (!padding || std::holds_alternative<std::string>(padding->attr)) return std::nullopt;
    const Quantisable found{node.input("input"), node.input("weight"), 0};
    const Shape& weight = graph.value(found.weight).shape;
    const Shape& whole = graph.value(node.outputs.at(0)).shape;
    const bool fits =
        whole.size() == weight.size() && sums_fit(graph, product(std::span(weight).subspan(1)));
    return fits ? std::optional(found) : std::nullopt;
  }
  const auto factors = product_of(node);
  if (!factors || factors->a == kNoValue || factors->b == kNoValue) return std::nullopt;
  const Shape& a = graph.value(factors->a).shape;
  if (a.size() < 2 || graph.rank(factors->b) != 2 || !sums_fit(graph, a.back())) {
    return std::nullopt;
  }
  return Quantisable{factors->a, factors->b, factors->b_by_steps ? size_t{1} : 0};
}

}  // namespace

QuantisableNodes::QuantisableNodes(const Graph& graph)
    : graph_(graph), constant_(constant_values(graph)), made_by_(producers(graph)) {}

/// Whether a weight is computed from integers of 8 bits.
bool QuantisableNodes::holds_bytes(ValueId weight) const {
  std::set<ValueId> seen = {weight};
  std::vector<ValueId> waiting = {weight};
  while (!waiting.empty()) {
    const ValueId value = waiting.back();
    waiting.pop_back();
    const DType dtype = graph_.value(value).dtype;
    if (dtype == DType::kI8 || dtype == DType::kU8) return true;
    const int32_t maker = made_by_[static_cast<size_t>(value)];
    if (maker < 0) continue;
    for (const ValueId read : graph_.nodes[static_cast<size_t>(maker)].all_inputs()) {
      if (seen.insert(read).second) waiting.push_back(read);
    }
  }
  return false;
}

/// Whether a library's operator dequantises it, behind views and casts.
bool QuantisableNodes::is_dequantised(ValueId value) const {
  for (int32_t maker = made_by_[static_cast<size_t>(value)]; maker >= 0;
       maker = made_by_[static_cast<size_t>(value)]) {
    const Node& node = graph_.nodes[static_cast<size_t>(maker)];
    if (node.op.find("dequantize") != std::string::npos) return true;
    if (node.all_inputs().size() != 1) return false;
    value = node.all_inputs().front();
  }
  return false;
}

std::optional<Quantisable> QuantisableNodes::of(const Node& node) const {
  const auto found = operands_of(graph_, node);
  if (!found) return std::nullopt;
  for (const ValueId v : {found->input, found->weight, node.outputs[0]}) {
    const DType dtype = graph_.value(v).dtype;
    if (!is_float(dtype) || dtype == DType::kF64) return std::nullopt;
  }
  const bool fits = !constant_[static_cast<size_t>(found->input)] &&
                    constant_[static_cast<size_t>(found->weight)];
  if (!fits || holds_bytes(found->weight) || is_dequantised(found->input)) return std::nullopt;
  return found;
}

}  // namespace tv
