#pragma once
// What passes of quantised products and convolutions ask of a node.

#include <optional>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// a · bᵀ + bias, or a · b + bias where the rows of b are steps of the sum.
struct ProductOperands {
  ValueId a = kNoValue, b = kNoValue, bias = kNoValue;
  bool b_by_steps = false;
};

/// What a product reads (Converter::product); nothing of one that scales its parts.
std::optional<ProductOperands> product_of(const Node& node);

/// Whether it is one, scaled or not.
bool is_product(const Node& node);

/// Whether it hands a matrix on transposed.
bool swaps_dimensions(const Node& node);

/// Whether it is a convolution (Converter::convolves), and one that is not transposed.
bool convolves(const Node& node);
bool is_convolution(const Node& node);

/// Whether 32 bits hold a sum of so many products of 8-bit integers, whatever their zero points.
bool sums_fit(const Graph& graph, const Expr& terms);

/// A product or convolution with a constant weight, which would be one of integers were both
/// operands quantised, the weight with a scale for each channel.
struct Quantisable {
  ValueId input = kNoValue, weight = kNoValue;
  size_t channels = 0;  ///< the dimension of the weight that they are
};

/// Which nodes of a graph, which keeps its nodes meanwhile, are quantisable. What the model itself
/// quantised is left as it is.
class QuantisableNodes {
 public:
  explicit QuantisableNodes(const Graph& graph);
  std::optional<Quantisable> of(const Node& node) const;

 private:
  bool holds_bytes(ValueId weight) const;
  bool is_dequantised(ValueId value) const;

  const Graph& graph_;
  const std::vector<bool> constant_;
  const std::vector<int32_t> made_by_;
};

}  // namespace tv
