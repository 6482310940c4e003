#include "python/bindings/torch/weight_state.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace tv::torch_bindings {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

/// Two words that the compiler keeps in one register: what every x86-64 and every 64-bit ARM has
/// instructions for. Multiplication of 64-bit words is not among these, shifts and sums are.
using Words [[gnu::vector_size(16)]] = uint64_t;
using Lanes = std::array<Words, 8>;

Lanes start_of(uint64_t seed) {
  Lanes lanes;
  for (uint64_t i = 0; i < lanes.size(); ++i) {
    const uint64_t first = (seed + 2 * i + 1) * 0x9e3779b97f4a7c15ULL;
    lanes[i] = Words{first, first + 0x9e3779b97f4a7c15ULL};
  }
  return lanes;
}

// A bijection of the lane for a given word, and of the word for a given lane.
Words stir(Words lane, Words word) {
  lane ^= word;
  lane += lane << 17;
  return lane ^ (lane >> 29);
}

void stir(Lanes& lanes, const Lanes& words) {
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = stir(lanes[i], words[i]);
}

void add(Lanes& lanes, const uint8_t* bytes, size_t size) {
  Lanes words;
  for (; size >= sizeof(words); bytes += sizeof(words), size -= sizeof(words)) {
    std::memcpy(words.data(), bytes, sizeof(words));
    stir(lanes, words);
  }
  if (size == 0) return;
  words = {};
  std::memcpy(words.data(), bytes, size);
  stir(lanes, words);
}

// Of memory that the host cannot read: equal to no other.
WeightState unknown() {
  static std::atomic<uint64_t> count{0};
  return {++count};
}

/// Bytes in pieces that threads take.
struct Piece {
  const uint8_t* first;
  size_t size;
  Lanes lanes;
};

void cut(std::vector<Piece>& pieces, const void* bytes, size_t size) {
  const auto* first = static_cast<const uint8_t*>(bytes);
  for (size_t at = 0; at < size; at += kPieceBytes)
    pieces.push_back({first + at, std::min(kPieceBytes, size - at), start_of(0)});
}

void read(std::vector<Piece>& pieces) {
  at::parallel_for(0, static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end); ++p)
      add(pieces[p].lanes, pieces[p].first, pieces[p].size);
  });
}

/// Of a tensor of `size` bytes, whose pieces begin at `piece`, which is moved to the next one's.
WeightState state_of(std::vector<Piece>::const_iterator& piece, size_t size) {
  Lanes lanes = start_of(size);
  for (size_t at = 0; at < size; at += kPieceBytes, ++piece) stir(lanes, piece->lanes);
  WeightState state;
  for (size_t i = 0; i < state.size() / 2; ++i) {
    const Words both = stir(lanes[i], lanes[i + state.size() / 2]);
    state[2 * i] = both[0];
    state[2 * i + 1] = both[1];
  }
  return state;
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

StatedWeights::StatedWeights(const std::vector<at::Tensor>& weights) : weights_(weights) {
  std::vector<at::Tensor> dense(weights.size());
  std::vector<Piece> pieces;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (counts_writes(weights[i])) continue;
    if (digests_.empty()) digests_.resize(weights.size());
    if (weights[i].is_inference()) warn_of(weights[i]);
    if (!weights[i].is_cpu()) continue;
    dense[i] = weights[i].is_non_overlapping_and_dense() ? weights[i] : weights[i].contiguous();
    cut(pieces, dense[i].const_data_ptr(), dense[i].nbytes());
  }
  read(pieces);
  auto piece = pieces.cbegin();
  for (size_t i = 0; i < digests_.size(); ++i) {
    if (counts_writes(weights[i])) continue;
    digests_[i] = dense[i].defined() ? state_of(piece, dense[i].nbytes()) : unknown();
  }
}

WeightState StatedWeights::state(size_t i) const {
  if (!counts_writes(weights_[i])) return digests_[i];
  return {static_cast<uint64_t>(weights_[i]._version())};
}

}  // namespace tv::torch_bindings
