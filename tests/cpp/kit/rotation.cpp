#include "tests/cpp/kit/rotation.h"

#include <gtest/gtest.h>

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

uint64_t this_problem(uint64_t number) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return problem_of(std::string(test->test_suite_name()) + "." + test->name(), number);
}

uint64_t drawn_for(uint64_t number) {
  // SplitMix64 (Steele, Lea, Flood 2014).
  uint64_t x = this_problem(number) + test_seed() * 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

Turns turns(size_t count, size_t most, size_t most_of_all, uint64_t number, uint64_t seed) {
  if (count == 0) return {};
  most = std::min(tests_all() ? most_of_all : most, count);
  Turns made{.order = std::vector<size_t>(count), .most = most};
  const size_t first = turn(count, most, this_problem(number), seed).front();
  for (size_t i = 0; i < count; ++i) made.order[i] = (first + i) % count;
  made.round = seed / ((count + most - 1) / most);
  return made;
}

}  // namespace tv::test
