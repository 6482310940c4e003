#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "csrc/tuner/compare.h"
#include "csrc/tuner/journal.h"
#include "csrc/tuner/operands.h"
#include "csrc/tuner/timing_cache.h"

namespace tv {
namespace {

namespace fs = std::filesystem;

class TimingCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ =
        fs::temp_directory_path() / ("tv_timings_" + std::to_string(::getpid()) + "_" +
                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(dir_);
    path_ = (dir_ / "deep" / "timings.json").string();
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string text() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static TimingKey key(const std::string& tactic) {
    return {"a device", "a problem", tactic, "digest"};
  }

  fs::path dir_;
  std::string path_;
};

TEST_F(TimingCacheTest, WhatIsSavedIsFoundAgain) {
  const Timing full{.us = 12.5, .step_us = {10, 2.5F}, .checked = true};
  {
    TimingCache cache(path_);
    cache.put(key("a"), full);
    cache.put(key("b"), {.kind = Timing::Kind::kWrong, .why = "all of it"});
    cache.put(key("c"), {.kind = Timing::Kind::kSlow, .us = 1000});
  }
  const TimingCache cache(path_);
  EXPECT_EQ(cache.find(key("a")), full);
  EXPECT_EQ(cache.find(key("b"))->why, "all of it");
  EXPECT_FALSE(cache.find(key("b"))->usable());
  EXPECT_TRUE(cache.find(key("c"))->usable());
  EXPECT_FALSE(cache.find({"another device", "a problem", "a", "digest"}));
  EXPECT_FALSE(cache.find({"a device", "another problem", "a", "digest"}));
  EXPECT_FALSE(cache.find({"a device", "a problem", "a", "another digest"}));
  EXPECT_TRUE(cache.knows("a device", "a problem", "a"));
}

TEST_F(TimingCacheTest, ATimeThatIsRoundedToNothingIsKept) {
  for (const char* tactic : {"a", "b", "c"}) {  // each reads what is there and writes it again
    TimingCache cache(path_);
    cache.put(key(tactic), {.us = 0.0002});
    cache.save();
  }
  const TimingCache cache(path_);
  for (const char* tactic : {"a", "b", "c"}) EXPECT_TRUE(cache.find(key(tactic)).has_value());
}

TEST_F(TimingCacheTest, TheFileIsTextThatPeopleRead) {
  {
    TimingCache(path_).put(key("a"), {.us = 12.3456789, .step_us = {12.3456789F}});
  }
  EXPECT_EQ(text(), R"({
  "devices": {
    "a device": {
      "a problem": {
        "a": {
          "kernels": "digest",
          "kind": "timed",
          "step_us": [
            12.346
          ],
          "time_us": 12.346
        }
      }
    }
  },
  "format": "torch_vulkan timings",
  "version": 1
}
)");
}

TEST_F(TimingCacheTest, ProcessesMergeWhatTheyMeasured) {
  constexpr int kProcesses = 4, kEntries = 20;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    {
      TimingCache cache(path_);
      for (int i = 0; i < kEntries; ++i) {
        cache.put(key(std::to_string(p) + "." + std::to_string(i)), {.us = 1.0 + i});
        cache.save();
      }
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const TimingCache cache(path_);
  for (int p = 0; p < kProcesses; ++p) {
    for (int i = 0; i < kEntries; ++i) {
      EXPECT_TRUE(cache.find(key(std::to_string(p) + "." + std::to_string(i)))) << p << " " << i;
    }
  }
}

TEST_F(TimingCacheTest, AFileIsTextOfThisForm) {
  const std::string file = R"({
  "devices": {
    "a device": {
      "a problem": {
        "a": {
          "checked": true,
          "kernels": "digest",
          "kind": "timed",
          "step_us": [
            10,
            2.5
          ],
          "time_us": 12.5
        }
      }
    }
  },
  "format": "torch_vulkan timings",
  "version": 1
}
)";
  fs::create_directories(fs::path(path_).parent_path());
  std::ofstream(path_) << file;
  const Timing timing{.us = 12.5, .step_us = {10, 2.5F}, .checked = true};
  EXPECT_EQ(TimingCache(path_).find(key("a")), timing);
  fs::remove(path_);
  {
    TimingCache(path_).put(key("a"), timing);
  }
  EXPECT_EQ(text(), file);
}

TEST_F(TimingCacheTest, AFileThatNestsDeeplyIsSetAside) {
  fs::create_directories(fs::path(path_).parent_path());
  for (const char* open : {"[", "{\"devices\":"}) {
    std::string nested;
    for (int i = 0; i < 1000000; ++i) nested += open;
    std::ofstream(path_) << nested;
    EXPECT_FALSE(TimingCache(path_).find(key("a")));
    EXPECT_EQ(fs::remove(path_ + ".bad"), nested[0] == '{');
  }
}

TEST_F(TimingCacheTest, AFileOfAnotherKindStaysAsItIs) {
  fs::create_directories(fs::path(path_).parent_path());
  for (const std::string other : {"not json", "{}", "{\"a\": 1}", "[1]"}) {
    std::ofstream(path_) << other;
    {
      TimingCache cache(path_);
      EXPECT_EQ(cache.journal_path(), "");
      cache.put(key("a"), {.us = 1});
      EXPECT_TRUE(cache.find(key("a")));  // for this process
      cache.save();
    }
    EXPECT_EQ(text(), other);
    EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(path_).parent_path()), {}), 1);
  }
}

TEST_F(TimingCacheTest, AFlippedBitLosesTimingsAndNothingElse) {
  const Timing timing{.us = 12.5, .step_us = {10, 2.5F}, .checked = true};
  {
    TimingCache(path_).put(key("a"), timing);
  }
  const std::string good = text();
  for (size_t i = 0; i < good.size() * 8; i += 61) {  // 8 and 61 share no factor
    std::string bad = good;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << i % 8));
    std::ofstream(path_) << bad;
    TimingCache cache(path_);
    if (const auto found = cache.find(key("a"))) {
      EXPECT_TRUE(found->us >= 0 && found->us < 1e12) << i;
    }
    cache.put(key("b"), timing);
    cache.save();
    ASSERT_EQ(TimingCache(path_).find(key("b")), timing) << i;
  }
}

TEST_F(TimingCacheTest, AnOpenCacheSeesWhatOthersWrote) {
  const auto ours = open_timing_cache(path_);
  EXPECT_EQ(open_timing_cache(path_), ours);
  {
    TimingCache(path_).put(key("theirs"), {.us = 3});
  }
  EXPECT_TRUE(open_timing_cache(path_)->find(key("theirs")));
}

TEST_F(TimingCacheTest, AReadOnlyDirectoryLosesTimingsAndNothingElse) {
  if (::geteuid() == 0) {
    path_ = "/proc/timings.json";  // even root cannot write there
  } else {
    fs::create_directories(dir_);
    fs::permissions(dir_, fs::perms::owner_read | fs::perms::owner_exec);
    path_ = (dir_ / "timings.json").string();
  }
  TimingCache cache(path_);
  cache.put(key("a"), {.us = 1});
  cache.save();
  EXPECT_TRUE(cache.find(key("a")));
}

TEST_F(TimingCacheTest, ADirectoryInItsPlaceStaysThere) {
  fs::create_directories(path_);
  std::ofstream(fs::path(path_) / "precious") << "x";
  {
    TimingCache cache(path_);
    cache.put(key("a"), {.us = 1});
    cache.save();
    EXPECT_TRUE(cache.find(key("a")));
  }
  EXPECT_TRUE(fs::exists(fs::path(path_) / "precious"));
  EXPECT_FALSE(fs::exists(path_ + ".bad"));
}

TEST_F(TimingCacheTest, AJournalOfADeadProcessNamesWhatKilledIt) {
  fs::create_directories(fs::path(path_).parent_path());
  Journal ours(path_);
  ours.write(key("ours"));
  const pid_t child = ::fork();
  if (child == 0) {
    Journal journal(path_);
    journal.write(key("harmless"));
    journal.write(std::nullopt);
    journal.write(key("deadly"));
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  {
    const TimingCache cache(path_);
    EXPECT_EQ(cache.find(key("deadly"))->kind, Timing::Kind::kLost);
    EXPECT_FALSE(cache.find(key("harmless")));
    EXPECT_FALSE(cache.find(key("ours"))) << "its process lives";
  }
  EXPECT_TRUE(TimingCache(path_).find(key("deadly"))) << "not saved";
  ours.write(std::nullopt);
}

TEST_F(TimingCacheTest, AJournalThatIsCutOffNamesNothing) {
  fs::create_directories(fs::path(path_).parent_path());
  std::ofstream(path_ + ".timing.1.1") << R"({"device": "d", "prob)";
  EXPECT_TRUE(abandoned(path_).empty());
  EXPECT_FALSE(fs::exists(path_ + ".timing.1.1"));
}

std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(Compare, ReorderedSumsAreEqualAndWrongElementsAreNot) {
  std::vector<float> want(1000);
  for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<float>(i % 17) - 8;
  std::vector<float> got = want;
  const auto differ = [&](const Tolerance& t) {
    return difference(DType::kF32, bytes_of(got), bytes_of(want), t);
  };
  got[3] *= 1 + 1e-6F;
  EXPECT_EQ(differ({.terms = 1024}), "");
  got[3] *= 1.001F;
  EXPECT_NE(differ({.terms = 1024}), "");
  EXPECT_EQ(differ({.terms = 1024, .error = 1e-3}), "") << "the tactic states its error";
  EXPECT_EQ(differ({.terms = 1024, .discontinuous = true}), "") << "one in a thousand";
  got[4] = NAN;
  EXPECT_NE(differ({.terms = 1024, .discontinuous = true}), "");
  want[3] = got[3];
  want[4] = NAN;
  EXPECT_EQ(differ({}), "") << "nan is what the reference gives";
  want[6] = INFINITY;
  EXPECT_NE(differ({}), "");
  got[6] = INFINITY;
  EXPECT_EQ(differ({}), "");
  got[5] = INFINITY;
  EXPECT_EQ(differ({}).substr(0, 46), "1 of 1000 elements differ, the first, number 5");
}

TEST(Compare, AnEpilogueThatRoundsTwiceIsNotWrong) {
  // Sums that differ in their last bit, rounded to bfloat16, times a bfloat16, rounded again.
  const std::vector<uint8_t> want = {0x46, 0x3e, 0x80, 0x3f}, got = {0x48, 0x3e, 0x80, 0x3f};
  EXPECT_NE(difference(DType::kBF16, got, want, {}), "");
  const Tolerance twice{.roundings = {DType::kBF16, DType::kBF16}};
  EXPECT_EQ(difference(DType::kBF16, got, want, twice), "");
  const std::vector<uint8_t> bad = {0x66, 0x3e, 0x80, 0x3f};
  EXPECT_NE(difference(DType::kBF16, bad, want, twice), "") << "0.1934 and 0.2246";
  // 1.0078 - 1 where 1 - 1 was wanted.
  const std::vector<uint8_t> none = {0, 0, 0x80, 0x3f}, left = {0, 0x3c, 0x80, 0x3f};
  EXPECT_NE(difference(DType::kBF16, left, none, {}), "");
  EXPECT_EQ(difference(DType::kBF16, left, none, twice), "");
}

TEST(Compare, IntegersAreExactAndWhatTheReferenceLeftOutIsNotCompared) {
  const std::vector<uint8_t> want = {1, 2, kUnwritten, 4}, got = {1, 2, 3, 4}, bad = {1, 3, 3, 4};
  EXPECT_NE(difference(DType::kU8, got, want, {}), "");
  EXPECT_EQ(difference(DType::kU8, got, want, {.partial = true}), "");
  EXPECT_NE(difference(DType::kU8, bad, want, {.partial = true}), "");
}

TEST(Operands, AreInRangeAndAlike) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    const auto bytes = random_operand(dtype, 1, 4);
    EXPECT_EQ(bytes, random_operand(dtype, 1, 4));
    EXPECT_NE(bytes, random_operand(dtype, 2, 4));
    double sum = 0;
    for (int64_t i = 0; i < kOperandPeriod; ++i) {
      const double v = element(dtype, bytes.data(), i);
      ASSERT_TRUE(v >= -1 && v < 1) << v;
      sum += v * v;
    }
    EXPECT_NEAR(sum / kOperandPeriod, 1.0 / 3, 0.01) << name(dtype);
  }
  for (const DType dtype : {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8}) {
    const auto bytes = random_operand(dtype, 1, 4);
    for (int64_t i = 0; i < kOperandPeriod; ++i) {
      const double v = element(dtype, bytes.data(), i);
      ASSERT_TRUE(v >= 0 && v < 4) << v;
    }
  }
}

}  // namespace
}  // namespace tv
