#include <gtest/gtest.h>

#include "csrc/cli/tensors/tensor.h"
#include "runtime/base/error.h"

namespace tv::cli {
namespace {

TEST(CliTensor, BytesThatOverflowAreRefused) {
  constexpr int64_t kMany = int64_t{1} << 61;
  EXPECT_EQ(bytes_of({}, DType::kI64), 8);
  EXPECT_EQ(bytes_of({kMany, 0}, DType::kI64), 0);
  EXPECT_EQ(bytes_of({kMany}, DType::kU8), kMany);
  EXPECT_THROW(bytes_of({kMany}, DType::kI64), Error);  // 2^64 bytes, which wrap to none
  EXPECT_THROW(bytes_of({kMany, 8}, DType::kU8), Error);
  EXPECT_THROW(bytes_of({-1}, DType::kU8), Error);
  EXPECT_THROW(Tensor(DType::kI64, {kMany}), Error);
}

}  // namespace
}  // namespace tv::cli
