#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "csrc/cache/cache_settings.h"
#include "csrc/partition/unsupported.h"
#include "csrc/settings.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

template <typename F>
std::string message_of(ErrorKind kind, F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Node node_with_attrs() {
  Node node;
  node.op = "aten::thing";
  node.name = "thing";
  node.args = {tensor_arg("self", 3),
               tensor_arg("weight", kNoValue),
               tensor_list_arg("tensors", {1, kNoValue, 2}),
               attr_arg("dim", Expr(-1)),
               attr_arg("size", std::vector<Expr>{Expr::symbol(0), Expr(4)}),
               attr_arg("mask", std::vector<bool>{true, false}),
               attr_arg("eps", 0.5),
               attr_arg("keepdim", true),
               attr_arg("mode", std::string("mean")),
               attr_arg("empty", std::vector<double>{}),
               attr_arg("none", {})};
  return node;
}

TEST(Node, ReadsItsArguments) {
  const Node node = node_with_attrs();
  EXPECT_EQ(node.input("self"), 3);
  EXPECT_EQ(node.input("weight"), kNoValue);
  EXPECT_EQ(node.input("absent"), kNoValue);
  EXPECT_EQ(node.inputs("tensors").size(), 3u);
  EXPECT_TRUE(node.has("self") && node.has("dim") && node.has("tensors"));
  EXPECT_FALSE(node.has("weight") || node.has("none") || node.has("absent"));
  EXPECT_EQ(node.integer("dim"), -1);
  EXPECT_EQ(node.exprs("dim"), (std::vector<Expr>{Expr(-1)}));
  EXPECT_EQ(node.exprs("size").size(), 2u);
  EXPECT_EQ(node.integers("mask"), (std::vector<int64_t>{1, 0}));
  EXPECT_TRUE(node.integers("empty").empty());
  EXPECT_TRUE(node.integers("none").empty());
  EXPECT_EQ(node.number("eps"), 0.5);
  EXPECT_EQ(node.number("dim"), -1);
  EXPECT_TRUE(node.flag("keepdim"));
  EXPECT_FALSE(node.flag("none") || node.flag("absent"));
  EXPECT_EQ(node.text("mode"), "mean");
  EXPECT_EQ(node.all_inputs(), (std::vector<ValueId>{3, 1, 2}));
}

TEST(Node, SaysWhatIsWrongWithAnArgument) {
  const Node node = node_with_attrs();
  EXPECT_TRUE(contains(message_of(ErrorKind::kInternal, [&] { node.arg("absent"); }),
                       "[aten::thing] argument 'absent' of node 'thing' is missing"));
  EXPECT_TRUE(contains(message_of(ErrorKind::kUnsupported, [&] { node.integers("size"); }),
                       "must be known when the engine is built; got s0"));
  message_of(ErrorKind::kInternal, [&] { node.integer("mode"); });
  message_of(ErrorKind::kInternal, [&] { node.text("dim"); });
}

TEST(Node, PrologueInputsReplaceTheArgument) {
  Node node = node_with_attrs();
  node.prologue = std::make_shared<PointwiseProgram>();
  node.prologue_arg = "self";
  node.prologue_inputs = {7, 8};
  node.epilogue_inputs = {9};
  EXPECT_EQ(node.all_inputs(), (std::vector<ValueId>{1, 2, 9, 7, 8}));
}

TEST(Graph, DumpShowsEverything) {
  GraphBuilder b;
  const Expr batch = Expr::symbol(b.symbol("batch", 1, 8));
  const ValueId x = b.input({batch, 3}), w = b.weight({3}, DType::kF16);
  const ValueId y = b.op("t::work", {x, w}, {batch, 3}, DType::kBool, {attr_arg("alpha", 0.5)});
  b.output(y, {3, 1});
  const std::string text = dump(b.graph);
  for (const char* part :
       {"symbol s0 batch: 1..8 opt 1", "input %0 in0: float32[s0, 3]", "weight %1 w0: float16[3]",
        "%2 n0: bool[s0, 3] = t::work(a0=%0, a1=%1, alpha=0.5)", "model.py:1",
        "output %2 out0 strides [3, 1]"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\nin\n" << text;
  }
}

TEST(Graph, SignatureTellsAttributesApart) {
  const auto sig = [](Attr attr) {
    Node node;
    node.op = "aten::x";
    node.args = {attr_arg("a", std::move(attr))};
    return signature(node);
  };
  const std::vector<Attr> attrs = {std::monostate{},
                                   true,
                                   Expr(1),
                                   1.0,
                                   0.1,
                                   0.1 + 1e-17 * 3,
                                   -0.0,
                                   0.0,
                                   std::string("1"),
                                   DType::kF32,
                                   std::string("float32")};
  std::set<std::string> seen;
  for (const Attr& a : attrs) seen.insert(sig(a));
  EXPECT_EQ(seen.size(), attrs.size());
}

TEST(Check, FindsWhatIsNotWellFormed) {
  const auto broken = [](auto breaks) {
    GraphBuilder b;
    const ValueId x = b.input();
    b.output(b.work({b.work({x})}));
    check(b.graph, "nothing");
    breaks(b.graph);
    return message_of(ErrorKind::kInternal, [&] { check(b.graph, "breaking"); });
  };
  EXPECT_TRUE(
      contains(broken([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }), "before it is made"));
  EXPECT_TRUE(contains(broken([](Graph& g) { g.nodes[1].name = "n0"; }), "used twice"));
  EXPECT_TRUE(contains(broken([](Graph& g) { g.outputs[0].value = 99; }), "names value 99"));
  EXPECT_TRUE(contains(broken([](Graph& g) { g.nodes[1].outputs[0] = g.nodes[0].outputs[0]; }),
                       "made twice"));
  EXPECT_TRUE(
      contains(broken([](Graph& g) { g.values[0].shape = {Expr::symbol(3)}; }), "unknown symbol"));
  EXPECT_TRUE(contains(broken([](Graph& g) { g.nodes[0].op = "tv::pointwise"; }), "no program"));
  EXPECT_TRUE(
      contains(broken([](Graph& g) { g.values[0].kind = ValueKind::kWeight; }), "another kind"));
}

TEST(Registry, RefusesASecondEntry) {
  test::register_partition_ops();
  EXPECT_TRUE(contains(
      message_of(ErrorKind::kInternal, [] { Registry::instance().add({.op = "t::work"}); }),
      "t::work has two converters"));
  EXPECT_EQ(Registry::instance().find("t::nothing"), nullptr);
}

struct Unsupported : testing::Test {
  GraphBuilder b;
  DeviceProfile device = DeviceProfile::builtin_default();
  Settings settings;

  std::string ask() { return unsupported({b.graph, b.graph.nodes.back(), device, settings}); }
};

TEST_F(Unsupported, DtypesFollowTheDevice) {
  const auto with = [&](DType dtype) {
    b.op("t::work", {b.input({2}, dtype)}, {2});
    return ask();
  };
  device.int64 = device.storage16 = device.storage8 = true;
  for (const DType d : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32,
                        DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    EXPECT_EQ(with(d), "") << name(d);
  }
  EXPECT_TRUE(contains(with(DType::kF64), "truncate_long_and_double"));
  EXPECT_TRUE(contains(with(DType::kOther), "not one that engines hold"));
  device.int64 = device.storage16 = device.storage8 = false;
  EXPECT_TRUE(contains(with(DType::kI64), "64-bit integers"));
  EXPECT_TRUE(contains(with(DType::kF16), "16-bit storage"));
  EXPECT_TRUE(contains(with(DType::kBool), "8-bit storage"));
  settings.truncate_long_and_double = true;
  EXPECT_EQ(with(DType::kF64), "");
  EXPECT_EQ(with(DType::kI64), "");
}

TEST_F(Unsupported, OutputsAreAskedToo) {
  b.op("t::work", {b.input()}, {4}, DType::kOther);
  EXPECT_TRUE(contains(ask(), "not one that engines hold"));
}

TEST_F(Unsupported, RankAndElementCount) {
  b.op("t::work", {b.input(Shape(9, Expr(1)))});
  EXPECT_TRUE(contains(ask(), "rank 9"));
  b.op("t::work", {b.input({Expr(1) * Expr(1 << 16), 1 << 15})});
  EXPECT_TRUE(contains(ask(), "fewer than 2^31"));
  b.op("t::work", {b.input({(1 << 16) - 1, 1 << 15})});
  EXPECT_EQ(ask(), "");
  const Expr bounded = Expr::symbol(b.symbol("a", 1, 1 << 16));
  b.op("t::work", {b.input({bounded, 1 << 15})});
  EXPECT_TRUE(contains(ask(), "fewer than 2^31"));
  const Expr unbounded = Expr::symbol(b.symbol("b", 2));
  b.op("t::work", {b.input({unbounded, 1 << 15})});
  EXPECT_EQ(ask(), "");
}

TEST_F(Unsupported, ExecutedOpsMatchWholeNames) {
  b.op("t::work.Other", {b.input()});
  EXPECT_EQ(ask(), "");
  settings.torch_executed_ops = {"t::wor"};
  EXPECT_EQ(ask(), "");
  settings.torch_executed_ops = {"t::work.Oth"};
  EXPECT_EQ(ask(), "");
  settings.torch_executed_ops = {"t::work"};
  EXPECT_TRUE(contains(ask(), "torch_executed_ops"));
  settings.torch_executed_ops = {"t::work.Other"};
  EXPECT_TRUE(contains(ask(), "torch_executed_ops"));
  b.op("t::work", {b.input()});
  EXPECT_EQ(ask(), "");
}

TEST_F(Unsupported, ConverterAnswersLastAndItsErrorsAreReasons) {
  b.op("t::unknown", {b.input()});
  EXPECT_EQ(ask(), "no converter for t::unknown");
  const auto picky = [&](const char* reason) {
    b.op("t::picky", {b.input()}, {4}, DType::kF32, {attr_arg("reason", std::string(reason))});
    return ask();
  };
  EXPECT_EQ(picky(""), "");
  EXPECT_EQ(picky("because"), "because");
  EXPECT_EQ(picky("throw"), "[t::picky] dim 9 is out of range for rank 2");
}

TEST_F(Unsupported, WrapCountsFromTheEnd) {
  b.work({b.input()});
  const NodeContext context{b.graph, b.graph.nodes.back(), device, settings};
  EXPECT_EQ(context.wrap(-1, 4), 3);
  EXPECT_EQ(context.wrap(2, 4), 2);
  EXPECT_EQ(context.wrap(-1, 0), 0);
  EXPECT_THROW(context.wrap(4, 4), Error);
  EXPECT_THROW(context.wrap(-5, 4), Error);
}

TEST(Settings, ReadsEveryField) {
  const Settings s = Settings::from_json(R"({
    "min_block_size": 3, "torch_executed_ops": ["aten::relu"], "require_full_compilation": true,
    "truncate_long_and_double": true, "enabled_precisions": ["float16", "float32"],
    "use_fp32_acc": false, "disable_tf32": false, "optimization_level": 5, "workspace_size": 1024,
    "debug_dir": "d", "cache_dir": "c", "check_addresses": true,
    "check_indices": false})");
  EXPECT_EQ(s.min_block_size, 3);
  EXPECT_EQ(s.torch_executed_ops, (std::vector<std::string>{"aten::relu"}));
  EXPECT_EQ(s.enabled_precisions, (std::vector<DType>{DType::kF16, DType::kF32}));
  EXPECT_TRUE(s.require_full_compilation && s.truncate_long_and_double && s.check_addresses);
  EXPECT_FALSE(s.use_fp32_acc || s.disable_tf32 || s.check_indices);
  EXPECT_EQ(s.optimization_level, 5);
  EXPECT_EQ(s.workspace_size, 1024);
  EXPECT_EQ(s.debug_dir + s.cache_dir, "dc");
  EXPECT_TRUE(std::isinf(Settings::from_json(R"({"min_block_size": "inf"})").min_block_size));
  EXPECT_EQ(Settings::from_json("{}").min_block_size, 5);
}

TEST(Settings, EveryRowIsWhole) {
  std::set<std::string> names;
  for (const SettingRow& row : setting_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
    EXPECT_LE(row.low, row.high) << row.name;
    EXPECT_EQ(&setting_row(row.name), &row);
    if (const auto* standard = std::get_if<int64_t>(&row.standard)) {
      EXPECT_TRUE(*standard >= row.low && *standard <= row.high) << row.name;
    }
    EXPECT_EQ(row.of_user, *row.help && *row.section) << row.name;
    for (const SettingFlag& flag : row.flags) {
      EXPECT_TRUE(std::string(flag.name).starts_with("--") && *flag.help) << row.name;
    }
  }
  EXPECT_GE(names.size(), 30u);
}

TEST(Settings, ChecksFollowTheRows) {
  const auto refusal = [](const std::string& text) {
    return message_of(ErrorKind::kUser, [&] { CacheSettings::from_json(text); });
  };
  EXPECT_TRUE(contains(refusal(R"({"engine_cache_size": 0})"),
                       "engine_cache_size: got 0, want an integer from 1 up (bytes)"));
  EXPECT_TRUE(contains(refusal(R"({"cache_built_engines": 1})"), "true or false"));
  EXPECT_TRUE(contains(refusal(R"({"workspace_size": 1})"), "want one of cache_built_engines"));
  EXPECT_EQ(CacheSettings::from_json("{}").engine_cache_size, int64_t{5} << 30);
  EXPECT_TRUE(contains(
      message_of(ErrorKind::kUser, [] { Settings::from_json(R"({"optimization_level": 6})"); }),
      "an integer from 0 to 5"));
}

TEST(Settings, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {R"([1])", R"({"min_block_size": 0})", R"({"min_block_size": "3"})",
        R"({"use_fp32_acc": 1})", R"({"optimization_level": 6})", R"({"optimization_level": 2.5})",
        R"({"workspace_size": -1})", R"({"workspace_size": 18446744073709551615})",
        R"({"enabled_precisions": ["float17"]})", R"({"torch_executed_ops": "aten::relu"})",
        R"({"torch_executed_ops": [1]})", "{", ""}) {
    message_of(ErrorKind::kUser, [&] { Settings::from_json(text); });
  }
  const std::string unknown =
      message_of(ErrorKind::kUser, [] { Settings::from_json(R"({"min_block": 1})"); });
  EXPECT_TRUE(contains(unknown, "unknown field 'min_block'") &&
              contains(unknown, "min_block_size"));
}

}  // namespace
}  // namespace tv
