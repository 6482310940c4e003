// Names in cached engines: tokens while compiled and stored, the graph's own names after that.

#include <gtest/gtest.h>

#include "csrc/cache/names.h"
#include "csrc/compile/compile.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/graph_eval.h"
#include "tests/cpp/kit/sample_graphs.h"

namespace tv {
namespace {

using test::GraphMaker;
using test::sample_graphs;

/// Compiling with tokens and restoring the names gives what compiling gives.
TEST(EngineNames, TokensBecomeTheNamesAgain) {
  const DeviceProfile device = test::test_device();
  for (Graph graph : sample_graphs()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      graph.nodes[n].module_path = "layer." + std::to_string(n) + ".sub";
      graph.nodes[n].source = "model.py:" + std::to_string(n);
    }
    const CanonicalGraph canonical = canonical_form(graph);
    EngineSpec want, got;
    try {
      want = compile(graph, {}, device);
    } catch (const Error& error) {
      continue;  // this device cannot
    }
    got = compile(with_tokens(graph, canonical), {}, device);
    EXPECT_EQ(dump(with_tokens(graph, canonical)).find("layer."), std::string::npos);
    restore_names(got, graph, canonical);
    EXPECT_EQ(got, want) << graph.name;
  }
}

TEST(EngineNames, AJoinedModuleIsThatOfItsParts) {
  GraphMaker g;
  const ValueId x = g.input({3, 8});
  for (const char* part : {"query", "key", "value"}) {
    const ValueId w = g.weight({4, 8});
    const ValueId t = g.op("aten::t", {tensor_arg("self", w)}, {8, 4});
    g.output(g.op("aten::mm", {tensor_arg("self", x), tensor_arg("mat2", t)}, {3, 4}));
    g.graph.nodes.back().module_path = std::string("layer.0.attention.") + part;
  }
  const CanonicalGraph canonical = canonical_form(g.graph);
  EngineSpec spec = compile(with_tokens(g.graph, canonical), {}, test::test_device());
  Graph second = g.graph;  // the next block of the network
  for (Node& node : second.nodes) {
    if (!node.module_path.empty()) node.module_path[6] = '1';
  }
  EngineSpec again = spec;
  restore_names(spec, g.graph, canonical);
  restore_names(again, second, canonical_form(second));
  EXPECT_EQ(spec.dispatches.at(0).module_path, "layer.0.attention");
  EXPECT_EQ(again.dispatches.at(0).module_path, "layer.1.attention");
}

}  // namespace
}  // namespace tv
