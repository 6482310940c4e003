#pragma once
// Turns of tests that cannot take everything at once: which of many things a problem is met by
// follows from a seed (seed.h) and the problem alone, whatever other tests run in the process.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/cpp/kit/seed.h"

namespace tv::test {

/// Problem `number` of a test as one of all tests' problems.
uint64_t problem_of(const std::string& test, uint64_t number);

/// Which of `count` things a problem is met by: `most` of them, others for the next seed, so that
/// count / most seeds in a row, rounded up, take each.
std::vector<size_t> turn(size_t count, size_t most, uint64_t problem, uint64_t seed);

/// Problem `number` of the test that runs.
uint64_t this_problem(uint64_t number);

/// A number for problem `number` of the test that runs, drawn anew for each seed: what goes by it
/// goes with no turn.
uint64_t drawn_for(uint64_t number);

/// Whose turn it is among several things.
struct Turns {
  std::vector<size_t> order;  ///< all of them, those whose turn it is first
  size_t most = 0;            ///< whose turn it is
  /// Another one when each has had its turn: the seed by which what meets them takes turns, so that
  /// everything meets each of them.
  uint64_t round = 0;

  std::vector<size_t> taken() const {
    return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most)};
  }
};

/// The turns of `count` things: `most` at a seed, with `--all` `most_of_all`. `number`: the problem
/// of the test that they meet.
Turns turns(size_t count, size_t most, size_t most_of_all, uint64_t number = 0,
            uint64_t seed = test_seed());

}  // namespace tv::test
