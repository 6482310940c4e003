#include <gtest/gtest.h>

#include "csrc/passes/simplify/hoist_scales.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct Scales : GraphBuilder {
  ValueId pair(const char* op, ValueId a, ValueId b, Shape shape, DType dtype = DType::kF32) {
    return node(op, {tensor_arg("self", a), tensor_arg("other", b)}, {{dtype, std::move(shape)}})
        .outputs[0];
  }
  ValueId times(ValueId a, ValueId s, DType dtype = DType::kF32) {
    return pair("aten::mul.Tensor", a, s, graph.value(a).shape, dtype);
  }
  size_t count(const std::string& op) const {
    size_t found = 0;
    for (const Node& n : graph.nodes) found += n.op == op;
    return found;
  }
  void run() {
    graph = hoist_scales(graph);
    check(graph, "test");
  }
};

TEST(HoistScales, TwoBecomeOneAfterTheProduct) {
  Scales b;
  const ValueId q = b.input({2, 3, 4}), k = b.input({2, 4, 3}), s = b.weight({}), t = b.weight({1});
  const ValueId y = b.pair("aten::matmul", b.times(q, s), b.times(k, t), {2, 3, 3});
  b.output(y);
  b.run();
  ASSERT_EQ(b.graph.nodes.size(), 3u) << dump(b.graph);
  const Node &scale = b.graph.nodes[0], &product = b.graph.nodes[1], &last = b.graph.nodes[2];
  EXPECT_EQ(scale.all_inputs(), (std::vector<ValueId>{s, t}));
  EXPECT_EQ(b.graph.value(scale.outputs[0]).shape, Shape{1});
  EXPECT_EQ(product.all_inputs(), (std::vector<ValueId>{q, k}));
  EXPECT_EQ(last.all_inputs(), (std::vector<ValueId>{product.outputs[0], scale.outputs[0]}));
  EXPECT_EQ(last.outputs[0], y);
}

TEST(HoistScales, OneMovesOnItsOwn) {
  Scales b;
  const ValueId q = b.input({3, 4}), k = b.input({4, 3}), s = b.weight({});
  b.output(b.pair("aten::mm", q, b.times(k, s), {3, 3}));
  b.run();
  EXPECT_EQ(b.graph.nodes.size(), 2u);
  EXPECT_EQ(b.graph.nodes[0].op, "aten::mm");
}

TEST(HoistScales, LeavesTheRestAlone) {
  Scales b;
  const ValueId q = b.input({3, 3}), k = b.input({3, 3}), s = b.weight({});
  const ValueId shared = b.times(q, s);
  b.output(b.pair("aten::mm", shared, k, {3, 3}));
  b.output(shared);                                                       // read elsewhere
  b.output(b.pair("aten::mm", b.times(q, b.input({})), k, {3, 3}));       // not constant
  b.output(b.pair("aten::mm", b.times(q, b.weight({3, 3})), k, {3, 3}));  // not one element
  const ValueId half = b.input({3, 3}, DType::kF16);
  const ValueId small = b.times(half, b.weight({}, DType::kF16), DType::kF16);  // its range
  b.output(b.pair("aten::mm", small, half, {3, 3}, DType::kF16));
  const ValueId both = b.times(q, s);
  b.output(b.pair("aten::mm", both, both, {3, 3}));
  const std::string before = dump(b.graph);
  b.run();
  EXPECT_EQ(dump(b.graph), before);
}

}  // namespace
}  // namespace tv
