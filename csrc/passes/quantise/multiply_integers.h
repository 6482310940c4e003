#pragma once

#include <map>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// Reads of a tv::dequantize's integers by products and convolutions of integers, by the name of
/// the tensor that holds them.
using IntegerReads = std::map<std::string, std::vector<std::string>>;

/// Makes products and convolutions of two tensors that are both tv::dequantize of 8-bit integers
/// products of the integers: tv::matmul_integer and tv::convolution_integer, whose exact sums are
/// then scaled; of transposed convolutions tv::convolution_scaled, which is to be translated.
/// Scales must not change along what is summed, and 32 bits must hold the sums. `reads`, where
/// given, gets the operators that read each tensor so.
Graph multiply_integers(Graph graph, IntegerReads* reads = nullptr);

}  // namespace tv
