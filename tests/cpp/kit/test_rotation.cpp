// Over consecutive seeds everything is taken, for each problem.

#include <gtest/gtest.h>

#include <set>

#include "tests/cpp/kit/rotation.h"

namespace tv::test {
namespace {

TEST(Rotation, ConsecutiveSeedsTakeEverythingForEachProblem) {
  for (size_t count = 1; count <= 60; ++count) {
    for (const size_t most : {1, 2, 5, 7, 100}) {
      const size_t seeds = (count + most - 1) / most;
      for (const uint64_t problem : {0ULL, 1ULL, 2ULL, 0xcbf29ce484222325ULL}) {
        for (const uint64_t first : {0ULL, 17ULL, 4000000007ULL}) {
          std::set<size_t> taken;
          for (uint64_t seed = first; seed < first + seeds; ++seed) {
            const std::vector<size_t> now = turn(count, most, problem, seed);
            EXPECT_EQ(std::set<size_t>(now.begin(), now.end()).size(), std::min(most, count));
            taken.insert(now.begin(), now.end());
          }
          EXPECT_EQ(taken.size(), count) << most << " of " << count << " for problem " << problem;
          EXPECT_LT(*taken.rbegin(), count);
        }
      }
    }
  }
  EXPECT_TRUE(turn(0, 3, 1, 2).empty());
}

/// Of problems and their tactics each alone would have its turns, and pairs would not.
TEST(Rotation, WhatMeetsThingsInTurnMeetsEachOfThem) {
  constexpr size_t kProblems = 12, kMost = 5, kTactics = 6;
  constexpr size_t kSeeds = 3 * kTactics;  // each problem has its turn in three of them
  for (const uint64_t first : {0ULL, 18ULL, 3999999996ULL}) {
    std::set<std::pair<size_t, size_t>> met;
    for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
      const Turns problems = turns(kProblems, kMost, kMost, 0, seed);
      EXPECT_EQ(std::set<size_t>(problems.order.begin(), problems.order.end()).size(), kProblems);
      EXPECT_EQ(problems.taken().size(), kMost);
      for (const size_t p : problems.taken()) {
        const Turns tactics = turns(kTactics, 1, 1, p, problems.round);
        met.emplace(p, tactics.taken().at(0));
      }
    }
    EXPECT_EQ(met.size(), kProblems * kTactics);
  }
  EXPECT_TRUE(turns(0, 3, 3).taken().empty());
}

TEST(Rotation, ProblemsOfATestTakeOthersAtOneSeed) {
  std::set<size_t> taken;
  for (uint64_t number = 0; number < 12; ++number) {
    const std::vector<size_t> now = turn(12, 1, problem_of("Gemm.Epilogues", number), 5);
    taken.insert(now.begin(), now.end());
  }
  EXPECT_EQ(taken.size(), 12U);
  EXPECT_NE(problem_of("Gemm.Epilogues", 0), problem_of("Gemm.Batches", 0));
}

}  // namespace
}  // namespace tv::test
