// Denormals: the execution mode that the runtime adds to modules.

#include <algorithm>

#include "runtime/float_controls.h"
#include "tests/cpp/runtime_fixture.h"
#include "tests/cpp/spirv_check.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

constexpr uint32_t kMode[] = {4 << 16 | 16, 0, 4459, 32};  // OpExecutionMode … DenormPreserve 32

TEST(FloatControls, DenormalsAreAskedFor) {
  const std::vector<uint32_t> module = compile(kMulAdd);
  const std::vector<uint32_t> kept = keeping_denormals(module);
  EXPECT_EQ(kept.size(), module.size() + 6);
  EXPECT_EQ(spirv_problem(kept), "");
  const auto at = std::search(kept.begin(), kept.end(), kMode + 2, kMode + 4);
  ASSERT_NE(at, kept.end());
  EXPECT_EQ(*(at - 2), kMode[0]);
}

TEST(FloatControls, WhatIsNoModuleStaysAsItIs) {
  std::vector<uint32_t> module = compile(kMulAdd);
  module[1] = 0x00010300;  // before float controls
  EXPECT_EQ(keeping_denormals(module), module);
  module[1] = 0x00010600;
  module[5] = 0xFFFF0011;  // an instruction past the end
  EXPECT_EQ(keeping_denormals(module), module);
  module[5] = 0x00000011;  // one without words
  EXPECT_EQ(keeping_denormals(module), module);
  EXPECT_TRUE(keeping_denormals({}).empty());
}

}  // namespace
}  // namespace tv
