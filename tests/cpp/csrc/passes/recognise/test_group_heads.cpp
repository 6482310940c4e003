#include <gtest/gtest.h>

#include <cstdint>

#include "csrc/passes/recognise/group_heads.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct Heads : GraphBuilder {
  ValueId unary(const std::string& op, ValueId x, Shape shape, std::vector<Arg> attrs = {}) {
    attrs.insert(attrs.begin(), tensor_arg("self", x));
    return node(op, std::move(attrs), {{DType::kF32, std::move(shape)}}).outputs[0];
  }
  /// transformers' repeat_kv.
  ValueId repeated(ValueId x, const Expr& times, bool copied = true) {
    Shape s = graph.value(x).shape;
    s.insert(s.begin() + 2, Expr(1));
    ValueId v = unary("aten::unsqueeze", x, s, {attr_arg("dim", Expr(2))});
    s[2] = times;
    v = unary("aten::expand", v, s);
    if (copied) v = unary("aten::clone", v, s);
    return unary("aten::_unsafe_view", v, {s[0], s[1] * times, s[3], s[4]});
  }
  ValueId attention(ValueId q, ValueId k, ValueId v) {
    return node("aten::scaled_dot_product_attention",
                {tensor_arg("query", q), tensor_arg("key", k), tensor_arg("value", v)},
                {{DType::kF32, graph.value(q).shape}})
        .outputs[0];
  }
  const Node& last() const { return graph.nodes.back(); }
  void run() {
    graph = group_heads(graph);
    check(graph, "test");
  }
};

TEST(GroupHeads, WhatWasRepeatedIsRead) {
  for (const bool copied : {false, true}) {
    Heads b;
    const Expr n = Expr::symbol(b.symbol("n"));
    const ValueId q = b.input({2, 6, 1, 8}), k = b.input({2, 3, n, 8}), v = b.input({2, 3, n, 8});
    b.output(b.attention(q, b.repeated(k, 2, copied), b.repeated(v, 2, copied)));
    b.run();
    ASSERT_EQ(b.graph.nodes.size(), 1u) << dump(b.graph);
    EXPECT_EQ(b.last().input("key"), k);
    EXPECT_EQ(b.last().input("value"), v);
  }
}

/// x[:, :, None, :, :], of which a slice of a symbolic size is left: keys and values of each layer
/// are reshaped, the first one's, too.
TEST(GroupHeads, OfSymbolicSizesASliceLiesBetween) {
  Heads b;
  const Expr n = Expr::symbol(b.symbol("n"));
  for (int layer = 0; layer < 3; ++layer) {
    const ValueId q = b.input({2, 6, 1, 8});
    const auto all = [&](ValueId x) {
      x = b.unary("aten::unsqueeze", x, {2, 3, 1, n, 8}, {attr_arg("dim", Expr(2))});
      x = b.unary("aten::slice.Tensor", x, {2, 3, 1, n, 8},
                  {attr_arg("dim", Expr(3)), attr_arg("start", Expr(0)),
                   attr_arg("end", Expr(INT64_MAX)), attr_arg("step", Expr(1))});
      x = b.unary("aten::expand", x, {2, 3, 2, n, 8});
      return b.unary("aten::_unsafe_view", b.unary("aten::clone", x, {2, 3, 2, n, 8}),
                     {2, 6, n, 8});
    };
    b.output(b.attention(q, all(b.input({2, 3, n, 8})), all(b.input({2, 3, n, 8}))));
  }
  b.run();
  for (const Node& node : b.graph.nodes) {
    if (node.op != "aten::scaled_dot_product_attention") continue;
    EXPECT_EQ(b.graph.value(node.input("key")).shape[1], Expr(3)) << dump(b.graph);
    EXPECT_EQ(b.graph.value(node.input("value")).shape[1], Expr(3)) << dump(b.graph);
  }
}

TEST(GroupHeads, OneHeadExpandedToAll) {
  Heads b;
  const ValueId q = b.input({2, 6, 1, 8}), k = b.input({2, 1, 5, 8}), v = b.input({2, 1, 5, 8});
  const auto all = [&](ValueId x) { return b.unary("aten::expand", x, {2, 6, 5, 8}); };
  b.output(b.attention(q, all(k), all(v)));
  b.run();
  ASSERT_EQ(b.graph.nodes.size(), 1u) << dump(b.graph);
  EXPECT_EQ(b.last().input("key"), k);
}

TEST(GroupHeads, AnotherOrderOfHeadsStays) {
  Heads b;  // torch.cat([k, k], 1), not repeat_interleave
  const ValueId q = b.input({1, 6, 1, 8}), k = b.input({1, 3, 5, 8});
  const ValueId wide = b.unary(
      "aten::expand", b.unary("aten::unsqueeze", k, {1, 1, 3, 5, 8}, {attr_arg("dim", Expr(1))}),
      {1, 2, 3, 5, 8});
  const ValueId all = b.unary("aten::reshape", wide, {1, 6, 5, 8});
  b.output(b.attention(q, all, all));
  const size_t before = b.graph.nodes.size();
  b.run();
  EXPECT_EQ(b.graph.nodes.size(), before);
  EXPECT_EQ(b.last().input("key"), all);
}

TEST(GroupHeads, KeysAloneStay) {
  Heads b;
  const ValueId q = b.input({2, 6, 1, 8}), k = b.input({2, 3, 5, 8}), v = b.input({2, 6, 5, 8});
  const ValueId keys = b.repeated(k, 2);
  b.output(b.attention(q, keys, v));
  b.run();
  EXPECT_EQ(b.last().input("key"), keys);
}

}  // namespace
}  // namespace tv
