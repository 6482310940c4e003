// Float controls: the execution modes that the runtime adds to modules.

#include <algorithm>

#include "runtime/vulkan/float_controls.h"
#include "tests/cpp/kit/runtime_fixture.h"
#include "tests/cpp/kit/spirv_check.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

/// Whether a module has the mode, an OpExecutionMode of a number, for float32.
bool has_mode(const std::vector<uint32_t>& module, uint32_t mode) {
  const uint32_t tail[] = {mode, 32};
  const auto at = std::search(module.begin(), module.end(), std::begin(tail), std::end(tail));
  return at != module.end() && *(at - 2) == (4 << 16 | 16);
}

TEST(FloatControls, WhatADeviceOffersIsAskedFor) {
  constexpr uint32_t kDenormPreserve = 4459, kSignedZeroInfNanPreserve = 4461;
  const std::vector<uint32_t> module = compile(kMulAdd);
  for (const bool denormals : {false, true}) {
    for (const bool special_values : {false, true}) {
      const std::vector<uint32_t> asked = with_float_controls(module, {denormals, special_values});
      EXPECT_EQ(asked.size(), module.size() + (denormals ? 6 : 0) + (special_values ? 6 : 0));
      EXPECT_EQ(spirv_problem(asked), "");
      EXPECT_EQ(has_mode(asked, kDenormPreserve), denormals);
      EXPECT_EQ(has_mode(asked, kSignedZeroInfNanPreserve), special_values);
    }
  }
}

TEST(FloatControls, WhatIsNoModuleStaysAsItIs) {
  constexpr FloatControls kAll = {.denormals = true, .special_values = true};
  std::vector<uint32_t> module = compile(kMulAdd);
  module[1] = 0x00010300;  // before float controls
  EXPECT_EQ(with_float_controls(module, kAll), module);
  module[1] = 0x00010600;
  module[5] = 0xFFFF0011;  // an instruction past the end
  EXPECT_EQ(with_float_controls(module, kAll), module);
  module[5] = 0x00000011;  // one without words
  EXPECT_EQ(with_float_controls(module, kAll), module);
  EXPECT_TRUE(with_float_controls({}, kAll).empty());
}

}  // namespace
}  // namespace tv
