#pragma once
// What frontends that read files have in common: weights, and the sizes that inputs may have.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "runtime/base/dtype.h"
#include "runtime/base/expr.h"

namespace tv {

/// The sizes that a dimension of an input may have; min == max: a fixed one.
struct DimRange {
  int64_t min = 1, opt = 1, max = kUnbounded;
};

/// Bytes that stay valid as long as `owner` lives.
struct WeightBytes {
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
};

/// A weight of the graph, in the order of Graph::weights; `load` reads it, converts it where the
/// file stores it otherwise, and may be called again. Throws Error(kUser).
struct Weight {
  std::string name;
  DType dtype = DType::kOther;
  std::vector<int64_t> shape;
  std::function<WeightBytes()> load;
};

/// Of a model's file and of its weights, which may lie in other files: 64 hexadecimal digits.
std::string model_digest(std::span<const uint8_t> file, const std::vector<Weight>& weights);

/// Looks at the matrices among the weights, which are the graph's, for 2:4 sparsity
/// (Value::two_four).
void mark_sparse(Graph& graph, const std::vector<Weight>& weights);

}  // namespace tv
