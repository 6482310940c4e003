// truncate_long_and_double: what converters are given then.

#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/compile/compile.h"
#include "csrc/passes/simplify/truncate.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/sample_graphs.h"

namespace tv {
namespace {

bool has_int64(const Graph& graph) {
  return std::ranges::any_of(graph.values, [](const Value& v) { return v.dtype == DType::kI64; });
}

TEST(Truncate, ExamplesWithInt64Compile) {
  Settings settings;
  settings.truncate_long_and_double = true;
  const DeviceProfile device = DeviceProfile::builtin_default();
  for (const auto& [op, converter] : test::operators_with_examples()) {
    if (op.starts_with("test::")) continue;
    for (Graph& graph : converter.examples()) {
      if (!has_int64(graph)) continue;
      try {
        compile(std::move(graph), settings, device);
      } catch (const Error& e) {
        ADD_FAILURE() << op << ": " << e.what();
      }
    }
  }
}

}  // namespace
}  // namespace tv
