// What the compiler knows of operators' arguments and types, against all that it has converters
// for.

#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/converter.h"
#include "csrc/operators/check_operators.h"
#include "csrc/operators/schema.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

/// Other tests register operators of libraries of their own.
bool is_of_test(const std::string& op) {
  const std::string library = op.substr(0, op.find("::"));
  if (library == "complex") return false;
  return std::ranges::none_of(operators_with_schemas(), [&](const std::string& known) {
    return known.starts_with(library + "::");
  });
}

bool is_of_passes(const std::string& op) {
  return op.starts_with("tv::") && schema_of(op) == nullptr;
}

/// Examples leave out arguments that converters do not read, and sizes that the result says.
bool lacks_an_argument(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    for (const SchemaArg& arg : schema_of(node.op)->args) {
      if (arg.required && !arg.optional && node.find(arg.name) == nullptr) return true;
    }
  }
  return false;
}

TEST(CheckOperators, EveryOperatorHasASchema) {
  for (const auto& [op, converter] : Registry::instance().all()) {
    EXPECT_TRUE(is_of_test(op) || op.starts_with("tv::") || schema_of(op) != nullptr) << op;
  }
}

TEST(CheckOperators, EverySchemaIsOfAnOperator) {
  for (const std::string& op : operators_with_schemas()) {
    const std::string name = op.substr(op.find("::") + 2);
    EXPECT_TRUE(Registry::instance().find(op) != nullptr ||
                Registry::instance().find("complex::" + name) != nullptr)
        << op;
  }
}

TEST(CheckOperators, EveryOperatorHasTypes) {
  for (const auto& [op, converter] : Registry::instance().all()) {
    EXPECT_TRUE(is_of_test(op) || is_of_passes(op) || has_type_rule(op)) << op;
  }
}

TEST(CheckOperators, TakesExamplesOfConverters) {
  size_t count = 0;
  for (const auto& [op, converter] : Registry::instance().all()) {
    if (!converter.examples || schema_of(op) == nullptr) continue;
    for (const Graph& graph : converter.examples()) {
      if (lacks_an_argument(graph)) continue;
      std::vector<Condition> demands;
      try {
        check_types(graph, demands);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what() << "\n" << dump(graph);
      }
      ++count;
    }
  }
  EXPECT_GT(count, 300U);
}

}  // namespace
}  // namespace tv
