#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "csrc/graph/two_four.h"

namespace tv {
namespace {

std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(4 * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

uint8_t dimensions(const std::vector<float>& values, int64_t rows, int64_t columns) {
  const std::vector<uint8_t> bytes = bytes_of(values);
  return two_four_dimensions({bytes, DType::kF32, rows, columns});
}

std::vector<float> pruned(const std::vector<float>& values, int64_t rows, size_t dim) {
  const std::vector<uint8_t> bytes = bytes_of(values);
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  const auto out = pruned_to_two_four({bytes, DType::kF32, rows, columns}, dim);
  std::vector<float> result(values.size());
  std::memcpy(result.data(), out.data(), out.size());
  return result;
}

TEST(TwoFour, FoursAreOfARowOrOfAColumn) {
  EXPECT_EQ(dimensions({1, 2, 0, 0, 0, 3, 0, 4}, 1, 8), 2);
  EXPECT_EQ(dimensions({1, 2, 0, 0, 0, 3, 0, 4}, 8, 1), 1);
  EXPECT_EQ(dimensions({1, 0, 0, 2, 3, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0}, 4, 4), 3);
  EXPECT_EQ(dimensions({1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 4, 4), 1);
}

TEST(TwoFour, FoursBeginAtMultiplesOfFour) {
  EXPECT_EQ(dimensions({0, 0, 1, 2, 3, 4, 0, 0}, 1, 8), 2);
  EXPECT_EQ(dimensions({0, 1, 2, 3, 0, 0, 0, 0}, 1, 8), 0);
}

TEST(TwoFour, SizesThatAreNoMultiplesOfFourHaveNone) {
  EXPECT_EQ(dimensions({0, 0, 0, 0, 0, 0}, 1, 6), 0);
  EXPECT_EQ(dimensions({0, 0, 0, 0, 0, 0}, 2, 3), 0);
}

TEST(TwoFour, ZerosHaveASignAndWhatIsNotFiniteIsNone) {
  const float nan = std::nanf(""), least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(dimensions({-0.0F, -0.0F, -0.0F, 1}, 1, 4), 2);
  EXPECT_EQ(dimensions({nan, INFINITY, least, 0}, 1, 4), 0);
}

TEST(TwoFour, HalvesAreLookedAt) {
  const std::vector<uint16_t> values = {0x8000, 0x3c00, 0x0001, 0};
  std::vector<uint8_t> bytes(8);
  std::memcpy(bytes.data(), values.data(), 8);
  EXPECT_EQ(two_four_dimensions({bytes, DType::kF16, 1, 4}), 2);
  bytes[6] = 1;
  EXPECT_EQ(two_four_dimensions({bytes, DType::kBF16, 1, 4}), 0);
}

TEST(TwoFour, IntegersAndShortBytesAreNot) {
  const std::vector<uint8_t> bytes(16);
  EXPECT_EQ(two_four_dimensions({bytes, DType::kI32, 1, 4}), 0);
  EXPECT_EQ(two_four_dimensions({bytes, DType::kF32, 2, 4}), 0);
}

TEST(TwoFour, PruningKeepsTheLargestMagnitudes) {
  EXPECT_EQ(pruned({1, -4, 3, 2, -1, -1, 1, 1}, 1, 1),
            (std::vector<float>{0, -4, 3, 0, -1, -1, 0, 0}));
  EXPECT_EQ(pruned({1, 9, -4, 9, 3, 9, 2, 9}, 4, 0), (std::vector<float>{0, 9, -4, 9, 3, 0, 0, 0}));
}

}  // namespace
}  // namespace tv
