// What settings say of precision.

#include <gtest/gtest.h>

#include "csrc/cache/engine_key.h"
#include "csrc/precision.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

std::string refusal(const Settings& settings) {
  try {
    check_together(settings);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

TEST(Precision, OneOfTheSixteenBitTypes) {
  EXPECT_EQ(low_precision({.enabled_precisions = {DType::kF32}}), DType::kOther);
  EXPECT_EQ(low_precision({.enabled_precisions = {DType::kBF16, DType::kF16}}), DType::kF16);
  EXPECT_EQ(low_precision({.enabled_precisions = {DType::kF32, DType::kBF16}}), DType::kBF16);
}

TEST(Precision, TruncationKeepsWhatHasFewerBits) {
  EXPECT_EQ(truncated(DType::kI64), DType::kI32);
  EXPECT_EQ(truncated(DType::kF64), DType::kF32);
  for (const DType dtype : {DType::kOther, DType::kF32, DType::kF16, DType::kBF16, DType::kI32,
                            DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    EXPECT_EQ(truncated(dtype), dtype);
  }
}

TEST(Precision, SettingsThatMeanNothingTogether) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_NE(refusal({.calibration = "of a file"}).find("calibration needs int8"),
            std::string::npos);
  EXPECT_EQ(refusal({.enabled_precisions = {DType::kI8}, .calibration = "of a file"}), "");
  for (Settings settings : {Settings{.autocast_excluded_nodes = {"head"}},
                            Settings{.autocast_excluded_ops = {"aten::mm"}}}) {
    settings.enabled_precisions = {DType::kF32};
    EXPECT_NE(refusal(settings).find("need a lower precision"), std::string::npos);
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kI8}) {
      settings.enabled_precisions = {dtype};
      EXPECT_EQ(refusal(settings), "");
    }
  }
}

TEST(Precision, WhatMeansTheSameHasOneKey) {
  using enum DType;
  const auto key = [](std::vector<DType> enabled) {
    return code_text({.enabled_precisions = std::move(enabled)});
  };
  EXPECT_EQ(key({kF32}), key({}));
  EXPECT_EQ(key({kF32, kF16}), key({kF16}));
  EXPECT_EQ(key({kBF16, kF16}), key({kF16}));
  EXPECT_EQ(key({kI8, kF32}), key({kF32, kI8}));
  EXPECT_NE(key({kI8, kF32}), key({kI8}));
  EXPECT_NE(key({kBF16}), key({kF16}));
  EXPECT_NE(key({kF16}), key({}));
}

}  // namespace
}  // namespace tv
