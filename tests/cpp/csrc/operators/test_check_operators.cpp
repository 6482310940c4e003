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

TEST(CheckOperators, ArgumentsOfCodesHaveFormats) {
  size_t count = 0;
  for (const auto& [op, converter] : Registry::instance().all()) {
    for (const std::string& name : converter.code_args) {
      ++count;
      EXPECT_TRUE(takes_codes(op) && schema_of(op) && schema_of(op)->find(name) &&
                  schema_of(op)->find(name + "_format"))
          << op << ": " << name;
    }
  }
  EXPECT_GT(count, 0u);
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

TEST(CheckOperators, ReadsSchemas) {
  const Schema& sort = *schema_of("aten::sort.stable");
  ASSERT_EQ(sort.args.size(), 4U);
  EXPECT_EQ(sort.results, 2U);
  EXPECT_TRUE(sort.find("stable")->optional && sort.find("stable")->required);
  EXPECT_FALSE(sort.find("dim")->required);
  const Schema& index = *schema_of("aten::index.Tensor");
  EXPECT_EQ(index.find("indices")->kind, ArgKind::kTensors);
  EXPECT_TRUE(index.find("indices")->none_items);
  const Schema& pool = *schema_of("aten::max_pool2d");
  EXPECT_EQ(pool.find("padding")->length, 2);
  EXPECT_EQ(pool.find("ceil_mode")->kind, ArgKind::kBool);
  EXPECT_TRUE(schema_of("aten::split.Tensor")->list);
  EXPECT_EQ(schema_of("complex::add.Tensor")->find("complex")->kind, ArgKind::kText);
  EXPECT_EQ(schema_of("tv::copy"), nullptr);
}

/// What is wrong with a product of matrices of these shapes; "": nothing.
std::string wrong_with_mm(const Shape& a, const Shape& b, const Shape& c,
                          std::vector<Condition>* demands = nullptr,
                          const std::string& op = "aten::mm") {
  Graph graph{.symbols = {{"n", 1, 4, 8}, {"m", 1, 4, 8}}};
  const auto add = [&](const char* name, const Shape& shape) {
    graph.inputs.push_back(graph.add_value(
        {.name = name, .dtype = DType::kF32, .shape = shape, .kind = ValueKind::kInput}));
    return graph.inputs.back();
  };
  Node node{.op = op, .name = "mm"};
  node.args = {tensor_arg("self", add("a", a)), tensor_arg("mat2", add("b", b))};
  graph.add_output(node, DType::kF32, c);
  graph.nodes.push_back(node);
  std::vector<Condition> found;
  try {
    check_operators(graph, demands == nullptr ? found : *demands);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CheckOperators, NamesTheNode) {
  const Expr n = Expr::symbol(0), m = Expr::symbol(1);
  EXPECT_EQ(wrong_with_mm({2, 3}, {3, 5}, {2, 5}), "");
  EXPECT_EQ(wrong_with_mm({2, 3}, {4, 5}, {2, 5}),
            "[aten::mm] node 'mm': a size of argument 'mat2' is 4, want 3");
  EXPECT_EQ(wrong_with_mm({2, 3}, {3, 5}, {2, 5, 1}),
            "[aten::mm] node 'mm': the result is of rank 3");
  EXPECT_NE(wrong_with_mm({2, n}, {9, 5}, {2, 5}), "");  // n is 8 at most
  std::vector<Condition> demands;
  EXPECT_EQ(wrong_with_mm({2, n}, {m, 5}, {2, 5}, &demands), "");
  ASSERT_EQ(demands.size(), 1U);
  EXPECT_EQ(condition_text(demands[0]), "s1 == s0");
}

TEST(CheckOperators, TypesStandWithTheirOperator) {
  const std::string op = "test::typed_product";
  if (Registry::instance().find(op) == nullptr) {
    Registry::instance().add({.op = op, .types = "self T[m k], mat2 T[k n] -> T[m n]"});
  }
  EXPECT_TRUE(has_type_rule(op));
  EXPECT_EQ(wrong_with_mm({2, 3}, {3, 5}, {2, 5}, nullptr, op), "");
  EXPECT_EQ(wrong_with_mm({2, 3}, {4, 5}, {2, 5}, nullptr, op),
            "[test::typed_product] node 'mm': a size of argument 'mat2' is 4, want 3");
}

}  // namespace
}  // namespace tv
