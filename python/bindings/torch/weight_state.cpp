#include "python/bindings/torch/weight_state.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace tv::torch_bindings {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;

WeightState start_of(uint64_t seed) {
  WeightState lanes;
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = (seed + i + 1) * 0x9e3779b97f4a7c15ULL;
  return lanes;
}

// Each step is a bijection of the lane for a given word and of the word for a given lane.
uint64_t stir(uint64_t lane, uint64_t word) {
  return std::rotl((lane ^ word) * 0xd6e8feb86659fd93ULL, 29);
}

void add(WeightState& lanes, const uint8_t* bytes, size_t size) {
  for (; size >= sizeof(lanes); bytes += sizeof(lanes), size -= sizeof(lanes)) {
    WeightState words;
    std::memcpy(words.data(), bytes, sizeof(words));
    for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = stir(lanes[i], words[i]);
  }
  if (size == 0) return;
  WeightState words{};
  std::memcpy(words.data(), bytes, size);
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = stir(lanes[i], words[i]);
}

// Of memory that the host cannot read: equal to no other.
WeightState unknown() {
  static std::atomic<uint64_t> count{0};
  return start_of(++count);
}

WeightState digest_of(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return unknown();
  const at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  return digest(dense.const_data_ptr(), dense.nbytes());
}

/// Not where an inference tensor has been given another's data, either, though it says by
/// is_inference() that it is none then.
bool counts_writes(const at::Tensor& tensor) {
  return !tensor.is_inference() && tensor.unsafeGetTensorImpl()->version_counter().enabled();
}

void warn_of(const at::Tensor& tensor) {
  TORCH_WARN_ONCE(
      "torch_vulkan: a model's weights are inference tensors, which count no writes, so each call ",
      tensor.is_cpu() ? "reads all of their bytes" : "copies and packs all of them again",
      "; weights made, loaded or cloned outside of torch.inference_mode() cost calls nothing, and "
      "neither do any with immutable_weights=True");
}

}  // namespace

WeightState digest(const void* bytes, size_t size) {
  const auto* first = static_cast<const uint8_t*>(bytes);
  const auto total = static_cast<int64_t>(size);
  const int64_t pieces = (total + kPieceBytes - 1) / kPieceBytes;
  std::vector<WeightState> of_pieces(static_cast<size_t>(pieces));
  at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t at = p * kPieceBytes;
      WeightState& lanes = of_pieces[static_cast<size_t>(p)];
      lanes = start_of(0);
      add(lanes, first + at, static_cast<size_t>(std::min(kPieceBytes, total - at)));
    }
  });
  WeightState all = start_of(size);
  add(all, reinterpret_cast<const uint8_t*>(of_pieces.data()), of_pieces.size() * sizeof(all));
  return all;
}

StatedWeights::StatedWeights(const std::vector<at::Tensor>& weights) : weights_(weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (counts_writes(weights[i])) continue;
    if (digests_.empty()) digests_.resize(weights.size());
    if (weights[i].is_inference()) warn_of(weights[i]);
    digests_[i] = digest_of(weights[i]);
  }
}

WeightState StatedWeights::state(size_t i) const {
  if (!counts_writes(weights_[i])) return digests_[i];
  return {static_cast<uint64_t>(weights_[i]._version())};
}

}  // namespace tv::torch_bindings
