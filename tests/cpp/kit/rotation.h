#pragma once
// Turns of tests that cannot take everything at once: which of many things a problem is met by
// follows from a seed (seed.h) and the problem alone, whatever other tests run in the process.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tv::test {

/// Problem `number` of a test as one of all tests' problems.
uint64_t problem_of(const std::string& test, uint64_t number);

/// Which of `count` things a problem is met by: `most` of them, others for the next seed, so that
/// count / most seeds in a row, rounded up, take each.
std::vector<size_t> turn(size_t count, size_t most, uint64_t problem, uint64_t seed);

}  // namespace tv::test
