#include "tests/cpp/kit/rotation.h"

#include <algorithm>

namespace tv::test {

uint64_t problem_of(const std::string& test, uint64_t number) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: std::hash is another with each library
  for (const char c : test) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash + number;
}

std::vector<size_t> turn(size_t count, size_t most, uint64_t problem, uint64_t seed) {
  std::vector<size_t> taken;
  if (count == 0) return taken;
  // Sums modulo `count`, so that the next seed goes on where this one ends.
  const uint64_t first = (problem % count + seed % count) % count * (most % count);
  for (size_t i = 0; i < std::min(most, count); ++i) taken.push_back((first + i) % count);
  return taken;
}

}  // namespace tv::test
