// What users' libraries add while other threads compile.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "csrc/codegen/pointwise_table.h"
#include "csrc/converter.h"
#include "csrc/user_code.h"

namespace tv {
namespace {

constexpr int kAdded = 50;

std::string name_of(int i) { return "user_code_" + std::to_string(i); }

void add_all() {
  for (int i = 0; i < kAdded; ++i) {
    add_pointwise(name_of(i), {.on_float = "$0"});
    tell_pointwise_function("t::" + name_of(i), name_of(i));
    add_kernel(name_of(i), "void main() {}");
    Registry::instance().add(
        {.op = "t::" + name_of(i), .unsupported = [](const NodeContext&) { return "not run"; }});
  }
}

void look(int i) {
  const PointwiseRow* row = find_pointwise(name_of(i));
  if (row != nullptr) {
    EXPECT_EQ(row->name, name_of(i));
  }
  const std::string function = pointwise_function("t::" + name_of(i));
  EXPECT_TRUE(function.empty() || function == name_of(i));
  const std::string* kernel = find_user_kernel(name_of(i));
  if (kernel != nullptr) {
    EXPECT_EQ(*kernel, "void main() {}");
  }
  const Converter* converter = Registry::instance().find("t::" + name_of(i));
  if (converter != nullptr) {
    EXPECT_EQ(converter->op, "t::" + name_of(i));
  }
}

TEST(UserCode, IsAddedWhileThreadsLook) {
  const size_t before = pointwise_rows().size(), operators = Registry::instance().names().size();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < kAdded; ++i) look(i);
      EXPECT_FALSE(pointwise_rows().empty() || Registry::instance().names().empty());
    });
  }
  add_all();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pointwise_rows().size(), before + kAdded);
  EXPECT_EQ(Registry::instance().names().size(), operators + kAdded);
  for (int i = 0; i < kAdded; ++i) EXPECT_NE(find_pointwise(name_of(i)), nullptr);
}

}  // namespace
}  // namespace tv
