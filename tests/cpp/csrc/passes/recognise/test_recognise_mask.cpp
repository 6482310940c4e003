#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

#include "csrc/passes/recognise/recognise_mask.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

/// Masks of one attention, as transformers and others write them.
struct Masks : GraphBuilder {
  explicit Masks(Expr queries, Expr keys = 200) : m(std::move(queries)), n(std::move(keys)) {
    query = input({2, 4, m, 32});
    key = input({2, 2, n, 32});
    length = input({}, DType::kI64);
  }

  ValueId op1(const std::string& op, ValueId x, Shape shape, std::vector<Arg> attrs = {}) {
    attrs.insert(attrs.begin(), tensor_arg("self", x));
    const DType dtype = graph.value(x).dtype;
    return node(op, std::move(attrs), {{dtype, std::move(shape)}}).outputs[0];
  }
  ValueId op2(const std::string& op, ValueId a, ValueId b, Shape shape, DType dtype) {
    return node(op, {tensor_arg("self", a), tensor_arg("other", b), attr_arg("alpha", Expr(1))},
                {{dtype, std::move(shape)}})
        .outputs[0];
  }
  ValueId range(const Expr& count, int64_t start = 0) {
    return node("aten::arange.start_step",
                {attr_arg("start", Expr(start)), attr_arg("end", count + start),
                 attr_arg("step", Expr(1))},
                {{DType::kI64, {count}}})
        .outputs[0];
  }
  ValueId keys() {  // with an offset of 0
    return op1("aten::view", less(range(n), 0, "aten::add.Scalar"), {1, 1, 1, n});
  }
  ValueId places() {
    const ValueId sum = op2("aten::add.Tensor", range(m), length, {m}, DType::kI64);
    return op1("aten::unsqueeze", op1("aten::view", sum, {1, 1, m}), {1, 1, m, 1});
  }
  ValueId less(ValueId x, int64_t number, const char* op = "aten::sub.Tensor") {
    return op1(op, x, graph.value(x).shape,
               {attr_arg("other", Expr(number)), attr_arg("alpha", Expr(1))});
  }
  ValueId compared(const std::string& op, ValueId a, ValueId b) {
    return op2(op, a, b, {1, 1, m, n}, DType::kBool);
  }
  ValueId both(ValueId a, ValueId b, Shape shape) {
    return op2("aten::bitwise_and.Tensor", a, b, std::move(shape), DType::kBool);
  }

  /// The attention of this mask, behind the pass.
  const Node& attention(ValueId mask, DeviceType device = DeviceType::kDiscrete,
                        bool causal = false) {
    mask = op1("aten::expand", mask, {2, 1, m, n});
    output(node("aten::scaled_dot_product_attention",
                {tensor_arg("query", query), tensor_arg("key", key), tensor_arg("value", key),
                 tensor_arg("attn_mask", mask), attr_arg("is_causal", causal)},
                {{DType::kF32, {2, 4, m, 32}}})
               .outputs[0]);
    DeviceProfile profile = DeviceProfile::builtin_default();
    profile.type = device;
    graph = recognise_mask(graph, Settings{}, profile);
    check(graph, "test");
    return graph.nodes.back();
  }

  Expr m, n;
  ValueId query, key, length;
};

TEST(RecogniseMask, CausalMasksBecomeTheFirstQuerysPlace) {
  for (const Expr& queries : {Expr(1), Expr(7)}) {
    for (const std::string op : {"aten::le.Tensor", "aten::ge.Tensor"}) {
      Masks b(queries);
      const ValueId keys = b.keys(), places = b.places();
      const bool turned = op == "aten::ge.Tensor";
      const Node& node =
          b.attention(b.compared(op, turned ? places : keys, turned ? keys : places));
      ASSERT_TRUE(node.has("first")) << dump(b.graph);
      EXPECT_FALSE(node.has("attn_mask"));
      EXPECT_EQ(node.integer("window"), 0);
      // Of one query the sum, of more what is added to their numbers.
      EXPECT_EQ(b.graph.nodes.size(), queries == Expr(1) ? 3u : 1u) << dump(b.graph);
    }
  }
}

/// Behind the comparison; of dimensions elsewhere nobody looks what they mean.
TEST(RecogniseMask, DimensionsInFrontAreSeenThrough) {
  for (const auto& [first, second, known] :
       {std::tuple{0, 0, true}, {-3, -4, true}, {0, 1, false}}) {
    Masks b(7, 7);
    const ValueId keys = b.range(b.n);
    const ValueId places = b.op2("aten::add.Tensor", b.range(b.m), b.length, {7}, DType::kI64);
    const ValueId seen =
        b.op2("aten::le.Tensor", keys, b.op1("aten::view", places, {7, 1}), {7, 7}, DType::kBool);
    const ValueId pad = b.input({7}, DType::kBool);
    ValueId mask = b.both(seen, pad, {7, 7});
    mask = b.op1("aten::unsqueeze", mask, {1, 7, 7}, {attr_arg("dim", Expr(first))});
    mask = b.op1("aten::unsqueeze", mask, {1, 1, 7, 7}, {attr_arg("dim", Expr(second))});
    const Node& node = b.attention(mask);
    EXPECT_EQ(node.has("first"), known) << first << " " << second << dump(b.graph);
    if (known) {
      EXPECT_EQ(node.input("attn_mask"), pad);
    }
  }
}

TEST(RecogniseMask, SymbolicSizesAreRecognised) {
  Masks b(Expr::symbol(0), Expr::symbol(1));
  b.symbol("m");
  b.symbol("n");
  const ValueId keys = b.keys();
  EXPECT_TRUE(b.attention(b.compared("aten::le.Tensor", keys, b.places())).has("first"));
}

/// Numbers that are symbols are none that is looked for, and no error.
TEST(RecogniseMask, SymbolicNumbersStay) {
  const auto numbers = [](Masks& b, const std::string& op, const char* name, DType dtype) {
    return b
        .node(op, {attr_arg("size", std::vector<Expr>{}), attr_arg(name, Expr::symbol(0))},
              {{dtype, {}}})
        .outputs[0];
  };
  for (const std::string what : {"keys", "hidden", "full", "true"}) {
    SCOPED_TRACE(what);
    Masks b(7);
    b.symbol("offset");
    ValueId keys = b.keys();
    if (what == "keys") {
      keys = b.op1("aten::add.Scalar", b.range(b.n), {b.n},
                   {attr_arg("other", Expr::symbol(0)), attr_arg("alpha", Expr(1))});
      keys = b.op1("aten::view", keys, {1, 1, 1, b.n});
    }
    ValueId mask = b.compared("aten::le.Tensor", keys, b.places());
    if (what == "true") {
      mask = b.both(mask, numbers(b, "aten::full", "fill_value", DType::kBool), {1, 1, 7, 200});
    } else if (what != "keys") {
      const ValueId number = what == "hidden" ? numbers(b, "aten::scalar_tensor", "s", DType::kF32)
                                              : numbers(b, "aten::full", "fill_value", DType::kF32);
      mask = b.node("aten::where.self",
                    {tensor_arg("condition", mask), tensor_arg("self", number),
                     tensor_arg("other", number)},
                    {{DType::kF32, {1, 1, 7, 200}}})
                 .outputs[0];
    }
    const Node& node = b.attention(mask);
    EXPECT_EQ(node.has("first"), what == "true") << dump(b.graph);
    EXPECT_TRUE(node.has("attn_mask"));
  }
}

TEST(RecogniseMask, WindowsAreNumbersAndPaddingStays) {
  for (const auto& [op, number] :
       {std::pair{"aten::sub.Tensor", 16}, std::pair{"aten::add.Tensor", -16}}) {
    Masks b(7);
    const ValueId keys = b.keys(), places = b.places();
    const ValueId ones =
        b.node("aten::full", {attr_arg("size", std::vector<Expr>{}), attr_arg("fill_value", true)},
               {{DType::kBool, {}}})
            .outputs[0];
    const ValueId window = b.compared("aten::gt.Tensor", keys, b.less(places, number, op));
    const ValueId causal = b.compared("aten::le.Tensor", keys, places);
    const ValueId padding = b.input({2, 1, 1, 200}, DType::kBool);
    const Shape all = {1, 1, 7, 200};
    const Node& node = b.attention(
        b.both(b.both(b.both(ones, window, all), causal, all), padding, {2, 1, 7, 200}));
    ASSERT_TRUE(node.has("first")) << dump(b.graph);
    EXPECT_EQ(node.integer("window"), 16);
    EXPECT_EQ(node.input("first"), b.length);
    EXPECT_EQ(node.input("attn_mask"), padding);
  }
}

TEST(RecogniseMask, WindowsOfNothingStayMasks) {
  Masks b(7);
  const ValueId keys = b.keys(), places = b.places();
  const ValueId nothing = b.compared("aten::gt.Tensor", keys, b.less(places, 0));
  const ValueId causal = b.compared("aten::le.Tensor", keys, places);
  const Node& node = b.attention(b.both(nothing, causal, {1, 1, 7, 200}));
  EXPECT_EQ(node.input("first"), b.length);
  EXPECT_EQ(node.integer("window"), 0);
  EXPECT_EQ(node.input("attn_mask"), nothing);
}

TEST(RecogniseMask, NumbersThatAreAddedHideWhereTheyAreInfinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& [seen, hidden, known] : {std::tuple{0.0, -kInfinity, true},
                                            {0.0, -1e9, false},
                                            {1.0, -kInfinity, false},
                                            {-kInfinity, 0.0, false}}) {
    Masks b(7);
    const ValueId keys = b.keys();
    const ValueId causal = b.compared("aten::le.Tensor", keys, b.places());
    const auto number = [&](double n) {
      return b
          .node("aten::full", {attr_arg("size", std::vector<Expr>{}), attr_arg("fill_value", n)},
                {{DType::kF32, {}}})
          .outputs[0];
    };
    const ValueId added = b.node("aten::where.self",
                                 {tensor_arg("condition", causal), tensor_arg("self", number(seen)),
                                  tensor_arg("other", number(hidden))},
                                 {{DType::kF32, {1, 1, 7, 200}}})
                              .outputs[0];
    EXPECT_EQ(b.attention(added).has("first"), known) << seen << " " << hidden;
  }
}

/// Masks of the least number, which is added and no infinity.
struct LeastMasks : Masks {
  using Masks::Masks;

  ValueId added(ValueId seen, double hidden, DType dtype = DType::kF32) {
    const auto number = [&](const char* op, const char* name, double n) {
      return node(op, {attr_arg("size", std::vector<Expr>{}), attr_arg(name, n)}, {{dtype, {}}})
          .outputs[0];
    };
    const ValueId zero = number("aten::zeros", "fill_value", 0);
    const ValueId least = number("aten::scalar_tensor", "s", hidden);
    return node("aten::where.self",
                {tensor_arg("condition", seen), tensor_arg("self", zero),
                 tensor_arg("other", least)},
                {{dtype, graph.value(seen).shape}})
        .outputs[0];
  }
  /// The attention of a causal mask, with `rows` as a softmax has them.
  const Node& softmax_attention(ValueId mask, bool checks = true) {
    output(node("tv::softmax_attention",
                {tensor_arg("query", query), tensor_arg("key", key), tensor_arg("value", key),
                 tensor_arg("attn_mask", mask), attr_arg("is_causal", false),
                 attr_arg("rows", std::string("softmax")), attr_arg("scale", 0.125)},
                {{DType::kF32, {2, 4, m, 32}}})
               .outputs[0]);
    DeviceProfile profile = DeviceProfile::builtin_default();
    profile.type = DeviceType::kDiscrete;
    Settings settings;
    settings.check_indices = checks;
    graph = recognise_mask(graph, settings, profile);
    check(graph, "test");
    return graph.nodes.back();
  }
};

constexpr double kLeast = -static_cast<double>(std::numeric_limits<float>::max());

TEST(RecogniseMask, TheLeastNumberHidesFromQueriesThatSeeThemselves) {
  for (const Expr& queries : {Expr(1), Expr(7)}) {
    for (const bool window : {false, true}) {
      LeastMasks b(queries);
      const ValueId keys = b.keys(), places = b.places();
      ValueId seen = b.compared("aten::le.Tensor", keys, places);
      if (window) {
        const ValueId near = b.compared("aten::gt.Tensor", keys, b.less(places, 16));
        seen = b.both(near, seen, {1, 1, b.m, b.n});
      }
      const Node& node = b.softmax_attention(b.added(seen, kLeast));
      ASSERT_TRUE(node.has("first")) << dump(b.graph);
      EXPECT_FALSE(node.has("attn_mask"));
      EXPECT_EQ(node.integer("window"), window ? 16 : 0);
      // All places are checked, as indices of keys are; the first one is taken.
      const auto& nodes = b.graph.nodes;
      const auto checks = std::ranges::find(nodes, "aten::index_select", &Node::op);
      ASSERT_NE(checks, nodes.end()) << dump(b.graph);
      EXPECT_EQ(b.graph.value(checks->outputs[0]).shape, Shape{queries});
      const bool one = queries == Expr(1);
      EXPECT_EQ(std::ranges::find(nodes, "aten::slice.Tensor", &Node::op) == nodes.end(), one);
      EXPECT_EQ(b.graph.value(node.input("first")).shape, Shape{Expr(1)});
      for (const Node& each : nodes) EXPECT_NE(each.op, "aten::where.self");
    }
  }
}

TEST(RecogniseMask, LayersShareTheCheck) {
  LeastMasks b(7);
  const ValueId keys = b.keys();
  const ValueId mask = b.added(b.compared("aten::le.Tensor", keys, b.places()), kLeast);
  b.output(
      b.node("aten::scaled_dot_product_attention",
             {tensor_arg("query", b.query), tensor_arg("key", b.key), tensor_arg("value", b.key),
              tensor_arg("attn_mask", mask), attr_arg("is_causal", false)},
             {{DType::kF32, {2, 4, b.m, 32}}})
          .outputs[0]);
  EXPECT_TRUE(b.softmax_attention(mask).has("first"));
  EXPECT_EQ(std::ranges::count(b.graph.nodes, "aten::index_select", &Node::op), 1);
}

/// A row that sees nothing would be another one.
TEST(RecogniseMask, TheLeastNumberElsewhereStays) {
  const auto stays = [](auto&& make, bool checks = true) {
    LeastMasks b(7);
    const ValueId mask = make(b);
    const Node& node = b.softmax_attention(mask, checks);
    EXPECT_FALSE(node.has("first")) << dump(b.graph);
    EXPECT_EQ(node.input("attn_mask"), mask);
  };
  const auto causal = [](LeastMasks& b) {
    const ValueId keys = b.keys();
    return b.compared("aten::le.Tensor", keys, b.places());
  };
  {
    SCOPED_TRACE("padding");
    stays([&](LeastMasks& b) {
      const ValueId padding = b.input({2, 1, 1, 200}, DType::kBool);
      return b.added(b.both(causal(b), padding, {2, 1, 7, 200}), kLeast);
    });
  }
  {
    SCOPED_TRACE("other numbers");
    stays([&](LeastMasks& b) { return b.added(causal(b), -1e30); });
    stays([&](LeastMasks& b) { return b.added(causal(b), -65504, DType::kF16); });
    stays([&](LeastMasks& b) { return b.added(causal(b), kLeast, DType::kBF16); });
  }
  {
    SCOPED_TRACE("indices that nobody checks");
    stays([&](LeastMasks& b) { return b.added(causal(b), kLeast); }, /*checks=*/false);
  }
  {
    SCOPED_TRACE("infinity, of which rows without a key are no numbers");
    stays([&](LeastMasks& b) {
      return b.added(causal(b), -std::numeric_limits<double>::infinity());
    });
  }
}

TEST(RecogniseMask, SumsThatAreUsedKeepTheMask) {
  for (const bool used : {false, true}) {
    Masks b(7);
    const ValueId keys = b.keys();
    const ValueId mask = b.compared("aten::le.Tensor", keys, b.places());
    const auto outputs = b.node("aten::_scaled_dot_product_flash_attention_for_cpu",
                                {tensor_arg("query", b.query), tensor_arg("key", b.key),
                                 tensor_arg("value", b.key), tensor_arg("attn_mask", mask)},
                                {{DType::kF32, {2, 4, 7, 32}}, {DType::kF32, {2, 4, 7}}})
                             .outputs;
    for (size_t i = 0; i < (used ? 2u : 1u); ++i) b.output(outputs[i]);
    DeviceProfile device = DeviceProfile::builtin_default();
    device.type = DeviceType::kDiscrete;
    b.graph = recognise_mask(b.graph, Settings{}, device);
    EXPECT_EQ(b.graph.nodes.back().has("first"), !used);
  }
}

/// Masks that look alike and hide others.
TEST(RecogniseMask, OtherMasksStay) {
  using Make = std::function<ValueId(Masks&)>;
  const auto le = [](Masks& b, ValueId keys, ValueId places) {
    return b.compared("aten::le.Tensor", keys, places);
  };
  const std::pair<const char*, Make> kOthers[] = {
      {"keys behind the query alone",
       [&](Masks& b) { return b.compared("aten::lt.Tensor", b.keys(), b.places()); }},
      {"keys from the query on", [&](Masks& b) { return le(b, b.places(), b.keys()); }},
      {"keys numbered from 1",
       [&](Masks& b) {
         return le(b, b.op1("aten::view", b.range(b.n, 1), {1, 1, 1, b.n}), b.places());
       }},
      {"keys with an offset",
       [&](Masks& b) {
         const ValueId keys = b.less(b.range(b.n), 1, "aten::add.Scalar");
         return le(b, b.op1("aten::view", keys, {1, 1, 1, b.n}), b.places());
       }},
      {"places from elsewhere",
       [&](Masks& b) { return le(b, b.keys(), b.input({1, 1, b.m, 1}, DType::kI64)); }},
      {"a place for each text",
       [&](Masks& b) {
         const ValueId place = b.input({2, 1, 1, 1}, DType::kI64);
         return b.op2("aten::le.Tensor", b.keys(), place, {2, 1, 1, b.n}, DType::kBool);
       }},
      {"a window without an end",
       [&](Masks& b) { return b.compared("aten::gt.Tensor", b.keys(), b.less(b.places(), 16)); }},
      {"a window of another text",
       [&](Masks& b) {
         const ValueId keys = b.keys(), places = b.places();
         b.length = b.input({}, DType::kI64);
         const ValueId window = b.compared("aten::gt.Tensor", keys, b.less(b.places(), 16));
         return b.both(window, le(b, keys, places), {1, 1, b.m, b.n});
       }},
      {"either of two",
       [&](Masks& b) {
         const ValueId causal = le(b, b.keys(), b.places());
         return b.op2("aten::bitwise_or.Tensor", causal, b.input({1, 1, b.m, b.n}, DType::kBool),
                      {1, 1, b.m, b.n}, DType::kBool);
       }},
      {"two that are not places",
       [&](Masks& b) {
         const ValueId causal = le(b, b.keys(), b.places());
         const ValueId one = b.input({1, 1, 1, b.n}, DType::kBool);
         const ValueId two = b.input({2, 1, 1, b.n}, DType::kBool);
         return b.both(b.both(causal, one, {1, 1, b.m, b.n}), two, {2, 1, b.m, b.n});
       }},
  };
  for (const auto& [name, make] : kOthers) {
    SCOPED_TRACE(name);
    Masks b(7);
    const ValueId mask = make(b);
    const Node& node = b.attention(mask);
    EXPECT_FALSE(node.has("first")) << dump(b.graph);
    EXPECT_TRUE(node.has("attn_mask"));
  }
}

TEST(RecogniseMask, DevicesAndFormsThatGainNothingKeepIt) {
  Masks cpu(1);
  const ValueId keys = cpu.keys();
  EXPECT_FALSE(cpu.attention(cpu.compared("aten::le.Tensor", keys, cpu.places()), DeviceType::kCpu)
                   .has("first"));
  Masks causal(7);
  const ValueId of_causal = causal.keys();
  EXPECT_FALSE(causal
                   .attention(causal.compared("aten::le.Tensor", of_causal, causal.places()),
                              DeviceType::kDiscrete, true)
                   .has("first"));
}

}  // namespace
}  // namespace tv
