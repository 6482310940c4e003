#include <gtest/gtest.h>

#include <cmath>

#include "csrc/passes/recognise/recognise_attention.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct AttentionPieces : GraphBuilder {
  const Shape rows = {2, 3, 5, 4}, keys = {2, 3, 7, 4}, turned = {2, 3, 4, 7},
              square = {2, 3, 5, 7};
  ValueId q = input(rows), k = input(keys), v = input(keys);

  ValueId make(const std::string& op, std::vector<Arg> args, Shape shape,
               DType dtype = DType::kF32) {
    return node(op, std::move(args), {{dtype, std::move(shape)}}).outputs[0];
  }
  ValueId product(ValueId a, ValueId b, Shape shape) {
    return make("aten::matmul", {tensor_arg("self", a), tensor_arg("other", b)}, std::move(shape));
  }
  ValueId transposed(ValueId x) {
    return make("aten::transpose.int",
                {tensor_arg("self", x), attr_arg("dim0", Expr(-2)), attr_arg("dim1", Expr(-1))},
                turned);
  }
  ValueId times(ValueId x, double by) {
    return make("aten::mul.Scalar", {tensor_arg("self", x), attr_arg("other", by)},
                graph.value(x).shape);
  }
  ValueId plus(ValueId x, ValueId mask) {
    return make("aten::add.Tensor",
                {tensor_arg("self", x), tensor_arg("other", mask), attr_arg("alpha", 1.0)},
                graph.value(x).shape);
  }
  ValueId softmax(ValueId x, int64_t dim = -1) {
    return make(
        "aten::_softmax",
        {tensor_arg("self", x), attr_arg("dim", Expr(dim)), attr_arg("half_to_float", false)},
        graph.value(x).shape);
  }
  ValueId scores() { return product(q, transposed(k), square); }

  const Node* run() {
    graph = recognise_attention(graph);
    check(graph, "test");
    for (const Node& n : graph.nodes) {
      if (n.op == "tv::softmax_attention") return &n;
    }
    return nullptr;
  }
};

TEST(RecogniseAttention, TakesScaleAndMask) {
  AttentionPieces b;
  const ValueId mask = b.input({5, 7});
  b.output(b.product(b.softmax(b.plus(b.times(b.scores(), 0.5), mask)), b.v, b.rows));
  const Node* node = b.run();
  ASSERT_TRUE(node) << dump(b.graph);
  EXPECT_EQ(b.graph.nodes.size(), 1u) << dump(b.graph);
  EXPECT_EQ(node->input("query"), b.q);
  EXPECT_EQ(node->input("key"), b.k);
  EXPECT_EQ(node->input("value"), b.v);
  EXPECT_EQ(node->input("attn_mask"), mask);
  EXPECT_EQ(node->number("scale"), 0.5);
  EXPECT_FALSE(node->flag("is_causal"));
  EXPECT_EQ(node->text("rows"), "softmax");
}

TEST(RecogniseAttention, KnowsASafeSoftmax) {
  for (const bool read : {false, true}) {
    AttentionPieces b;
    const ValueId s = b.plus(b.scores(), b.input({5, 7})), p = b.softmax(s);
    const ValueId is =
        b.make("aten::eq.Scalar", {tensor_arg("self", s), attr_arg("other", -HUGE_VAL)}, b.square,
               DType::kBool);
    const ValueId all =
        b.make("aten::all.dim",
               {tensor_arg("self", is), attr_arg("dim", Expr(-1)), attr_arg("keepdim", true)},
               {2, 3, 5, 1}, DType::kBool);
    const ValueId zeros = b.make("aten::zeros_like", {tensor_arg("self", p)}, b.square);
    const ValueId safe =
        b.make("aten::where.self",
               {tensor_arg("condition", all), tensor_arg("self", zeros), tensor_arg("other", p)},
               b.square);
    b.output(b.product(safe, b.v, b.rows));
    if (read) b.output(s);
    const Node* node = b.run();
    ASSERT_EQ(node != nullptr, !read) << dump(b.graph);
    if (!node) continue;
    EXPECT_EQ(b.graph.nodes.size(), 1u) << dump(b.graph);
    EXPECT_EQ(node->text("rows"), "zeros");
  }
}

TEST(RecogniseAttention, KnowsACap) {
  for (const bool mask_inside : {false, true}) {
    AttentionPieces b;
    const ValueId mask = b.input({5, 7});
    ValueId s = b.times(b.times(b.scores(), 0.5), 0.25);
    if (mask_inside) s = b.plus(s, mask);
    s = b.make("aten::tanh", {tensor_arg("self", s)}, b.graph.value(s).shape);
    s = b.times(s, 4);
    if (!mask_inside) s = b.plus(s, mask);
    b.output(b.product(b.softmax(s), b.v, b.rows));
    const Node* node = b.run();
    EXPECT_EQ(node == nullptr, mask_inside) << dump(b.graph);
    if (!node) continue;
    EXPECT_EQ(node->number("softcap"), 4);
    EXPECT_EQ(node->number("scale"), 0.125);
    EXPECT_EQ(node->input("attn_mask"), mask);
  }
}

TEST(RecogniseAttention, MultipliesFactors) {
  AttentionPieces b;
  const ValueId one = b.weight({}), other = b.weight({1});
  const auto by = [&](const char* op, ValueId x, ValueId factor) {
    return b.make(op, {tensor_arg("self", x), tensor_arg("other", factor)}, b.graph.value(x).shape);
  };
  const ValueId scores = b.product(by("aten::mul.Tensor", b.q, one), b.transposed(b.k), b.square);
  b.output(b.product(b.softmax(by("aten::div.Tensor", scores, other)), b.v, b.rows));
  const Node* node = b.run();
  ASSERT_TRUE(node) << dump(b.graph);
  EXPECT_EQ(node->input("query"), b.q);
  ASSERT_EQ(b.graph.nodes.size(), 2u) << dump(b.graph);
  EXPECT_EQ(b.graph.nodes[0].op, "aten::div.Tensor");
  EXPECT_EQ(b.graph.nodes[0].all_inputs(), (std::vector<ValueId>{one, other}));
  EXPECT_EQ(node->input("factor"), b.graph.nodes[0].outputs[0]);
}

/// Rows of keys are made for each layer, beside the values that the graph came with.
TEST(RecogniseAttention, LayersWhoseKeysArePermutedFromColumns) {
  constexpr size_t kLayers = 64;
  AttentionPieces b;
  const ValueId mask = b.input({5, 7});
  for (size_t layer = 0; layer < kLayers; ++layer) {
    const ValueId keys = b.input({2, 7, 3, 4});
    const ValueId columns = b.make(
        "aten::permute",
        {tensor_arg("self", keys), attr_arg("dims", std::vector<Expr>{0, 2, 3, 1})}, b.turned);
    const ValueId scores = b.product(b.times(b.q, 0.5), b.times(columns, 0.25), b.square);
    b.output(b.product(b.softmax(b.plus(scores, mask)), b.v, b.rows));
  }
  ASSERT_TRUE(b.run()) << dump(b.graph);
  size_t found = 0;
  for (const Node& node : b.graph.nodes) {
    if (node.op != "tv::softmax_attention") continue;
    ++found;
    EXPECT_EQ(node.input("query"), b.q);
    EXPECT_EQ(node.number("scale"), 0.125);
    EXPECT_EQ(b.graph.value(node.input("key")).shape, b.keys);
  }
  EXPECT_EQ(found, kLayers);
}

/// A multiplication that also changes the dtype stays a node: its number is not the scale as well.
TEST(RecogniseAttention, ScalesOnceWhereTheDtypeChanges) {
  AttentionPieces b;
  const ValueId codes = b.input(b.rows, DType::kI8);
  const ValueId q =
      b.make("aten::mul.Scalar", {tensor_arg("self", codes), attr_arg("other", 0.125)}, b.rows);
  b.output(b.product(b.softmax(b.product(q, b.transposed(b.k), b.square)), b.v, b.rows));
  const Node* node = b.run();
  ASSERT_TRUE(node) << dump(b.graph);
  EXPECT_EQ(node->input("query"), q);
  EXPECT_EQ(node->number("scale"), 1);
}

TEST(RecogniseAttention, KnowsTheCausalMask) {
  for (const int64_t diagonal : {1, 0}) {
    AttentionPieces b;
    const ValueId hidden = b.make(
        "aten::full",
        {attr_arg("size", std::vector<Expr>{5, 7}), attr_arg("fill_value", -HUGE_VAL)}, {5, 7});
    const ValueId mask = b.make(
        "aten::triu", {tensor_arg("self", hidden), attr_arg("diagonal", Expr(diagonal))}, {5, 7});
    b.output(b.product(b.softmax(b.plus(b.scores(), mask)), b.v, b.rows));
    const Node* node = b.run();
    ASSERT_TRUE(node) << dump(b.graph);
    EXPECT_EQ(node->flag("is_causal"), diagonal == 1);
    EXPECT_EQ(node->has("attn_mask"), diagonal != 1);
  }
}

TEST(RecogniseAttention, LeavesWhatIsReadOrOfAnotherForm) {
  AttentionPieces probabilities;  // are an output
  const ValueId p = probabilities.softmax(probabilities.scores());
  probabilities.output(probabilities.product(p, probabilities.v, probabilities.rows));
  probabilities.output(p);
  EXPECT_FALSE(probabilities.run());

  AttentionPieces columns;
  columns.output(columns.product(columns.softmax(columns.scores(), 2), columns.v, columns.rows));
  EXPECT_FALSE(columns.run());

  AttentionPieces scaled;  // the mask, too
  const ValueId sum = scaled.plus(scaled.scores(), scaled.input({5, 7}));
  scaled.output(scaled.product(scaled.softmax(scaled.times(sum, 2)), scaled.v, scaled.rows));
  EXPECT_FALSE(scaled.run());

  AttentionPieces of_a_batch;  // one query for all batches: the scores have more of them
  of_a_batch.q = of_a_batch.input({1, 3, 5, 4});
  of_a_batch.output(
      of_a_batch.product(of_a_batch.softmax(of_a_batch.scores()), of_a_batch.v, of_a_batch.rows));
  EXPECT_FALSE(of_a_batch.run());
}

}  // namespace
}  // namespace tv
