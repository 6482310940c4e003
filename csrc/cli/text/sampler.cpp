#include "csrc/cli/text/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "runtime/base/error.h"

namespace tv::cli {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Probabilities of scores that are not kNever for all.
void softmax(std::span<float> scores) {
  const float most = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - most);
  for (float& score : scores) score /= sum;
}

/// A draw of the exponential distribution of rate 1.
float exponential(uint32_t word) {
  return -std::log1p(-((static_cast<float>(word) + 0.5F) * 0x1p-32F));
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0];
    const uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(second >> 32U) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32U) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

Sampler::Sampler(const Sampling& sampling, size_t vocabulary)
    : sampling_(sampling), seen_(vocabulary) {}

void Sampler::add(int32_t token) { seen_[static_cast<size_t>(token)] = true; }

int32_t Sampler::choose(std::span<float> scores, int64_t length) {
  if (std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); })) {
    throw Error(ErrorKind::kUser, "[generate] the model gives scores that are no numbers (NaN)");
  }
  if (sampling_.repetition_penalty != 1) penalise(scores);
  if (!sampling_.draws) {
    return static_cast<int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }
  if (sampling_.temperature != 1) {
    const auto temperature = static_cast<float>(sampling_.temperature);
    for (float& score : scores) score /= temperature;
  }
  if (!std::isfinite(*std::max_element(scores.begin(), scores.end()))) {
    throw Error(ErrorKind::kUser,
                "[generate] the largest score over the temperature is infinite: there is no "
                "probability to draw by");
  }
  if (sampling_.top_k > 0) keep_top_k(scores);
  if (sampling_.top_p < 1) keep_top_p(scores);
  return draw(scores, length);
}

void Sampler::penalise(std::span<float> scores) const {
  const auto penalty = static_cast<float>(sampling_.repetition_penalty);
  for (size_t i = 0; i < scores.size(); ++i) {
    if (seen_[i]) scores[i] = scores[i] < 0 ? scores[i] * penalty : scores[i] / penalty;
  }
}

/// Scores as large as the k-th largest stay.
void Sampler::keep_top_k(std::span<float> scores) const {
  const auto k = std::min(static_cast<size_t>(sampling_.top_k), scores.size());
  std::vector<float> sorted(scores.begin(), scores.end());
  const auto kth = sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  for (float& score : scores) {
    if (score < *kth) score = kNever;
  }
}

/// The least likely tokens go whose probabilities are 1 - top_p together, but for the last.
void Sampler::keep_top_p(std::span<float> scores) const {
  std::vector<uint32_t> order;
  for (uint32_t token = 0; token < scores.size(); ++token) {
    if (scores[token] != kNever) order.push_back(token);  // others have no probability
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return scores[a] < scores[b]; });
  std::vector<float> probabilities;
  for (const uint32_t token : order) probabilities.push_back(scores[token]);
  softmax(probabilities);
  float together = 0;
  const auto limit = static_cast<float>(1 - sampling_.top_p);
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    together += probabilities[i];
    if (together <= limit) scores[order[i]] = kNever;
  }
}

/// The token with the largest probability over its draw, as torch.multinomial takes one.
int32_t Sampler::draw(std::span<float> scores, int64_t length) const {
  softmax(scores);
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(sampling_.seed),
                                       static_cast<uint32_t>(sampling_.seed >> 32U)};
  size_t best = 0;
  float most = -1;
  for (size_t token = 0; token < scores.size(); ++token) {
    if (scores[token] == 0) continue;
    const uint32_t word =
        philox({static_cast<uint32_t>(token), 0, static_cast<uint32_t>(length), 0}, key)[0];
    const float value = scores[token] / exponential(word);
    if (value > most) {
      most = value;
      best = token;
    }
  }
  return static_cast<int32_t>(best);
}

}  // namespace tv::cli
