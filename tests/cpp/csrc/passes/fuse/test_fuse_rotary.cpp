#include <gtest/gtest.h>

#include "csrc/graph/strided.h"
#include "csrc/passes/fuse/fuse_rotary.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

DeviceProfile gpu() {
  DeviceProfile device = DeviceProfile::builtin_default();
  EXPECT_FALSE(device.is_cpu());
  return device;
}

/// Heads of queries and keys as slices of a product, normalised, in the order of attention.
struct NormedHeads : GraphBuilder {
  const int64_t width = 8;
  ValueId product = input({3, 2, 9 * 8});
  ValueId normed_queries = kNoValue, queries = kNoValue, keys = kNoValue;

  ValueId view(ValueId of, Shape shape, const Expr& offset, Shape strides) {
    const ValueId v = graph.add_value({.name = "view" + std::to_string(graph.values.size()),
                                       .dtype = DType::kF32,
                                       .shape = std::move(shape),
                                       .kind = ValueKind::kNode});
    graph.value(v).view = View{of, offset, std::move(strides)};
    return v;
  }
  ValueId normed(int64_t heads, int64_t offset, double eps) {
    const Shape rows = {3, 2, heads, width};
    const ValueId x = view(product, rows, Expr(offset), {2 * 9 * width, 9 * width, width, 1});
    Node& norm =
        node("aten::rms_norm",
             {tensor_arg("input", x), attr_arg("normalized_shape", std::vector<Expr>{Expr(width)}),
              attr_arg("weight", std::monostate{}), attr_arg("eps", eps)},
             {{DType::kF32, rows}});
    return norm.outputs[0];
  }
  ValueId by_heads(ValueId normed, int64_t heads) {
    return view(normed, {3, heads, 2, width}, Expr(0),
                {2 * heads * width, width, heads * width, 1});
  }
  void rotate(double eps_of_keys = 1e-6) {
    normed_queries = normed(6, 0, 1e-6);
    const ValueId q = by_heads(normed_queries, 6);
    const ValueId k = by_heads(normed(3, 6 * width, eps_of_keys), 3);
    const Node& pair =
        node("tv::rotary_pair",
             {tensor_arg("x", q), tensor_arg("x2", k), tensor_arg("cos", input({2, 8})),
              tensor_arg("sin", input({2, 8})), attr_arg("rotated", Expr(width))},
             {{DType::kF32, {3, 6, 2, 8}}, {DType::kF32, {3, 3, 2, 8}}});
    queries = pair.outputs[0];
    keys = pair.outputs[1];
    output(queries);
    output(keys);
  }
  size_t run(const DeviceProfile& device = gpu()) {
    graph = fuse_rotary(graph, device);
    check(graph, "test");
    return graph.nodes.size();
  }
};

TEST(FuseRotary, NormsOfBothAreTakenIn) {
  NormedHeads b;
  b.rotate();
  ASSERT_EQ(b.run(), 1u) << dump(b.graph);
  const Node& node = b.graph.nodes[0];
  EXPECT_EQ(node.op, "tv::rotary_pair");
  EXPECT_EQ(node.number("eps"), 1e-6);
  EXPECT_EQ(node.fused_ops,
            (std::vector<std::string>{"aten::rms_norm", "aten::rms_norm", "tv::rotary_pair"}));
  const View keys = layout_of(b.graph, node.input("x2"));
  EXPECT_EQ(keys.base, b.product);
  EXPECT_EQ(keys.offset, Expr(48));
  EXPECT_EQ(keys.strides, (Shape{144, 8, 72, 1}));
}

TEST(FuseRotary, ANormThatIsReadElsewhereStays) {
  for (const bool returned : {false, true}) {
    NormedHeads b;
    b.rotate();
    b.output(returned ? b.normed_queries : b.work({b.normed_queries}));
    EXPECT_EQ(b.run(), returned ? 3u : 4u) << dump(b.graph);
  }
}

TEST(FuseRotary, NormsThatDifferStay) {
  NormedHeads b;
  b.rotate(1e-5);
  EXPECT_EQ(b.run(), 3u) << dump(b.graph);
}

TEST(FuseRotary, RowsThatAreReadInPartStay) {
  NormedHeads b;
  const ValueId normed = b.normed(6, 0, 1e-6);
  const ValueId some = b.view(normed, {3, 2, 3, 8}, Expr(0), {2 * 6 * 8, 6 * 8, 2 * 8, 1});
  b.output(b.node("tv::rotary",
                  {tensor_arg("x", some), tensor_arg("cos", b.input({8})),
                   tensor_arg("sin", b.input({8})), attr_arg("rotated", Expr(8))},
                  {{DType::kF32, {3, 2, 3, 8}}})
               .outputs[0]);
  EXPECT_EQ(b.run(), 2u) << dump(b.graph);
}

/// A rotary of a norm's results, as `some` shows them.
struct NormedRotary : NormedHeads {
  Node& rotary(ValueId some, const Shape& shape) {
    return node("tv::rotary",
                {tensor_arg("x", some), tensor_arg("cos", input({shape.back()})),
                 tensor_arg("sin", input({shape.back()})), attr_arg("rotated", shape.back())},
                {{DType::kF32, shape}});
  }
};

TEST(FuseRotary, ColumnsAreNoRows) {
  NormedRotary b;
  const ValueId normed = b.normed(8, 0, 1e-6);  // as many heads as elements of one
  const Shape swapped = {3, 2, 8, 8};
  const ValueId columns = b.view(normed, swapped, Expr(0), {2 * 8 * 8, 8 * 8, 1, 8});
  b.output(b.rotary(columns, swapped).outputs[0]);
  EXPECT_EQ(b.run(), 2u) << dump(b.graph);
}

TEST(FuseRotary, ANormThatIsAddedAfterwardsStays) {
  NormedRotary b;
  const ValueId normed = b.normed(6, 0, 1e-6);
  Node& node = b.rotary(normed, {3, 2, 6, 8});
  PointwiseProgram program{.inputs = {DType::kF32, DType::kF32}};
  program.instrs = {{.function = "add", .operands = {0, 1}}};
  program.results = {2};
  node.epilogue = std::make_shared<const PointwiseProgram>(std::move(program));
  node.epilogue_inputs = {normed};
  b.output(node.outputs[0]);
  EXPECT_EQ(b.run(), 2u) << dump(b.graph);
}

TEST(FuseRotary, OnCpuDriversTheyStay) {
  NormedHeads b;
  b.rotate();
  DeviceProfile device = gpu();
  device.type = DeviceType::kCpu;
  ASSERT_TRUE(device.is_cpu());
  EXPECT_EQ(b.run(device), 3u);
}

}  // namespace
}  // namespace tv
