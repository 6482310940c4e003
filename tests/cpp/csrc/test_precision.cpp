// What settings say of precision.

#include <gtest/gtest.h>

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

TEST(Precision, SettingsThatMeanNothingTogether) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_NE(refusal({.calibration = "of a file"}).find("calibration needs torch.int8"),
            std::string::npos);
  EXPECT_EQ(refusal({.enabled_precisions = {DType::kI8}, .calibration = "of a file"}), "");
  for (Settings settings : {Settings{.autocast_excluded_nodes = {"head"}},
                            Settings{.autocast_excluded_ops = {"aten::mm"}}}) {
    settings.enabled_precisions = {DType::kF32};
    EXPECT_NE(refusal(settings).find("need enable_autocast=True or"), std::string::npos);
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kI8}) {
      settings.enabled_precisions = {dtype};
      EXPECT_EQ(refusal(settings), "");
    }
  }
}

}  // namespace
}  // namespace tv
