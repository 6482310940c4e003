#include "tests/cpp/kit/own_process.h"

#include <fnmatch.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace tv::test {
namespace {

constexpr const char* kChild = "TORCH_VULKAN_TEST_CHILD";

bool names_a_test(const std::string& pattern) {
  const auto& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const auto& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const std::string name = std::string(suite.name()) + "." + suite.GetTestInfo(t)->name();
      if (::fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return true;
    }
  }
  return false;
}

}  // namespace

int run_self(const std::string& filter, std::map<std::string, std::string> variables) {
  std::istringstream parts(filter);
  for (std::string pattern; std::getline(parts, pattern, ':');) {
    EXPECT_TRUE(names_a_test(pattern)) << pattern << " names no test";
  }
  variables[kChild] = "1";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string command = "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX";
  for (const auto& [name, value] : variables) command += " '" + name + "=" + value + "'";
  command += " timeout 1500 '" + self +
             "' --gtest_also_run_disabled_tests '--gtest_filter=" + filter + "' 1>&2";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool in_child() { return std::getenv(kChild) != nullptr; }

}  // namespace tv::test
