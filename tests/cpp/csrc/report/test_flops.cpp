// Floating-point operations by operators' registrations.

#include <gtest/gtest.h>

#include "csrc/report/flops.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

/// Of a node over float32 tensors of these names and shapes.
int64_t flops(const std::string& op, const std::vector<std::pair<const char*, Shape>>& reads,
              Shape out, std::vector<Arg> more = {}) {
  GraphBuilder b;
  std::vector<Arg> args = std::move(more);
  for (const auto& [name, shape] : reads) args.push_back(tensor_arg(name, b.input(shape)));
  b.node(op, std::move(args), {{DType::kF32, std::move(out)}});
  return flops_of(b.graph, b.graph.nodes.back());
}

TEST(Flops, OfProducts) {
  EXPECT_EQ(flops("aten::mm", {{"self", {3, 5}}, {"mat2", {5, 7}}}, {3, 7}), 2 * 3 * 5 * 7);
  EXPECT_EQ(flops("aten::linear", {{"input", {2, 3, 5}}, {"weight", {7, 5}}}, {2, 3, 7}),
            2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(flops("aten::addmm", {{"self", {7}}, {"mat1", {3, 5}}, {"mat2", {5, 7}}}, {3, 7}),
            2 * 3 * 5 * 7);
  EXPECT_EQ(flops("aten::baddbmm",
                  {{"self", {2, 3, 7}}, {"batch1", {2, 3, 5}}, {"batch2", {2, 5, 7}}}, {2, 3, 7}),
            2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(flops("aten::dot", {{"self", {11}}, {"tensor", {11}}}, {}), 2 * 11);
  EXPECT_EQ(flops("aten::add.Tensor", {{"self", {11}}, {"other", {11}}}, {11}), 0);
  EXPECT_EQ(flops("t::unknown", {{"self", {11}}}, {11}), 0);
}

TEST(Flops, OfConvolutions) {
  EXPECT_EQ(flops("aten::conv3d", {{"input", {1, 6, 5, 5, 5}}, {"weight", {4, 3, 3, 3, 3}}},
                  {1, 4, 3, 3, 3}, {attr_arg("groups", Expr(2))}),
            2 * (4 * 27) * (3 * 27));
  const std::vector<std::pair<const char*, Shape>> up = {{"input", {2, 6, 4}},
                                                         {"weight", {6, 5, 3}}};
  EXPECT_EQ(flops("aten::convolution", up, {2, 5, 9}, {attr_arg("transposed", true)}),
            2 * (2 * 6 * 4) * (5 * 3));
  EXPECT_EQ(flops("aten::conv_transpose1d", up, {2, 5, 9}), 2 * (2 * 6 * 4) * (5 * 3));
}

TEST(Flops, OfAttention) {
  EXPECT_EQ(flops("aten::scaled_dot_product_attention",
                  {{"query", {2, 3, 8, 16}}, {"key", {2, 3, 11, 16}}, {"value", {2, 3, 11, 4}}},
                  {2, 3, 8, 4}),
            2 * (2 * 3 * 8) * 11 * (16 + 4));
}

TEST(Flops, OfGradients) {
  const std::vector<std::pair<const char*, Shape>> reads = {
      {"grad_output", {2, 4, 3, 3}}, {"input", {2, 6, 5, 5}}, {"weight", {4, 3, 3, 3}}};
  const auto asked = [](bool input, bool weight) {
    return attr_arg("output_mask", std::vector<bool>{input, weight, true});
  };
  const int64_t forward = 2 * (2 * 4 * 3 * 3) * (3 * 3 * 3);
  const char* op = "aten::convolution_backward";
  EXPECT_EQ(flops(op, reads, {2, 6, 5, 5}, {asked(true, true)}), 2 * forward);
  EXPECT_EQ(flops(op, reads, {2, 6, 5, 5}, {asked(false, true)}), forward);
  EXPECT_EQ(flops(op, reads, {4}, {asked(false, false)}), 0);
  EXPECT_EQ(flops("aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                  {{"query", {2, 3, 8, 16}}, {"key", {2, 3, 11, 16}}, {"value", {2, 3, 11, 4}}},
                  {2, 3, 8, 16}),
            2 * (2 * 3 * 8) * 11 * (3 * 16 + 2 * 4));
}

TEST(Flops, AtTheUsualSizes) {
  GraphBuilder b;
  const Expr n = Expr::symbol(b.symbol("n", 3));
  b.node("aten::mm", {tensor_arg("self", b.input({n, 5})), tensor_arg("mat2", b.input({5, n}))},
         {{DType::kF32, {n, n}}});
  EXPECT_EQ(flops_of(b.graph, b.graph.nodes[0]), 2 * 3 * 3 * 5);
}

/// What a frontend could not express has its tensors in one list, and perhaps not all.
TEST(Flops, OfWhatWasNotExpressed) {
  GraphBuilder b;
  const ValueId x = b.input({1, 3, 8}), weight = b.input({4, 3, 3});
  for (const std::vector<ValueId>& reads : {std::vector{x, weight}, std::vector{x}}) {
    Node& node = b.node("aten::conv1d.padding", {tensor_list_arg("inputs", reads)},
                        {{DType::kF32, {1, 4, 6}}});
    node.origin.refusal = "its padding is a text";
  }
  EXPECT_EQ(flops_of(b.graph, b.graph.nodes[0]), 2 * (4 * 6) * (3 * 3));
  EXPECT_EQ(flops_of(b.graph, b.graph.nodes[1]), 0);
}

}  // namespace
}  // namespace tv
