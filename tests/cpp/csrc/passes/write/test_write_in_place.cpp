// Values that are written over inputs: where they come to lie, and engines that do so.

#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/compile/compile.h"
#include "csrc/passes/layouts/choose_layouts.h"
#include "csrc/passes/write/move_windows.h"
#include "csrc/passes/write/write_in_place.h"
#include "runtime/spec/vke.h"
#include "runtime/vulkan/instance.h"
#include "tests/cpp/kit/graph_eval.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

Attr whole(int64_t value) { return Expr(value); }

class WriteInPlace : public testing::Test {
 protected:
  static void SetUpTestSuite() { register_test_operators(); }

  void over(ValueId value, ValueId input) {
    g.graph.outputs.push_back({.value = value, .name = "written", .strides = {}, .over = input});
  }
  /// `self` with rows start … end - 1 replaced.
  ValueId put(ValueId self, ValueId part, int64_t start, int64_t end) {
    return g.op(
        "aten::slice_scatter",
        {tensor_arg("self", self), tensor_arg("src", part), attr_arg("dim", whole(0)),
         attr_arg("start", whole(start)), attr_arg("end", whole(end)), attr_arg("step", whole(1))},
        g.graph.value(self).shape);
  }
  ValueId index_put(ValueId self, ValueId index, ValueId part) {
    return g.op("aten::index_put",
                {tensor_arg("self", self), tensor_list_arg("indices", {index}),
                 tensor_arg("values", part), attr_arg("accumulate", false)},
                g.graph.value(self).shape);
  }
  ValueId roll(ValueId self, int64_t dim, int64_t shift) {
    return g.op("aten::roll",
                {tensor_arg("self", self), attr_arg("shifts", std::vector<Expr>{Expr(shift)}),
                 attr_arg("dims", std::vector<Expr>{Expr(dim)})},
                g.graph.value(self).shape);
  }
  ValueId join(ValueId a, ValueId b, Shape shape) {
    return g.op("aten::cat", {tensor_list_arg("tensors", {a, b}), attr_arg("dim", whole(0))},
                std::move(shape));
  }
  Graph run(std::vector<WriteOutcome>* outcomes = nullptr) {
    Graph graph = move_windows(g.graph, Settings{}, test_device());
    graph = choose_layouts(std::move(graph), Settings{}, test_device());
    graph = write_in_place(std::move(graph), Settings{}, test_device(), outcomes);
    check(graph, "write_in_place");
    return graph;
  }
  static std::vector<std::string> ops(const Graph& graph) {
    std::vector<std::string> found;
    for (const Node& node : graph.nodes) found.push_back(node.op);
    return found;
  }
  /// Elements that the engine's invocations are for, at most; and checks what it writes.
  static int64_t invocations(const EngineSpec& spec) {
    int64_t sum = 0;
    for (const Dispatch& d : spec.dispatches) {
      sum += d.grid[0].eval({}) * d.grid[1].eval({}) * d.grid[2].eval({});
    }
    return sum;
  }

  GraphMaker g;
  using Ops = std::vector<std::string>;
};

TEST_F(WriteInPlace, APartIsCopiedIntoItsPlace) {
  const ValueId cache = g.input({8, 5}), row = g.input({1, 5});
  over(put(cache, row, 3, 4), cache);
  const Graph after = run();
  EXPECT_EQ(ops(after), Ops{"tv::copy"});
  const auto& view = after.value(after.nodes[0].outputs[0]).view;
  ASSERT_TRUE(view);
  EXPECT_EQ(view->base, cache);
  EXPECT_EQ(view->offset, Expr(15));
}

TEST_F(WriteInPlace, EntriesAreStoredWhereTheyBelong) {
  const ValueId cache = g.input({8, 5}), index = g.input({2}, DType::kI64), rows = g.input({2, 5});
  over(index_put(cache, index, rows), cache);
  EXPECT_EQ(ops(run()), Ops{"tv::in_place_index_put"});
}

TEST_F(WriteInPlace, AWindowThatMovesIsRolledWhereItLies) {
  const ValueId cache = g.input({8, 5}), index = g.input({1}, DType::kI64), row = g.input({1, 5});
  over(index_put(roll(cache, 0, -1), index, row), cache);
  EXPECT_EQ(ops(run()), (Ops{"tv::in_place_roll", "tv::in_place_index_put"}));
}

TEST_F(WriteInPlace, AWindowThatIsJoinedMovesWhereItLies) {
  for (const bool forward : {true, false}) {
    g = GraphMaker();
    const ValueId cache = g.input({8, 5}), rows = g.input({2, 5});
    const ValueId kept = forward ? g.slice(cache, 0, 2, 8) : g.slice(cache, 0, 0, 6);
    over(forward ? join(kept, rows, {8, 5}) : join(rows, kept, {8, 5}), cache);
    const Graph after = run();
    EXPECT_EQ(ops(after), (Ops{"tv::in_place_roll", "tv::copy"}));
    EXPECT_EQ(after.nodes[0].exprs("shifts"), std::vector<Expr>{Expr(forward ? -2 : 2)});
  }
}

TEST_F(WriteInPlace, AJoinOfAnInputThatIsReadElsewhereStays) {
  const ValueId cache = g.input({8, 5}), rows = g.input({2, 5});
  g.output(g.pointwise("neg", {cache}));
  over(join(g.slice(cache, 0, 2, 8), rows, {8, 5}), cache);
  const Graph after = run();
  EXPECT_EQ(std::ranges::count(ops(after), "tv::in_place_roll"), 0);
  EXPECT_EQ(std::ranges::count(ops(after), "aten::cat"), 1);
}

TEST_F(WriteInPlace, SaysWhyAValueIsCopied) {
  const ValueId a = g.input({8, 5}), b = g.input({8, 5}), row = g.input({1, 5});
  const ValueId kept = put(a, row, 3, 4), written = put(b, row, 3, 4);
  g.output(kept);
  g.output(g.pointwise("add", {b, written}));
  over(kept, a);
  over(written, b);
  const ValueId c = g.input({8, 5});
  over(put(c, row, 3, 4), c);
  std::vector<WriteOutcome> outcomes;
  run(&outcomes);
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_EQ(outcomes[0].reason, "the value is a result of its own, too");
  EXPECT_NE(outcomes[1].reason.find("reads the older contents behind the write"), std::string::npos)
      << outcomes[1].reason;
  EXPECT_EQ(outcomes[2].reason, "");
}

TEST_F(WriteInPlace, RollsOfAllLengthsMoveEachElement) {
  const auto device = open_device("");
  DeviceProfile gpu = profile(*device);  // whose workgroups share a line, in tiles of 256 places
  gpu.type = DeviceType::kDiscrete;
  for (const int64_t size : {1, 2, 5, 16, 17, 255, 256, 257, 300}) {
    for (const int64_t shift : {-1, 1, -3, 16, -16}) {
      const bool as_gpu = size > 17 || shift == 1;
      g = GraphMaker();
      const ValueId cache = g.input({2, size, 3});
      over(roll(cache, 1, shift), cache);
      if (shift % size != 0) {
        EXPECT_EQ(ops(run()), Ops{"tv::in_place_roll"});
      }
      const auto engine =
          Engine::create(device, compile(g.graph, Settings{}, as_gpu ? gpu : profile(*device)));
      const auto before = ramp(static_cast<size_t>(6 * size));
      auto values = before;
      const HostTensor inputs[] = {host(values)};
      engine->run(*engine->prepare_weights({}), {}, inputs, {});
      for (int64_t i = 0; i < 6 * size; ++i) {
        const int64_t line = i / (3 * size), place = i / 3 % size;
        const int64_t from = ((place - shift) % size + size) % size;
        ASSERT_EQ(values[static_cast<size_t>(i)],
                  before[static_cast<size_t>((line * size + from) * 3 + i % 3)])
            << size << " " << shift << " at " << i;
      }
    }
  }
}

TEST_F(WriteInPlace, SeveralPartsOneAfterTheOther) {
  const ValueId cache = g.input({8, 5}), row = g.input({1, 5});
  const ValueId first = put(cache, row, 3, 4);
  const ValueId between = g.pointwise("neg", {first});
  over(put(first, row, 4, 5), cache);
  g.graph.outputs.insert(g.graph.outputs.begin(), {.value = between, .name = "between"});
  EXPECT_EQ(ops(run()), (Ops{"tv::copy", "tv::pointwise", "tv::copy"}));
}

TEST_F(WriteInPlace, WhoReadsTheOldContentsComesFirstOrACopyIsMade) {
  const ValueId cache = g.input({8, 5}), row = g.input({1, 5});
  const ValueId written = put(cache, row, 3, 4);
  g.output(g.pointwise("add", {cache, written}));
  over(written, cache);
  EXPECT_EQ(ops(run()), (Ops{"aten::slice_scatter", "tv::pointwise", "tv::copy"}));
}

TEST_F(WriteInPlace, WhatReadsWhereItWritesIsCopied) {
  const ValueId cache = g.input({8, 5});
  over(put(cache, g.slice(cache, 0, 1, 8), 0, 7), cache);
  EXPECT_EQ(ops(run()), (Ops{"aten::slice_scatter", "tv::copy"}));
}

TEST_F(WriteInPlace, AResultIsNotMovedIntoAnInput) {
  const ValueId cache = g.input({8, 5}), row = g.input({1, 5});
  const ValueId written = put(cache, row, 3, 4);
  g.output(written);
  over(written, cache);
  EXPECT_EQ(ops(run()), (Ops{"aten::slice_scatter", "tv::copy"}));
}

TEST_F(WriteInPlace, WhatIsMadeWithoutTheInputIsStoredThere) {
  const ValueId cache = g.input({8, 5}), other = g.input({8, 5});
  over(g.pointwise("neg", {other}), cache);
  EXPECT_EQ(ops(run()), Ops{"tv::pointwise"});
}

TEST_F(WriteInPlace, WhatIsMadeOfTheInputIsNot) {
  const ValueId cache = g.input({5, 5});
  over(g.pointwise("add", {cache, g.permute(cache, {1, 0})}), cache);
  EXPECT_EQ(ops(run()), (Ops{"tv::pointwise", "tv::copy"}));
}

TEST_F(WriteInPlace, TheSameContentsAreLeftAlone) {
  const ValueId cache = g.input({5, 5});
  g.output(g.pointwise("neg", {cache}));
  over(cache, cache);
  EXPECT_EQ(ops(run()), Ops{"tv::pointwise"});
}

TEST_F(WriteInPlace, TwoInputsAreExchanged) {
  const ValueId a = g.input({7}), b = g.input({7});
  over(b, a);
  over(a, b);
  const auto device = open_device("");
  const auto engine = Engine::create(device, compile(g.graph, Settings{}, profile(*device)));
  auto first = ramp(7), second = ramp(7, 100);
  const HostTensor inputs[] = {host(first), host(second)};
  engine->run(*engine->prepare_weights({}), {}, inputs, {});
  EXPECT_EQ(first, ramp(7, 100));
  EXPECT_EQ(second, ramp(7));
}

TEST_F(WriteInPlace, TheWorkDoesNotGrowWithWhatStays) {
  const auto device = open_device("");
  std::vector<int64_t> counts;
  for (const int64_t rows : {16, 16384}) {
    g = {};
    const ValueId cache = g.input({rows, 5}), index = g.input({2}, DType::kI64);
    const ValueId row = g.input({1, 5}), entries = g.input({2, 5});
    over(index_put(put(cache, row, 3, 4), index, entries), cache);
    const EngineSpec spec = compile(g.graph, Settings{}, profile(*device));
    counts.push_back(invocations(spec));
    EXPECT_TRUE(spec.outputs.empty());
    EXPECT_TRUE(spec.inputs[0].written);
    EXPECT_FALSE(spec.inputs[1].written);
  }
  EXPECT_EQ(counts[0], counts[1]);
}

/// x = x * 2 + w over n floats, in place.
EngineSpec doubling(int64_t n) {
  SpecBuilder b{Expr(n)};
  const uint32_t x = b.input("x"), w = b.weight("w");
  b.step("first", x, x, w, 2);
  b.spec.inputs[0].written = true;
  return b.spec;
}

void expect_doubled(const std::shared_ptr<Device>& device, size_t skip) {
  const auto engine = Engine::create(device, doubling(257));
  auto ws = ramp(257, 5), xs = ramp(257 + skip);
  const HostTensor weights[] = {host(ws)}, inputs[] = {{xs.data() + skip, 257 * 4}};
  const auto set = engine->prepare_weights(weights);
  for (int run = 0; run < 2; ++run) {
    auto want = xs;
    for (size_t i = 0; i < 257; ++i) want[i + skip] = xs[i + skip] * 2 + ws[i];
    engine->run(*set, {}, inputs, {});
    EXPECT_EQ(xs, want) << run;
  }
}

TEST(WrittenInput, HoldsTheResult) { expect_doubled(open_device(""), 0); }

TEST(WrittenInput, HoldsTheResultWhereItIsNotAligned) { expect_doubled(open_device(""), 1); }

TEST(WrittenInput, IsCopiedBackFromAStagedDevice) {
  PhysicalDevice physical = Instance::get().devices().back();
  physical.profile.host_pointers = false;
  expect_doubled(std::make_shared<Device>(physical), 1);
}

TEST(WrittenInput, MustSaySo) {
  EngineSpec spec = doubling(8);
  spec.inputs[0].written = false;
  EXPECT_NE(error_of(ErrorKind::kUser, [&] { validate(spec); }).find("read only"),
            std::string::npos);
  spec = doubling(8);
  spec.weights[0].written = true;
  EXPECT_NE(error_of(ErrorKind::kUser, [&] { validate(spec); }).find("written input"),
            std::string::npos);
}

TEST(WrittenInput, IsInTheFile) {
  const EngineSpec spec = doubling(8);
  EXPECT_EQ(from_vke(to_vke(spec)).spec, spec);
}

}  // namespace
}  // namespace tv
