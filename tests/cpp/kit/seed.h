#pragma once
// What tests draw at random: another in each run, or what TV_TEST_SEED says (tests/seeds.py).

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace tv::test {

inline uint32_t test_seed() {
  static const uint32_t seed = [] {
    const char* said = std::getenv("TV_TEST_SEED");
    return said != nullptr ? static_cast<uint32_t>(std::stoul(said)) : std::random_device{}();
  }();
  return seed;
}

/// For a failure's message.
inline std::string seed_text() {
  return "TV_TEST_SEED=" + std::to_string(test_seed()) + " draws the same again";
}

/// Whether `scripts/test.sh --all` runs: what takes turns is then tried whole.
inline bool tests_all() { return std::getenv("TV_TEST_ALL") != nullptr; }

/// Fewer where the sanitizers slow down what is drawn.
inline size_t fewer_sanitised(size_t most) {
#ifdef __SANITIZE_ADDRESS__
  return std::min<size_t>(most, 1);
#else
  return most;
#endif
}

/// Whether case `place` of `count` is in this run: they take turns in two parts, and a single case
/// is in every run; with `--all` each is. Tests with another `salt` have the other part.
inline bool has_turn(size_t place, size_t count, uint32_t salt = 0) {
  return tests_all() || count == 1 || (place + test_seed() + salt) % 2 == 0;
}

}  // namespace tv::test
