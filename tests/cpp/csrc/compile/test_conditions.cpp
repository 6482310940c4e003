// Conditions on sizes: what they say, where they hold, and how sizes that fulfil them are found.

#include <gtest/gtest.h>

#include "csrc/cache/canonical.h"
#include "csrc/cache/names.h"
#include "csrc/compile/compile.h"
#include "csrc/partition/partition.h"
#include "runtime/base/condition.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/graph_eval.h"
#include "tests/cpp/kit/sample_engine.h"

namespace tv {
namespace {

const Expr kBatch = Expr::symbol(0), kSeq = Expr::symbol(1);
const std::vector<Symbol> kSymbols = {{"batch", 1, 4, 16}, {"seq", 0, 128, kUnbounded}};

bool holds(Relation relation, const Expr& left, const Expr& right, std::vector<int64_t> values) {
  return Condition{relation, left, right, {}}.holds(values);
}

std::optional<bool> decided(Relation relation, const Expr& left, const Expr& right) {
  return Condition{relation, left, right, {}}.decided(kSymbols);
}

TEST(Conditions, HoldOrNot) {
  EXPECT_TRUE(holds(Relation::kMultiple, 6 * kBatch, 4, {2, 1}));
  EXPECT_FALSE(holds(Relation::kMultiple, 6 * kBatch, 4, {3, 1}));
  EXPECT_FALSE(holds(Relation::kMultiple, 6 * kBatch, kSeq, {3, 0}));  // a multiple of 0
  EXPECT_TRUE(holds(Relation::kEqual, 2 * kBatch, kSeq + 1, {3, 5}));
  EXPECT_FALSE(holds(Relation::kEqual, 2 * kBatch, kSeq + 1, {3, 6}));
  EXPECT_TRUE(holds(Relation::kDiffers, kSeq, 1, {3, 0}));
  EXPECT_FALSE(holds(Relation::kDiffers, kSeq, 1, {3, 1}));
  EXPECT_TRUE(holds(Relation::kAtLeast, kSeq, kBatch, {3, 3}));
  EXPECT_FALSE(holds(Relation::kAtLeast, kSeq, kBatch, {3, 2}));
}

TEST(Conditions, WhatCannotBeComputedDoesNotHold) {
  const int64_t large = int64_t{1} << 62;
  EXPECT_FALSE(holds(Relation::kAtLeast, kBatch * kSeq, 0, {large, large}));
  EXPECT_FALSE(holds(Relation::kAtLeast, floordiv(kBatch, kSeq), 0, {4, 0}));
}

TEST(Conditions, RangesDecideSome) {
  EXPECT_EQ(decided(Relation::kAtLeast, kSeq, 0), true);
  EXPECT_EQ(decided(Relation::kAtLeast, kBatch, 17), false);
  EXPECT_EQ(decided(Relation::kAtLeast, kBatch, 2), std::nullopt);
  EXPECT_EQ(decided(Relation::kDiffers, kBatch, 0), true);
  EXPECT_EQ(decided(Relation::kDiffers, kBatch, 1), std::nullopt);
  EXPECT_EQ(decided(Relation::kEqual, kBatch + kSeq, kSeq + kBatch), true);
  EXPECT_EQ(decided(Relation::kEqual, kBatch, 20), false);
  EXPECT_EQ(decided(Relation::kEqual, kBatch, kSeq), std::nullopt);
  EXPECT_EQ(decided(Relation::kMultiple, 6 * kBatch, 3), true);
  EXPECT_EQ(decided(Relation::kMultiple, 6 * kBatch + 1, 3), false);
  EXPECT_EQ(decided(Relation::kMultiple, 6 * kBatch, 4), std::nullopt);
  EXPECT_EQ(decided(Relation::kMultiple, 6 * kBatch, kBatch), true);
  EXPECT_EQ(decided(Relation::kMultiple, 6 * kSeq, kSeq), std::nullopt);  // seq may be 0
  EXPECT_EQ(decided(Relation::kMultiple, 12, 0), false);
}

TEST(Conditions, RefusalsNameSizes) {
  const std::vector<int64_t> values = {3, 5};
  const auto text = [&](Relation relation, const Expr& left, const Expr& right) {
    return Condition{relation, left, right, "[Reshape \"r\"]"}.refusal(kSymbols, values);
  };
  EXPECT_EQ(text(Relation::kMultiple, 6 * kBatch, 4),
            "[Reshape \"r\"] wants 6*batch to be a multiple of 4, got 18");
  EXPECT_EQ(text(Relation::kEqual, 2 * kBatch, kSeq + 3),
            "[Reshape \"r\"] wants 2*batch to be seq + 3, got 6 and 8");
  EXPECT_EQ(text(Relation::kDiffers, kBatch, 3), "[Reshape \"r\"] wants batch not to be 3, got 3");
  EXPECT_EQ(text(Relation::kAtLeast, kSeq + 1, 7),
            "[Reshape \"r\"] wants seq + 1 to be at least 7, got 6");
}

TEST(Conditions, AListHasEachOnceInOneOrder) {
  const Condition a{Relation::kEqual, kBatch, kSeq, "first"};
  const Condition b{Relation::kMultiple, kBatch, 4, "second"};
  const Condition again{Relation::kEqual, kBatch, kSeq, "third"};
  std::vector<Condition> one, other;
  for (const Condition& c : {a, b, again}) add_condition(one, c);
  for (const Condition& c : {b, a}) add_condition(other, c);
  EXPECT_EQ(one, (std::vector<Condition>{a, b}));
  EXPECT_EQ(one, other);
}

TEST(Conditions, SizesThatFulfilThemAreFoundNearby) {
  std::vector<Condition> conditions;
  add_condition(conditions, {Relation::kMultiple, 6 * kBatch, 4, {}});
  add_condition(conditions, {Relation::kEqual, kSeq, 3 * kBatch, {}});
  add_condition(conditions, {Relation::kAtLeast, kSeq, 7, {}});
  const auto found = fulfilling(conditions, kSymbols, {3, 10});
  ASSERT_TRUE(found);
  EXPECT_EQ(first_broken(conditions, *found), nullptr);
  EXPECT_GE((*found)[0], 1);
  EXPECT_LE((*found)[0], 16);
  EXPECT_EQ(fulfilling(conditions, kSymbols, {4, 12}), (std::vector<int64_t>{4, 12}));
  add_condition(conditions, {Relation::kAtLeast, kBatch, 17, {}});
  EXPECT_EQ(fulfilling(conditions, kSymbols, {4, 12}), std::nullopt);
}

TEST(Conditions, ValidateRefusesWrongOnesAndSkipsSizesThatTheyForbid) {
  const auto message = [](const EngineSpec& spec) -> std::string {
    try {
      validate(spec);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
    return "";
  };
  EngineSpec spec = test::sample_engine();
  spec.conditions = {{Relation::kEqual, kSeq, 1, {}}};
  EXPECT_NE(message(spec).find("a condition uses symbol 1"), std::string::npos);
  spec.conditions = {{static_cast<Relation>(9), kBatch, 1, {}}};
  EXPECT_NE(message(spec).find("unknown kind"), std::string::npos);
  // An operand that leaves its buffer below 4 rows: no call comes that far.
  spec.conditions = {{Relation::kAtLeast, kBatch, 4, "[Split]"}};
  spec.dispatches[0].operands[0].offset_bytes = min(32 * kBatch - 128, 0);
  EXPECT_EQ(message(spec), "");
  EXPECT_THROW(validate_at(spec, std::vector<int64_t>{3}), Error);
  EXPECT_NO_THROW(validate_at(spec, std::vector<int64_t>{4}));
  spec.conditions.clear();
  EXPECT_NE(message(spec), "");
}

Graph rows_of_four(const std::string& source) {
  test::GraphMaker g;
  g.graph.symbols = {{"other", 1, 2, 8}, {"batch", 1, 2, kUnbounded}};
  const Expr batch = Expr::symbol(1);
  const ValueId x = g.input({batch, 6});
  const Shape shape = {floordiv(6 * batch, 4), 4};
  const ValueId rows = g.op(
      "aten::reshape", {tensor_arg("self", x), attr_arg("shape", std::vector<Expr>(shape))}, shape);
  g.output(g.op("aten::relu", {tensor_arg("self", rows)}, shape));
  add_condition(g.graph.conditions, {Relation::kMultiple, 6 * batch, 4, source});
  add_condition(g.graph.conditions, {Relation::kAtLeast, Expr::symbol(0), 2, "of another part"});
  return g.graph;
}

TEST(Conditions, ABlockHasThoseOnItsSymbols) {
  const Block block = extract(rows_of_four("[Reshape]"), {0, 1});
  ASSERT_EQ(block.graph.symbols.size(), 1u);
  EXPECT_EQ(block.graph.conditions,
            (std::vector<Condition>{{Relation::kMultiple, 6 * Expr::symbol(0), 4, "[Reshape]"}}));
  const EngineSpec spec = compile(block.graph, {}, test::test_device());
  EXPECT_EQ(spec.conditions, block.graph.conditions);
}

TEST(Conditions, CachedEnginesGetTheSourcesOfTheGraphThatTheyAreLoadedFor) {
  const Graph one = extract(rows_of_four("[Reshape \"a\"]"), {0, 1}).graph;
  const Graph other = extract(rows_of_four("[Reshape \"b\"]"), {0, 1}).graph;
  Graph without = one;
  without.conditions.clear();
  const CanonicalGraph canonical = canonical_form(one);
  EXPECT_EQ(canonical.text, canonical_form(other).text);
  EXPECT_NE(canonical.text, canonical_form(without).text);
  EngineSpec spec = compile(with_tokens(one, canonical), {}, test::test_device());
  EXPECT_EQ(spec.conditions.at(0).source, "");
  restore_names(spec, other, canonical_form(other));
  EXPECT_EQ(spec.conditions.at(0).source, "[Reshape \"b\"]");
}

}  // namespace
}  // namespace tv
