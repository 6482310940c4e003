// canonicalise, fold_batch_norm, fold, simplify, truncate.

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "csrc/passes/simplify/canonicalise.h"
#include "csrc/passes/simplify/fold.h"
#include "csrc/passes/simplify/simplify.h"
#include "csrc/passes/simplify/truncate.h"
#include "csrc/rewriter.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/graph_builder.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

using test::GraphBuilder;
using test::Tensor;

/// p::twice expands to p::once(p::once(x)); p::once is x + x, pointwise; p::square expands to a
/// pointwise multiplication; p::same is its input; p::maybe declines; p::endless contains itself;
/// p::wrong gives another dtype.
void register_pass_ops() {
  if (Registry::instance().find("p::once")) return;
  const auto self = [](const NodeContext& c) { return c.node.input("a0"); };
  const auto same_type = [self](const NodeContext& c, Rewriter& r, const char* op, ValueId x) {
    return r.add(op, {tensor_arg("a0", x)}, c.output().dtype, c.output().shape);
  };
  Registry& registry = Registry::instance();
  registry.add({.op = "p::once", .pointwise = [self](const NodeContext& c) {
                  return PointwiseOp{{self(c), self(c)},
                                     {.function = "add",
                                      .operands = {0, 1},
                                      .scalars = {},
                                      .integers = {},
                                      .compute = c.output().dtype,
                                      .result = c.output().dtype}};
                }});
  registry.add({.op = "p::twice", .expand = [=](const NodeContext& c, Rewriter& r) {
                  r.replace(0, same_type(c, r, "p::once", same_type(c, r, "p::once", self(c))));
                }});
  registry.add({.op = "p::square", .expand = [=](const NodeContext& c, Rewriter& r) {
                  r.replace(0, r.pointwise("mul", {self(c), self(c)}, c.output().dtype));
                }});
  registry.add({.op = "p::nested", .expand = [=](const NodeContext& c, Rewriter& r) {
                  // The reference stays good while values are added.
                  const Shape& shape = c.shape("a0");
                  ValueId x = self(c);
                  for (int i = 0; i < 100; ++i)
                    x = r.add("p::square", {tensor_arg("a0", x)}, DType::kF32, shape);
                  r.replace(0, same_type(c, r, "p::twice", x));
                }});
  registry.add({.op = "p::same",
                .expand = [=](const NodeContext& c, Rewriter& r) { r.replace(0, self(c)); }});
  registry.add({.op = "p::maybe", .expand = [](const NodeContext&, Rewriter&) {}});
  registry.add({.op = "p::endless", .expand = [=](const NodeContext& c, Rewriter& r) {
                  r.replace(0, same_type(c, r, "p::endless", self(c)));
                }});
  registry.add({.op = "p::wrong", .expand = [=](const NodeContext& c, Rewriter& r) {
                  r.replace(0, r.cast(self(c), DType::kI32));
                }});
}

struct Passes : testing::Test {
  GraphBuilder b;

  static void SetUpTestSuite() { register_pass_ops(); }

  Graph canonical() {
    Graph out = canonicalise(b.graph, Settings{}, DeviceProfile::builtin_default());
    check(out, "canonicalise");
    return out;
  }

  Graph folded() {
    Graph out = simplify(fold(b.graph));
    check(out, "fold");
    return out;
  }

  static std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& leaves) {
    return test::evaluate(graph, leaves);
  }

  ValueId pointwise(const std::string& function, ValueId x, std::vector<double> scalars,
                    DType dtype = DType::kF32) {
    auto program = std::make_shared<PointwiseProgram>();
    program->inputs = {b.graph.value(x).dtype};
    program->instrs = {{.function = function,
                        .operands = {0},
                        .scalars = std::move(scalars),
                        .integers = {},
                        .compute = dtype,
                        .result = dtype}};
    program->results = {1};
    Node& node = b.node("tv::pointwise", {tensor_list_arg("inputs", {x})},
                        {{dtype, b.graph.value(x).shape}});
    node.program = program;
    return node.outputs[0];
  }
};

TEST_F(Passes, ExpansionsExpandToTheEnd) {
  const ValueId x = b.input();
  b.output(b.op("p::nested", {x}));
  b.graph.nodes[0].module_path = "block.0";
  const Graph out = canonical();
  EXPECT_EQ(out.nodes.size(), 102u);
  for (const Node& n : out.nodes) {
    EXPECT_EQ(n.op, "tv::pointwise");
    EXPECT_EQ(n.fused_ops, (std::vector<std::string>{"p::nested"}));
    EXPECT_EQ(n.module_path, "block.0");
    EXPECT_EQ(n.source, "model.py:1");
  }
  EXPECT_EQ(run(out, {{1, -1, 0, 1}})[0], (Tensor{4, 4, 0, 4}));
}

TEST_F(Passes, PointwiseReadsARepeatedOperandOnce) {
  b.output(b.op("p::once", {b.input()}));
  const Graph out = canonical();
  ASSERT_EQ(out.nodes.size(), 1u);
  EXPECT_EQ(out.nodes[0].inputs("inputs").size(), 1u);
  EXPECT_EQ(out.nodes[0].program->instrs[0].operands, (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(out.nodes[0].fused_ops, (std::vector<std::string>{"p::once"}));
  EXPECT_EQ(run(out, {{1, 2, 3, 4}})[0], (Tensor{2, 4, 6, 8}));
}

TEST_F(Passes, ReplacedOutputsReachTheirReaders) {
  const ValueId x = b.input();
  b.output(b.op("p::twice", {b.op("p::same", {b.op("p::square", {x})})}));
  const Graph out = canonical();
  EXPECT_EQ(run(out, {{1, 2, 3, 4}})[0], (Tensor{4, 16, 36, 64}));
}

TEST_F(Passes, AConverterMayDecline) {
  b.output(b.op("p::maybe", {b.input()}));
  EXPECT_EQ(canonical().nodes[0].op, "p::maybe");
}

TEST_F(Passes, BadExpansionsAreFound) {
  const auto message = [&](const char* op) -> std::string {
    b = GraphBuilder();
    b.output(b.op(op, {b.input()}));
    try {
      canonical();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message("p::endless"), "[p::endless] expands without an end");
  EXPECT_EQ(message("p::wrong"),
            "[p::wrong] output 0 is replaced by a int32 of rank 1, want float32 of rank 1");
}

TEST_F(Passes, NamesStayUnique) {
  const ValueId x = b.input();
  const ValueId y = b.op("p::square", {x});
  b.output(b.work({y}));
  b.graph.nodes[1].name = "n0_pointwise_0";  // what the expansion calls its node
  std::set<std::string> names;
  for (const Node& node : canonical().nodes) {
    EXPECT_TRUE(names.insert(node.name).second) << node.name;
  }
  EXPECT_TRUE(names.contains("n0_pointwise_0"));
}

TEST_F(Passes, ExactIdentitiesGo) {
  const ValueId x = b.work({b.input()});
  ValueId y = x;
  y = pointwise("mul", y, {1});
  y = pointwise("div", y, {1});
  y = pointwise("sub", y, {0.0});
  y = pointwise("add", y, {-0.0});
  y = pointwise("cast", y, {});
  y = b.node("aten::view", {tensor_arg("self", y), attr_arg("size", std::vector<Expr>{Expr(4)})},
             {{DType::kF32, {4}}})
          .outputs[0];
  y = b.node("aten::dropout",
             {tensor_arg("input", y), attr_arg("p", 0.5), attr_arg("train", false)},
             {{DType::kF32, {4}}})
          .outputs[0];
  b.output(b.work({y}));
  const Graph out = folded();
  EXPECT_EQ(out.nodes.size(), 2u) << dump(out);
}

TEST_F(Passes, InexactOnesStay) {
  const ValueId x = b.work({b.input()});
  ValueId y = x;
  y = pointwise("add", y, {0.0});   // -0 + 0 is 0
  y = pointwise("sub", y, {-0.0});  // the same
  y = pointwise("mul", y, {2});
  y = pointwise("cast", y, {}, DType::kF16);
  y = pointwise("mul", y, {1}, DType::kF32);
  y = b.node("aten::dropout", {tensor_arg("input", y), attr_arg("p", 0.5), attr_arg("train", true)},
             {{DType::kF32, {4}}})
          .outputs[0];
  b.output(b.work({y}));
  EXPECT_EQ(folded().nodes.size(), 8u);
}

TEST_F(Passes, IntegersMayAddZero) {
  const ValueId x = b.op("t::work", {b.input({4}, DType::kI32)}, {4}, DType::kI32);
  b.output(b.op("t::work", {pointwise("add", x, {0}, DType::kI32)}, {4}, DType::kI32));
  EXPECT_EQ(folded().nodes.size(), 2u);
}

TEST_F(Passes, TransposesThatUndoEachOtherGo) {
  const ValueId x = b.work({b.input()}, {2, 3, 4});
  const auto permute = [&](ValueId v, std::vector<Expr> dims, Shape shape) {
    return b
        .node("aten::permute", {tensor_arg("self", v), attr_arg("dims", std::move(dims))},
              {{DType::kF32, std::move(shape)}})
        .outputs[0];
  };
  const auto transpose = [&](ValueId v, int64_t a, int64_t c, Shape shape) {
    return b
        .node("aten::transpose.int",
              {tensor_arg("self", v), attr_arg("dim0", Expr(a)), attr_arg("dim1", Expr(c))},
              {{DType::kF32, std::move(shape)}})
        .outputs[0];
  };
  const ValueId back = permute(permute(x, {2, 0, 1}, {4, 2, 3}), {1, 2, 0}, {2, 3, 4});
  const ValueId kept = permute(permute(x, {2, 0, 1}, {4, 2, 3}), {2, 0, 1}, {3, 4, 2});
  const ValueId swapped = transpose(transpose(x, 0, -1, {4, 3, 2}), 2, 0, {2, 3, 4});
  b.output(b.work({back, swapped, kept}));
  const Graph out = folded();
  EXPECT_EQ(out.nodes.size(), 4u) << dump(out);  // two works and the two permutes that remain
  EXPECT_EQ(out.nodes.back().input("a0"), out.nodes.front().outputs[0]);
  EXPECT_EQ(out.nodes.back().input("a1"), out.nodes.front().outputs[0]);
}

TEST_F(Passes, OutputsKeepANodeOfTheirOwn) {
  const ValueId x = b.input();
  b.output(pointwise("mul", x, {1}));  // an engine's output is never its input
  const ValueId y = b.work({x});
  b.output(y);
  b.output(pointwise("mul", y, {1}));  // nor another output
  const Graph out = folded();
  EXPECT_EQ(out.nodes.size(), 3u);
}

TEST_F(Passes, EqualNodesMerge) {
  const ValueId x = b.input();
  const auto node = [&](const char* op, std::vector<ValueId> in, Attr attr) {
    return b.op(op, in, {4}, DType::kF32, {attr_arg("k", std::move(attr))});
  };
  const ValueId first = node("t::work", {x}, Expr(1)), again = node("t::work", {x}, Expr(1));
  const ValueId other = node("t::work", {x}, 1.0), more = node("t::work.Other", {x}, Expr(1));
  const ValueId chain1 = b.work({first}), chain2 = b.work({again});
  const ValueId half1 = pointwise("mul", x, {0.5}), half2 = pointwise("mul", x, {0.25});
  const ValueId half3 = pointwise("mul", x, {0.5});
  b.output(b.work({chain1, chain2, other, more, half1, half2, half3}));
  const Graph out = simplify(b.graph);
  check(out, "simplify");
  EXPECT_EQ(out.nodes.size(), 7u) << dump(out);
  const Node& last = out.nodes.back();
  EXPECT_EQ(last.input("a0"), last.input("a1"));
  EXPECT_EQ(last.input("a4"), last.input("a6"));
  EXPECT_NE(last.input("a4"), last.input("a5"));
}

TEST_F(Passes, DeadNodesGoInputsStay) {
  const ValueId x = b.input(), unused = b.weight();
  b.work({b.work({unused})});
  b.output(b.work({x}));
  const Graph out = simplify(b.graph);
  EXPECT_EQ(out.nodes.size(), 1u);
  EXPECT_EQ(out.weights.size(), 1u);
}

TEST_F(Passes, TruncationReachesValuesAndAttributes) {
  const ValueId x = b.input({4}, DType::kI64);
  const ValueId y = b.op("t::work", {x}, {4}, DType::kF64, {attr_arg("dtype", DType::kF64)});
  b.output(pointwise("mul", y, {2}, DType::kF64));
  const Graph out = truncate_long_and_double(b.graph);
  EXPECT_EQ(out.value(x).dtype, DType::kI32);
  EXPECT_EQ(out.value(y).dtype, DType::kF32);
  EXPECT_EQ(std::get<DType>(out.nodes[0].arg("dtype").attr), DType::kF32);
  EXPECT_EQ(out.nodes[1].program->instrs[0].compute, DType::kF32);
  EXPECT_EQ(out.nodes[1].program->inputs[0], DType::kF32);
}

}  // namespace
}  // namespace tv
