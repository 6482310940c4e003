// The key of the engine cache: all that the code depends on, and nothing else.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "csrc/cache/engine_key.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "tests/cpp/kit/graph_eval.h"
#include "tests/cpp/kit/sample_graphs.h"

namespace tv {
namespace {

using test::GraphMaker;
using test::sample_graphs;

std::string key_of(const Graph& graph) { return canonical_form(graph).text; }

/// Every attribute with another value of its type, and without one.
std::vector<Attr> others(const Attr& attr) {
  std::vector<Attr> out;
  const auto with_lists = [&](const auto& list, const auto& other) {
    for (size_t i = 0; i < list.size(); ++i) {
      auto changed = list;
      changed[i] = other(list[i]);
      out.emplace_back(changed);
    }
    auto longer = list;
    longer.push_back({});
    out.emplace_back(longer);
  };
  if (!std::holds_alternative<std::monostate>(attr)) out.emplace_back(std::monostate{});
  if (const auto* b = std::get_if<bool>(&attr)) out.emplace_back(!*b);
  if (const auto* e = std::get_if<Expr>(&attr)) {
    out.emplace_back(*e + 1);
    out.emplace_back(*e + Expr::symbol(0));
    if (e->constant()) out.emplace_back(static_cast<double>(*e->constant()));
  }
  if (const auto* d = std::get_if<double>(&attr)) {
    out.emplace_back(std::nextafter(*d, 1e300));
    if (*d == 0.0) out.emplace_back(-0.0);
  }
  if (const auto* s = std::get_if<std::string>(&attr)) out.emplace_back(*s + "'");
  if (const auto* t = std::get_if<DType>(&attr))
    out.emplace_back(*t == DType::kF32 ? DType::kF16 : DType::kF32);
  if (const auto* l = std::get_if<std::vector<Expr>>(&attr))
    with_lists(*l, [](const Expr& e) { return e + 1; });
  if (const auto* l = std::get_if<std::vector<double>>(&attr))
    with_lists(*l, [](double d) { return d == 0 ? 1 : std::nextafter(d, 0); });
  if (const auto* l = std::get_if<std::vector<bool>>(&attr))
    with_lists(*l, [](bool b) { return !b; });
  return out;
}

/// Adds an input that nothing reads for each value that is read; value → input of its type.
std::map<ValueId, ValueId> add_spares(Graph& graph) {
  std::map<ValueId, ValueId> spares;
  for (const Node& node : graph.nodes) {
    for (const ValueId v : node.all_inputs()) spares[v] = kNoValue;
  }
  for (auto& [value, spare] : spares) {
    Value copy = graph.value(value);
    copy.kind = ValueKind::kInput;
    copy.view.reset();
    spare = graph.add_value(copy);
    graph.inputs.push_back(spare);
  }
  return spares;
}

/// Calls `f` with graphs that differ from `graph` in one thing, and its name. `spares`: where edges
/// may lead in place of where they do.
template <typename F>
void for_each_change(const Graph& graph, const std::map<ValueId, ValueId>& spares, const F& f) {
  const auto changed = [&](const std::string& what, const auto& edit) {
    Graph copy = graph;
    edit(copy);
    f(copy, what);
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    changed("operator", [&](Graph& g) { g.nodes[n].op += ".x"; });
    for (size_t a = 0; a < graph.nodes[n].args.size(); ++a) {
      const Arg& arg = graph.nodes[n].args[a];
      const std::string what = graph.nodes[n].op + " " + arg.name;
      for (const Attr& other : arg.is_tensor ? std::vector<Attr>{} : others(arg.attr))
        changed(what + " attribute", [&](Graph& g) { g.nodes[n].args[a].attr = other; });
      for (size_t k = 0; k < arg.values.size(); ++k) {
        const auto spare = spares.find(arg.values[k]);
        if (spare != spares.end()) {
          changed(what + " edge", [&](Graph& g) { g.nodes[n].args[a].values[k] = spare->second; });
        }
        changed(what + " is None", [&](Graph& g) {
          g.nodes[n].args[a].values[k] = kNoValue;
          if (arg.values[k] == kNoValue) g.nodes[n].args[a].values = {g.inputs.at(0)};
        });
      }
    }
  }
  for (const auto* leaves : {&graph.inputs, &graph.weights}) {
    for (const ValueId v : *leaves) {
      changed("dtype", [&](Graph& g) {
        g.value(v).dtype = g.value(v).dtype == DType::kF16 ? DType::kF32 : DType::kF16;
      });
      changed("rank", [&](Graph& g) { g.value(v).shape.push_back(1); });
      for (size_t d = 0; d < graph.value(v).shape.size(); ++d) {
        changed("dimension", [&](Graph& g) { g.value(v).shape[d] += 1; });
        changed("dynamic", [&](Graph& g) { g.value(v).shape[d] += Expr::symbol(1); });
      }
    }
  }
  for (size_t s = 0; s < graph.symbols.size(); ++s) {
    changed("symbol's minimum", [&](Graph& g) { g.symbols[s].min += 1; });
    changed("symbol's optimum", [&](Graph& g) { g.symbols[s].opt += 1; });
    changed("symbol's maximum", [&](Graph& g) { g.symbols[s].max -= 1; });
  }
  if (!graph.symbols.empty()) {
    for (const Relation relation : {Relation::kEqual, Relation::kMultiple}) {
      changed("a condition",
              [&](Graph& g) { add_condition(g.conditions, {relation, Expr::symbol(0), 2, {}}); });
    }
  }
  changed("a symbol more", [](Graph& g) { g.symbols.push_back({"z", 1, 2, 3}); });
  for (size_t o = 0; o < graph.outputs.size(); ++o) {
    changed("layout of a result", [&](Graph& g) { g.outputs[o].strides.push_back(7); });
    changed("another result", [&](Graph& g) {
      g.outputs[o].value = g.add_value(g.value(g.outputs[o].value));
      g.inputs.push_back(g.outputs[o].value);
    });
  }
  changed("a result more", [](Graph& g) { g.outputs.push_back(g.outputs.at(0)); });
}

TEST(EngineKey, EachChangeOfAGraphChangesIt) {
  size_t changes = 0;
  for (Graph graph : sample_graphs()) {
    const auto spares = add_spares(graph);
    const std::string key = key_of(graph);
    for_each_change(graph, spares, [&](const Graph& other, const std::string& what) {
      ++changes;
      EXPECT_NE(key_of(other), key) << graph.name << ": " << what << "\n" << key;
    });
  }
  EXPECT_GT(changes, 500u);
}

TEST(EngineKey, OrderOfArguments) {
  const auto binary = [](const std::string& op, bool swapped) {
    GraphMaker g;
    const ValueId x = g.input({3, 5}), y = g.input({3, 5});
    g.output(g.op(op,
                  {tensor_arg("self", swapped ? y : x), tensor_arg("other", swapped ? x : y),
                   attr_arg("alpha", Expr(1))},
                  {3, 5}));
    return key_of(g.graph);
  };
  EXPECT_NE(binary("aten::sub.Tensor", false), binary("aten::sub.Tensor", true));
  const auto sum = [](int64_t dim) {
    GraphMaker g;
    g.output(g.op("aten::sum.dim_IntList",
                  {tensor_arg("self", g.input({4, 4})), attr_arg("dim", std::vector<Expr>{dim}),
                   attr_arg("keepdim", false), attr_arg("dtype", std::monostate{})},
                  {4}));
    return key_of(g.graph);
  };
  EXPECT_NE(sum(0), sum(1));
}

/// The same network with its nodes in another topological order, values numbered otherwise, and
/// other names.
Graph shuffled(const Graph& graph, std::mt19937& random) {
  std::vector<ValueId> to(graph.values.size());
  std::iota(to.begin(), to.end(), 0);
  std::shuffle(to.begin(), to.end(), random);
  Graph out = graph;
  for (size_t v = 0; v < to.size(); ++v) {
    Value value = graph.values[v];
    value.name = "renamed" + std::to_string(random());
    if (value.view) value.view->base = to[value.view->base];
    out.values[to[v]] = std::move(value);
  }
  const auto map = [&](std::vector<ValueId>& ids) {
    for (ValueId& v : ids) v = v == kNoValue ? v : to[v];
  };
  map(out.inputs);
  map(out.weights);
  for (GraphOutput& output : out.outputs) {
    output.value = to[output.value];
    output.name = "o";
    if (output.over != kNoValue) output.over = to[output.over];
  }
  for (Symbol& symbol : out.symbols) symbol.name += "x";
  std::vector<Node> waiting = std::move(out.nodes);
  for (Node& node : waiting) {
    for (Arg& arg : node.args) map(arg.values);
    map(node.outputs);
    map(node.epilogue_inputs);
    map(node.prologue_inputs);
    node.name = "node" + std::to_string(random());
    node.source = "other.py:1";
    node.module_path = "other";
  }
  out.nodes.clear();
  std::set<ValueId> made(out.inputs.begin(), out.inputs.end());
  made.insert(out.weights.begin(), out.weights.end());
  while (!waiting.empty()) {
    std::vector<size_t> ready;
    for (size_t n = 0; n < waiting.size(); ++n) {
      const auto needs = waiting[n].all_inputs();
      if (std::ranges::all_of(needs, [&](ValueId v) { return made.contains(v); }))
        ready.push_back(n);
    }
    const size_t n = ready.at(random() % ready.size());
    for (const ValueId v : waiting[n].outputs) made.insert(v);
    out.nodes.push_back(std::move(waiting[n]));
    waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(n));
  }
  out.name = "another";
  return out;
}

/// Parallel branches of equal and of different nodes, joined again.
Graph branches() {
  GraphMaker g;
  const ValueId x = g.input({4, 6}), w = g.weight({4, 6});
  std::vector<ValueId> parts;
  for (int k = 0; k < 5; ++k) {
    const ValueId a = g.op("aten::mul.Tensor", {tensor_arg("self", x), tensor_arg("other", w)},
                           {4, 6});  // five equal nodes, told apart by their readers
    parts.push_back(
        g.op("aten::add.Scalar",
             {tensor_arg("self", a), attr_arg("other", Expr(k / 2)), attr_arg("alpha", Expr(1))},
             {4, 6}));
  }
  g.output(g.cat(parts, 0));
  g.output(g.op("aten::relu", {tensor_arg("self", parts[1])}, {4, 6}));
  return g.graph;
}

TEST(EngineKey, NamesAndTheOrderOfIndependentNodesDoNotChangeIt) {
  std::mt19937 random(3);
  std::vector<Graph> graphs = sample_graphs();
  graphs.push_back(branches());
  for (const Graph& graph : graphs) {
    const bool imported =
        std::ranges::none_of(graph.values, [](const Value& v) { return v.view.has_value(); });
    for (int round = 0; imported && round < 5; ++round)
      ASSERT_EQ(key_of(shuffled(graph, random)), key_of(graph)) << graph.name;
  }
}

TEST(EngineKey, PositionsMeanTheSameNode) {
  std::mt19937 random(5);
  const Graph graph = branches();
  const CanonicalGraph canonical = canonical_form(graph);
  for (int round = 0; round < 10; ++round) {
    const Graph other = shuffled(graph, random);
    const CanonicalGraph of_other = canonical_form(other);
    for (size_t n = 0; n < other.nodes.size(); ++n) {
      const auto at = std::ranges::find(canonical.node_position, of_other.node_position[n]);
      const Node& same = graph.nodes.at(static_cast<size_t>(at - canonical.node_position.begin()));
      EXPECT_EQ(same.op, other.nodes[n].op);
      for (const Arg& arg : same.args) {
        if (arg.is_tensor) continue;
        EXPECT_EQ(arg.attr, other.nodes[n].find(arg.name)->attr);
      }
    }
  }
}

std::string key_with(const Settings& settings) {
  return engine_key(canonical_form(branches()), settings, test::test_device());
}

TEST(EngineKey, SettingsThatChangeCodeAndNoOthers) {
  const std::map<std::string, std::string> others = {
      {"min_block_size", "9"},
      {"torch_executed_ops", "[\"aten::relu\"]"},
      {"require_full_compilation", "true"},
      {"truncate_long_and_double", "true"},
      {"enabled_precisions", "[\"float16\"]"},
      {"calibration", "\"TRT-8501-EntropyCalibration2\\na: 3c010a14\\n\""},
      {"use_fp32_acc", "false"},
      {"disable_tf32", "false"},
      {"allow_transformed_convolutions", "true"},
      {"sparse_weights", "true"},
      {"autocast_excluded_nodes", "[\"a\"]"},
      {"autocast_excluded_ops", "[\"t::a\"]"},
      {"check_addresses", "true"},
      {"check_indices", "false"},
      {"matrix_units", "false"},
      {"optimization_level", "1"},
      {"tuning_seconds", "9"},
      {"workspace_size", "4096"},
      {"weight_budget", "4096"},
      {"tactics", "[\"gemm\"]"},
      {"debug_dir", "\"/d\""},
      {"cache_dir", "\"/c\""},
      {"timing_cache_path", "\"/t\""},
      {"on_cuda", "true"}};
  const std::set<std::string> not_code = {
      "min_block_size", "torch_executed_ops", "require_full_compilation",
      "debug_dir",      "cache_dir",          "timing_cache_path",
      "on_cuda",        "calibration",        "use_fp32_acc",
      "weight_budget"};
  const std::string key = key_with({});
  for (const auto& [field, value] : others) {
    const Settings changed = Settings::from_json("{\"" + field + "\": " + value + "}");
    EXPECT_EQ(key_with(changed) != key, !not_code.contains(field)) << field;
  }
  Settings settings;
  each_setting(settings, [&](const SettingRow& row, auto&) {
    EXPECT_TRUE(others.contains(row.name)) << row.name << ": add another value to this test";
  });
}

/// Keys outlive the program that wrote them, so their text is held to the letter.
TEST(EngineKey, TheTextOfSettings) {
  EXPECT_EQ(code_text({}),
            R"({"allow_transformed_convolutions": false, )"
            R"("autocast_excluded_nodes": [], "autocast_excluded_ops": [], )"
            R"("check_addresses": false, "check_indices": true, "disable_tf32": true, )"
            R"("enabled_precisions": [], "matrix_units": true, "optimization_level": 3, )"
            R"("sparse_weights": false, )"
            R"("tactics": [], )"
            R"("truncate_long_and_double": false, "tuning_seconds": -1, )"
            R"("workspace_size": 0})");
  EXPECT_EQ(code_text(Settings::from_json(R"({
    "truncate_long_and_double": true, "enabled_precisions": ["float32", "bfloat16"],
    "use_fp32_acc": false, "disable_tf32": false, "optimization_level": 0, "tuning_seconds": 60,
    "workspace_size": 4611686018427387905, "tactics": ["matmul_simt", "gemm \"q\""],
    "check_addresses": true, "check_indices": false, "min_block_size": "inf", "debug_dir": "/d"})")),
            R"({"allow_transformed_convolutions": false, )"
            R"("autocast_excluded_nodes": [], "autocast_excluded_ops": [], )"
            R"("check_addresses": true, "check_indices": false, "disable_tf32": false, )"
            R"("enabled_precisions": ["bfloat16"], "matrix_units": true, )"
            R"("optimization_level": 0, )"
            R"("sparse_weights": false, "tactics": ["matmul_simt", "gemm \"q\""], )"
            R"("truncate_long_and_double": true, )"
            R"("tuning_seconds": 60, )"
            R"("workspace_size": 4611686018427387905})");
}

/// Another value that a device's profile takes in the same field.
Json other_value(const Json& value) {
  if (const auto* b = value.get<bool>()) return !*b;
  if (const auto* i = value.get<int64_t>()) return *i == 0 ? int64_t{1} : 2 * *i;
  if (const auto* s = value.get<std::string>()) {
    if (*s == "cpu") return "discrete";
    std::string changed = s->empty() ? "a" : *s;
    changed.back() = changed.back() == '2' ? '3' : '2';
    return changed;
  }
  Json::Array list = *value.get<Json::Array>();
  list.at(0) = other_value(list.at(0));
  return list;
}

TEST(EngineKey, EveryFieldOfTheDeviceButItsSerialAndMemory) {
  DeviceProfile device = test::test_device();
  device.uuid = std::string(32, '1');
  device.coop_matrices = {{16, 16, 16, "float16", "float16", "float32", "float32"}};
  const CanonicalGraph graph = canonical_form(branches());
  const std::string key = engine_key(graph, {}, device);
  const Json json = Json::parse(device.to_json(), "test");
  size_t fields = 0;
  for (const auto& [field, value] : *json.get<Json::Object>()) {
    if (field == "coop_matrices") continue;
    Json::Object changed = *json.get<Json::Object>();
    changed[field] = other_value(value);
    if (field == "min_subgroup_size") changed[field] = *value.get<int64_t>() / 2;
    if (field == "type") changed[field] = "cpu";
    if (field == "subgroup_size") changed["max_subgroup_size"] = 1024;
    const std::string other = engine_key(graph, {}, DeviceProfile::from_json(Json(changed).dump()));
    const bool counts = field != "uuid" && field != "memory_bytes";
    EXPECT_EQ(other != key, counts) << field;
    ++fields;
  }
  EXPECT_GT(fields, 25u);
  device.coop_matrices[0].k = 32;
  EXPECT_NE(engine_key(graph, {}, device), key);
}

TEST(EngineKey, ProgramWeightsAndEnvironment) {
  const CanonicalGraph graph = canonical_form(branches());
  const DeviceProfile device = test::test_device();
  const std::string key = engine_key(graph, {}, device);
  EXPECT_NE(engine_key_of(builder_digest() + "1", graph, {}, device, false), key);
  EXPECT_EQ(engine_key_of(builder_digest(), graph, {}, device, false), key);
  EXPECT_NE(engine_key(graph, {}, device, true), key);
  EXPECT_NE(engine_key(graph, {}, device, false, "digest of immutable weights"), key);
  EXPECT_EQ(engine_key(graph, {}, device), key);
  for (const char* part : {"version ", "sources ", "kernels ", "glslang "})
    EXPECT_NE(builder_digest().find(part), std::string::npos) << part;
  ASSERT_EQ(std::getenv("RADV_PERFTEST"), nullptr);
  setenv("RADV_PERFTEST", "x", 1);
  const std::string other = engine_key(graph, {}, device);
  unsetenv("RADV_PERFTEST");
  EXPECT_NE(other, key);
}

}  // namespace
}  // namespace tv
