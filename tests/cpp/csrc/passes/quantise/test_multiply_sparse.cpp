#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/cache/canonical.h"
#include "csrc/passes/quantise/multiply_sparse.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

DeviceProfile gpu() {
  DeviceProfile profile = DeviceProfile::builtin_default();
  profile.storage8 = true;
  return profile;
}

struct Sparse : GraphBuilder {
  ValueId marked(Shape shape, uint8_t dims, DType dtype = DType::kF32) {
    const ValueId id = weight(std::move(shape), dtype);
    graph.value(id).two_four = dims;
    return id;
  }
  ValueId transpose(ValueId x) {
    const Shape shape = graph.value(x).shape;
    return node("aten::t", {tensor_arg("self", x)}, {{graph.value(x).dtype, {shape[1], shape[0]}}})
        .outputs[0];
  }
  ValueId mm(ValueId x, ValueId w) {
    const Shape out = {graph.value(x).shape[0], graph.value(w).shape[1]};
    return node("aten::mm", {tensor_arg("self", x), tensor_arg("mat2", w)},
                {{graph.value(x).dtype, out}})
        .outputs[0];
  }
  ValueId joined(std::vector<ValueId> parts, int64_t dim, Shape shape) {
    return node("aten::cat",
                {tensor_list_arg("tensors", std::move(parts)), attr_arg("dim", Expr(dim))},
                {{DType::kF32, std::move(shape)}})
        .outputs[0];
  }
  size_t products() {
    graph = multiply_sparse(graph);
    check(graph, "test");
    return static_cast<size_t>(std::ranges::count(graph.nodes, "tv::matmul_sparse", &Node::op));
  }
  std::string outcome(const GraphUs& us = {}) {
    std::vector<SparseOutcome> outcomes;
    graph = choose_sparse(graph, gpu(), us, &outcomes);
    return outcomes.size() == 1 ? outcomes[0].outcome
                                : std::to_string(outcomes.size()) + " outcomes";
  }
};

TEST(MultiplySparse, RowsOfTheWeightAreWhatIsSummed) {
  for (const auto& [dims, products] : {std::pair<uint8_t, size_t>{2, 1}, {1, 0}, {3, 1}, {0, 0}}) {
    Sparse b;
    b.output(b.mm(b.input({3, 32}), b.transpose(b.marked({6, 32}, dims))));
    EXPECT_EQ(b.products(), products) << int{dims};
  }
}

TEST(MultiplySparse, ColumnsAreWhereTheWeightIsNotTransposed) {
  Sparse b;
  b.output(b.mm(b.input({3, 32}), b.marked({32, 6}, 1)));
  EXPECT_EQ(b.products(), 1u);
  const auto pack = std::ranges::find(b.graph.nodes, "tv::pack_two_four", &Node::op);
  ASSERT_NE(pack, b.graph.nodes.end());
  EXPECT_EQ(b.graph.value(pack->input("b")).shape, (Shape{6, 32}));
  EXPECT_EQ(b.graph.value(pack->outputs[0]).shape, (Shape{6, 16}));
  EXPECT_EQ(b.graph.value(pack->outputs[1]).shape, (Shape{6, 4}));
}

TEST(MultiplySparse, PartsThatAreJoinedBesideOneAnotherAreSparseTogether) {
  for (const auto& [second, dim, products] :
       {std::tuple<uint8_t, int64_t, size_t>{2, 0, 1}, {0, 0, 0}, {2, 1, 0}}) {
    Sparse b;
    const Shape shape = dim == 0 ? Shape{12, 32} : Shape{6, 64};
    const ValueId w = b.joined({b.marked({6, 32}, 2), b.marked({6, 32}, second)}, dim, shape);
    b.output(b.mm(b.input({3, dim == 0 ? 32 : 64}), b.transpose(w)));
    EXPECT_EQ(b.products(), products) << int{second} << " along " << dim;
  }
}

TEST(MultiplySparse, WhatComputesAWeightMakesItDense) {
  Sparse b;
  const ValueId sum = b.op("t::work", {b.marked({6, 32}, 2)}, {6, 32});
  b.output(b.mm(b.input({3, 32}), b.transpose(sum)));
  EXPECT_EQ(b.products(), 0u);
}

TEST(MultiplySparse, InputsAreNotLookedAt) {
  Sparse b;
  const ValueId w = b.input({6, 32});
  b.graph.value(w).two_four = 2;
  b.output(b.mm(b.input({3, 32}), b.transpose(w)));
  EXPECT_EQ(b.products(), 0u);
}

TEST(MultiplySparse, RulesSayWhy) {
  const auto outcome = [](int64_t rows, int64_t k, uint8_t dims) {
    Sparse b;
    b.output(b.mm(b.input({rows, k}), b.transpose(b.marked({6, k}, dims))));
    return b.outcome();
  };
  EXPECT_EQ(outcome(1, 32, 2), "read as 2:4 sparse");
  EXPECT_EQ(outcome(2, 32, 2), "read dense: 2 rows are multiplied by it; by rule only one gains");
  EXPECT_EQ(outcome(1, 20, 2), "read dense: rows of 20 elements; want a multiple of 8");
  EXPECT_EQ(outcome(1, 32, 1),
            "read dense: of four neighbours in a row more than two are not zero");
}

TEST(MultiplySparse, TimesDecideWhereTheyAreKnown) {
  for (const bool sparse_is_faster : {true, false}) {
    Sparse b;
    b.output(b.mm(b.input({512, 32}), b.transpose(b.marked({6, 32}, 2))));
    size_t marked = 0, unmarked = 0;
    const std::string outcome = b.outcome([&](Graph alone) -> std::optional<double> {
      const bool sparse = std::ranges::any_of(
          alone.weights, [&](ValueId v) { return alone.value(v).two_four != 0; });
      ++(sparse ? marked : unmarked);
      return sparse == sparse_is_faster ? 1 : 2;
    });
    EXPECT_EQ(outcome,
              sparse_is_faster ? "read as 2:4 sparse" : "read dense: measured to be faster");
    EXPECT_EQ(marked, 1u);
    EXPECT_EQ(unmarked, 1u);
    EXPECT_EQ(b.products(), sparse_is_faster ? 1u : 0u);
  }
}

TEST(MultiplySparse, AWeightOfTwoProductsIsOneOrTheOther) {
  Sparse b;
  const ValueId w = b.transpose(b.marked({6, 32}, 2));
  b.output(b.mm(b.input({1, 32}), w));
  b.output(b.mm(b.input({64, 32}), w));
  std::vector<SparseOutcome> outcomes;
  b.graph = choose_sparse(b.graph, gpu(), {}, &outcomes);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].outcome, "read dense: another product reads the weight so");
  EXPECT_EQ(b.products(), 0u);
}

TEST(MultiplySparse, CandidatesAreTheWeightsThatAreSummed) {
  Sparse b;
  const ValueId x = b.input({3, 32}), first = b.weight({6, 32}), second = b.weight({32, 6});
  b.output(b.mm(x, b.transpose(first)));
  b.output(b.mm(x, second));
  b.output(b.mm(b.input({3, 20}), b.transpose(b.weight({6, 20}))));
  const auto found = candidates_of(b.graph);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].weight, first);
  EXPECT_EQ(found[0].along, 1u);
  EXPECT_EQ(found[1].weight, second);
  EXPECT_EQ(found[1].along, 0u);
}

TEST(MultiplySparse, EnginesOfSparseWeightsHaveAKeyOfTheirOwn) {
  const auto text = [](uint8_t dims) {
    Sparse b;
    b.output(b.mm(b.input({3, 32}), b.transpose(b.marked({6, 32}, dims))));
    return canonical_form(b.graph).text;
  };
  EXPECT_NE(text(0), text(2));
  EXPECT_NE(text(1), text(2));
}

}  // namespace
}  // namespace tv
