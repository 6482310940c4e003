// A process that runs no test would pass.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "tests/cpp/kit/own_process.h"

namespace tv::test {
namespace {

TEST(OwnProcess, AFilterThatNamesNoTestFails) {
  EXPECT_NONFATAL_FAILURE(run_self("OwnProcess.DISABLED_Passes:OwnProcess.NoSuchTest"),
                          "OwnProcess.NoSuchTest names no test");
}

TEST(OwnProcess, DISABLED_Passes) { EXPECT_TRUE(in_child()); }
TEST(OwnProcess, DISABLED_Fails) { EXPECT_FALSE(in_child()); }
TEST(OwnProcess, TellsWhetherItsTestsPass) {
  EXPECT_FALSE(in_child());
  EXPECT_EQ(run_self("OwnProcess.DISABLED_Passes"), 0);
  EXPECT_EQ(run_self("OwnProcess.DISABLED_Fails"), 1);
}

}  // namespace
}  // namespace tv::test
