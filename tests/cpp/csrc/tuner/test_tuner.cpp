// The tuner's decisions, on a bench that answers from a table.

#include <gtest/gtest.h>

#include <fstream>

#include "csrc/tuner/tuner.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/tuner_fixture.h"

namespace tv {
namespace {

using test::FakeTactic;
using test::TunerTest;
using Strings = std::vector<std::string>;

TEST_F(TunerTest, TakesTheFastestRightTactic) {
  tactics = {
      {"slow", 90}, {.name = "wrong", .us = 10, .wrong = true}, {"fast", 20}, {"reference", 100}};
  const TacticChoice choice = choose();
  EXPECT_EQ(name_of(choice), "fast");
  ASSERT_EQ(choice.step_us.size(), 1u);
  EXPECT_FLOAT_EQ(choice.step_us[0], 20);
  EXPECT_EQ(tuner_stats().wrong, 1u);
  EXPECT_EQ(tuner_stats().checked, 2u);
  EXPECT_EQ(choice.notes.at(1), "wrong: it differs");
  EXPECT_EQ(choice.notes.at(2), "20.00 us, checked");
}

TEST_F(TunerTest, LosersAreTimedOnceAndContendersOften) {
  tactics = {{"fast", 20}, {"near", 24}, {"far", 60}, {"reference", 1000}};
  choose();
  EXPECT_EQ(bench->timings["far"], 1);
  EXPECT_EQ(bench->timings["near"], 5);
  EXPECT_EQ(bench->timings["fast"], 5);
}

TEST_F(TunerTest, TheMedianDecidesNotOneLuckyRun) {
  tactics = {{"steady", 20}, {.name = "lucky", .us = 24, .once_us = 15}, {"reference", 1000}};
  EXPECT_EQ(name_of(choose()), "steady");
}

TEST_F(TunerTest, WhatIsPredictedToTakeTooLongNeverRunsWhole) {
  tactics = {{"fast", 20}, {"endless", 60e6}, {"reference", 1000}};
  EXPECT_EQ(name_of(choose()), "fast");
  EXPECT_EQ(bench->timings["endless"], 0);
  EXPECT_EQ(bench->predictions["endless"], 1);
}

TEST_F(TunerTest, RefusedTacticsAreNeitherTimedNorAskedForAgain) {
  tactics = {{.name = "no", .us = 1, .candidate_refusal = "the device has no matrix units"},
             {.name = "driver", .us = 1, .driver_refusal = "too many registers"},
             {"fast", 20},
             {"reference", 100}};
  EXPECT_EQ(name_of(choose()), "fast");
  EXPECT_EQ(bench->timings["no"], 0);
  EXPECT_EQ(tuner_stats().refused, 1u);
  bench->prepared.clear();
  reopen();
  EXPECT_EQ(name_of(choose()), "fast");
  EXPECT_EQ(bench->prepared, Strings{});
}

TEST_F(TunerTest, WhatTheDeviceCannotRunAtTypicalSizesIsNotTimed) {
  symbols = {{.name = "n", .min = 1, .opt = 300}};
  const Expr n = Expr::symbol(0);
  tactics = {{.name = "long", .us = 1, .iterations = n * 1000},
             {"fast", 20},
             {.name = "reference", .us = 100, .iterations = n * 200}};
  const TacticChoice choice = choose();
  EXPECT_EQ(name_of(choice), "fast");
  EXPECT_EQ(choice.notes.at(0), "refused by the driver: 300000 loop iterations; it makes 60000");
  EXPECT_EQ(choice.notes.at(2), "100.00 us, given up");
  EXPECT_EQ(tuner_stats().timed, 2u);
  EXPECT_EQ(tuner_stats().refused, 0u);
  EXPECT_EQ(bench->predictions["long"], 0);
}

TEST_F(TunerTest, ACachedProblemIsNeverTimedTwice) {
  tactics = {
      {"slow", 90}, {.name = "wrong", .us = 10, .wrong = true}, {"fast", 20}, {"reference", 100}};
  const TacticChoice first = choose();
  EXPECT_EQ(tuner_stats().timed, 4u);
  reopen();
  reset_tuner_stats();
  const TacticChoice second = choose();
  EXPECT_EQ(tuner_stats().timed, 0u);
  EXPECT_EQ(tuner_stats().checked, 0u);
  EXPECT_EQ(tuner_stats().cached, 4u);
  EXPECT_EQ(second.candidate, first.candidate);
  EXPECT_EQ(second.step_us, first.step_us);
  EXPECT_EQ(second.notes, first.notes);
}

TEST_F(TunerTest, EqualProblemsOfAnEngineShareOneSearch) {
  tactics = {{"a", 10}, {"b", 20}, {"reference", 100}};
  make();
  choose_again();
  choose_again();
  EXPECT_EQ(tuner_stats().problems, 1u);
  problem_text = "another";
  choose_again();
  EXPECT_EQ(tuner_stats().problems, 2u);
}

TEST_F(TunerTest, AChangedKernelIsTimedAgainAndNothingElse) {
  tactics = {{"a", 10}, {"b", 20}, {"reference", 100}};
  choose();
  tactics[1] = {.name = "b", .us = 5, .glsl = "void main() { /* better */ }"};
  reopen();
  reset_tuner_stats();
  EXPECT_EQ(name_of(choose()), "b");
  EXPECT_EQ(tuner_stats().timed, 1u);
  EXPECT_EQ(tuner_stats().cached, 2u);
}

TEST_F(TunerTest, LevelsTimeAGrowingShare) {
  for (int i = 0; i < 40; ++i) tactics.push_back({"t" + std::to_string(i), 100.0 - i});
  const size_t shares[] = {6, 12, 20, 30, 40};
  for (int64_t level = 1; level <= 5; ++level) {
    reopen();
    cache_path.clear();
    reset_tuner_stats();
    choose({.level = level});
    EXPECT_EQ(tuner_stats().timed, shares[level - 1]) << level;
  }
}

TEST_F(TunerTest, EveryLevelTimesWhatIsCompared) {
  for (int i = 0; i < 40; ++i) tactics.push_back({"t" + std::to_string(i), 100.0 - i});
  for_comparison = true;
  const size_t few[] = {2, 2, 4, 4, 8};
  for (int64_t level = 1; level <= 5; ++level) {
    reopen();
    cache_path.clear();
    reset_tuner_stats();
    const TacticChoice choice = choose({.level = level});
    EXPECT_EQ(tuner_stats().timed, few[level - 1]) << level;
    ASSERT_LT(choice.candidate, choice.candidate_us.size()) << level;
    EXPECT_GT(choice.candidate_us[choice.candidate], 0) << level;
  }
}

TEST_F(TunerTest, AHigherLevelTimesOnlyWhatALowerOneLeft) {
  for (int i = 0; i < 10; ++i) tactics.push_back({"t" + std::to_string(i), 100.0 - i});
  choose({.level = 1});
  EXPECT_EQ(tuner_stats().timed, 2u);
  reopen();
  EXPECT_EQ(name_of(choose({.level = 5})), "t9");
  EXPECT_EQ(tuner_stats().timed, 10u);
  // And a lower one uses what is known.
  reopen();
  EXPECT_EQ(name_of(choose({.level = 1})), "t9");
  EXPECT_EQ(tuner_stats().timed, 10u);
}

TEST_F(TunerTest, SpentTimeLeavesTheRuleAndSaysSo) {
  tactics = {{"first", 50}, {"fast", 20}, {"reference", 100}};
  const TacticChoice choice = choose({.level = 3, .seconds = 0});
  EXPECT_EQ(name_of(choice), "first");
  EXPECT_EQ(tuner_stats().cut, 3u);
  EXPECT_EQ(tuner_stats().timed, 0u);
  EXPECT_TRUE(choice.step_us.empty());
  EXPECT_EQ(choice.notes.at(0), "not timed, the time of the level is spent");
}

TEST_F(TunerTest, WhatHasLostDoesNotWinWhenTheTimeIsSpent) {
  tactics = {{"first", 5}, {"second", 20}, {"reference", 100000}};
  choose();
  tactics[0].glsl = "void main() { /* new */ }";
  tactics[1].glsl = "void main() { /* new */ }";
  reopen();
  const TacticChoice choice = choose({.level = 3, .seconds = 0});
  EXPECT_EQ(name_of(choice), "first");
  EXPECT_EQ(choice.notes.at(0), "not timed, the time of the level is spent");
  EXPECT_EQ(choice.notes.at(2), "100000.00 us, given up");
}

TEST_F(TunerTest, AnInterruptedBuildResumes) {
  tactics = {{"a", 30}, {"b", 20}, {"c", 10}, {"reference", 100}};
  make();
  int reports = 0;
  const Progress interrupt = [&](const std::string& stage, int64_t done, int64_t) {
    if (stage == "tune t::op" && done == 0 && ++reports == 2) throw std::runtime_error("Ctrl-C");
  };
  // The first problem is timed, the second one interrupted before its first candidate.
  choose_again(interrupt);
  problem_text = "second";
  EXPECT_THROW(choose_again(interrupt), std::runtime_error);
  const uint64_t timed = tuner_stats().timed;
  EXPECT_EQ(timed, 4u);
  reopen();
  make();
  problem_text = "first";
  choose_again();
  EXPECT_EQ(tuner_stats().timed, timed) << "what was timed before the interruption is timed again";
  problem_text = "second";
  EXPECT_EQ(name_of(choose_again()), "c");
  EXPECT_EQ(tuner_stats().timed, timed + 4);
}

TEST_F(TunerTest, ATacticThatLosesTheDeviceIsNeverTriedAgain) {
  tactics = {{.name = "deadly", .us = 1, .loses_device = true},
             {"fast", 20},
             {"slow", 25},
             {"reference", 100}};
  EXPECT_EQ(name_of(choose()), "fast");
  EXPECT_EQ(tuner_stats().lost, 1u);
  EXPECT_EQ(bench->recoveries, 1);
  reopen();
  EXPECT_EQ(name_of(choose()), "fast");
  EXPECT_EQ(tuner_stats().lost, 1u);
}

TEST_F(TunerTest, ATacticThatTookItsProcessWithItIsNeverTriedAgain) {
  tactics = {{.name = "deadly", .us = 1, .ends_process = true}, {"fast", 20}, {"reference", 100}};
  EXPECT_EXIT(choose(), testing::ExitedWithCode(3), "");
  EXPECT_EQ(journals().size(), 1u) << "the dead process left its journal";
  reopen();
  EXPECT_EQ(name_of(choose()), "fast");
  EXPECT_EQ(bench->predictions["deadly"], 0);
  EXPECT_EQ(journals().size(), 1u) << "the tuner's own";
  reopen();
  EXPECT_EQ(journals().size(), 0u);
}

TEST_F(TunerTest, WhereNothingWorksButTheLastTheRuleIsNotTaken) {
  tactics = {{.name = "wrong", .us = 10, .wrong = true},
             {.name = "also_wrong", .us = 12, .wrong = true},
             {"reference", 100}};
  EXPECT_EQ(name_of(choose()), "reference");
}

TEST_F(TunerTest, NoMemoryForTheOperandsLeavesTheRule) {
  tactics = {{"first", 50}, {"fast", 20}, {"reference", 100}};
  bench->out_of_memory = true;
  EXPECT_EQ(name_of(choose()), "first");
  bench->out_of_memory = false;
  EXPECT_EQ(name_of(choose()), "fast") << "remembered as if it were the tactics' fault";
}

TEST_F(TunerTest, OneTacticIsNotTimedOnACpu) {
  tactics = {{"only", 50}};
  EXPECT_EQ(name_of(choose()), "only");
  EXPECT_EQ(tuner_stats().timed, 0u);
  bench->device.type = DeviceType::kDiscrete;
  EXPECT_FLOAT_EQ(choose().step_us.at(0), 50);
}

TEST_F(TunerTest, ABadCacheFileIsSetAsideAndCountsAsEmpty) {
  tactics = {{"a", 10}, {"b", 20}, {"reference", 100}};
  choose();
  for (const std::string text :
       {R"({"devices": {)", R"({"devices": {}})",
        R"({"format": "torch_vulkan timings", "version": 99, "devices": {}})",
        R"({"format": "torch_vulkan timings", "version": 1, "devices": {"d": {"p": {"t": 3}}}})"}) {
    reopen();  // saves
    std::ofstream(cache_path) << text;
    reset_tuner_stats();
    EXPECT_EQ(name_of(choose()), "a");
    EXPECT_EQ(tuner_stats().timed, 3u) << text;
    std::ifstream bad(cache_path + ".bad");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(bad), {}), text);
  }
}

}  // namespace
}  // namespace tv
