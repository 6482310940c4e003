#pragma once
// What tells whether a tensor was written to since it was last looked at.

#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

namespace tv::torch_bindings {

/// Of a tensor that carries one, its version counter in the first word; of an inference tensor a
/// digest of its bytes, which no change of a single word leaves as it is.
using WeightState = std::array<uint64_t, 8>;

/// The weights of a call with their states, of which those that cost time are computed once.
class StatedWeights {
 public:
  explicit StatedWeights(const std::vector<at::Tensor>& weights);

  size_t size() const { return weights_.size(); }
  const at::Tensor& operator[](size_t i) const { return weights_[i]; }
  const std::vector<at::Tensor>& tensors() const { return weights_; }
  WeightState state(size_t i) const;

 private:
  const std::vector<at::Tensor>& weights_;
  std::vector<WeightState> digests_;  ///< by position; empty if all weights carry versions
};

}  // namespace tv::torch_bindings
