#pragma once
// How the next token is chosen from the scores of all: transformers' processors, in its order, and
// the draws of tv.generate(draws="device") (docs/generation.md).

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tv::cli {

/// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
/// 2011): four words of a counter and a key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

struct Sampling {
  bool draws = false;  ///< false: the most likely token is taken
  double temperature = 1;
  int64_t top_k = 0;  ///< 0: all
  double top_p = 1;
  double repetition_penalty = 1;
  uint64_t seed = 0;
};

class Sampler {
 public:
  /// `vocabulary`: tokens that there are scores for.
  Sampler(const Sampling& sampling, size_t vocabulary);

  /// Notes a token of the text, for the repetition penalty.
  void add(int32_t token);
  /// The next token of a text of `length` tokens; `scores` are changed. Throws Error(kUser) where
  /// one of them is no number, or the largest is infinite and a token is to be drawn.
  int32_t choose(std::span<float> scores, int64_t length);

 private:
  void penalise(std::span<float> scores) const;
  void keep_top_k(std::span<float> scores) const;
  void keep_top_p(std::span<float> scores) const;
  int32_t draw(std::span<float> scores, int64_t length) const;

  Sampling sampling_;
  std::vector<bool> seen_;
};

}  // namespace tv::cli
