#pragma once

#include <map>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/passes/kit/product_operands.h"

namespace tv {

/// A read of a tensor's integers as such.
struct IntegerRead {
  std::string op;                   ///< that reads them
  std::string source, module_path;  ///< of the node
};

/// What became of tensors of integers, by their names.
struct IntegerReads {
  std::map<std::string, std::vector<IntegerRead>> reads;
  std::map<std::string, std::string>
      refused;  ///< why a product with the tensor is none of integers

  void add(const std::string& tensor, const Node& node) {
    reads[tensor].push_back({node.op, node.source, node.module_path});
  }
};

/// Why a product of two tensors of integers is not computed as one of them; nullptr where it is.
/// `a_blocks`, `b_blocks`: how many scales the operands have along each dimension.
const char* why_not_of_integers(const Graph& graph, const ProductOperands& product,
                                const Shape& a_blocks, const Shape& b_blocks);

/// Makes products and convolutions of two tensors that are both tv::dequantize of 8-bit integers
/// products of the integers: tv::matmul_integer and tv::convolution_integer, whose exact sums are
/// then scaled; of transposed convolutions tv::convolution_scaled, which is to be translated.
/// Scales must not change along what is summed, and 32 bits must hold the sums. `reads`, where
/// given, gets the operators that read each tensor so, products of integers in the model among
/// them, and why others with it are not.
Graph multiply_integers(Graph graph, IntegerReads* reads = nullptr);

}  // namespace tv
