#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "csrc/plan/plan.h"
#include "csrc/report/dry_run.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using nlohmann::json;
using test::GraphBuilder;

/// Ten nodes of work, an unknown operator, then two nodes of work and a view.
GraphBuilder example() {
  GraphBuilder b;
  b.graph.name = "net";
  const Expr batch = Expr::symbol(b.symbol("batch"));
  ValueId x = b.input({batch, 4});
  x = b.op("t::work.Other", {x, b.weight({4, 4}), b.weight({4}, DType::kF16)}, {batch, 4});
  for (int i = 0; i < 9; ++i) x = b.work({x}, {Expr(2) * batch, 4});
  x = b.op("t::unknown", {x}, {batch, 4});
  b.graph.nodes.back().module_path = "head.weird";
  x = b.work({b.work({x}, {batch, 4})}, {batch, 4});
  b.output(b.op("t::view", {x}, {batch, 2, 2}));
  return b;
}

json report(const GraphBuilder& b, Settings settings) {
  const DeviceProfile& device = DeviceProfile::builtin_default();
  return json::parse(dry_run_report(plan(b.graph, settings, device)));
}

TEST(DryRun, CountsNodesAndDescribesEngines) {
  const json r = report(example(), {.min_block_size = 5});
  EXPECT_EQ(r["graph"], "net");
  EXPECT_EQ(r["nodes"], 14);
  EXPECT_EQ(r["compute_nodes"], 13);
  EXPECT_EQ(r["covered_nodes"], 10);
  EXPECT_DOUBLE_EQ(r["coverage"], 10.0 / 13);
  ASSERT_EQ(r["engines"].size(), 1u);
  const json& engine = r["engines"][0];
  EXPECT_EQ(engine["compute_nodes"], 10);
  EXPECT_EQ(engine["operators"], (json{{"t::work", 9}, {"t::work.Other", 1}}));
  EXPECT_EQ(engine["inputs"],
            json::parse(R"([{"name":"in0","dtype":"float32","shape":["batch",4]}])"));
  EXPECT_EQ(engine["outputs"].size(), 1u);
  EXPECT_NE(engine["outputs"][0]["shape"][0].get<std::string>().find("batch"), std::string::npos);
  EXPECT_EQ(engine["weights"], 2);
  EXPECT_EQ(engine["weight_bytes"], 64 + 8);
}

TEST(DryRun, GivesEachNativeNodeItsReason) {
  const json r = report(example(), {.min_block_size = 5});
  ASSERT_EQ(r["native"].size(), 4u);
  EXPECT_EQ(r["native"][0]["operator"], "t::unknown");
  EXPECT_EQ(r["native"][0]["reason"], "no converter for t::unknown");
  EXPECT_EQ(r["native"][0]["source"], "model.py:11");
  EXPECT_EQ(r["native"][0]["module_path"], "head.weird");
  EXPECT_EQ(r["native"][3]["does_work"], false);
  ASSERT_EQ(r["operators"].size(), 2u);
  EXPECT_EQ(r["operators"][0]["operator"], "t::work");
  EXPECT_EQ(r["operators"][0]["count"], 2);
}

TEST(DryRun, ShowsTheEffectOfMinBlockSize) {
  const json r = report(example(), {.min_block_size = std::numeric_limits<double>::infinity()});
  EXPECT_TRUE(r["engines"].empty());
  EXPECT_EQ(r["coverage"], 0.0);
  const json& rows = r["min_block_size"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["min_block_size"], 1);
  EXPECT_EQ(rows[0]["engines"], 2);
  EXPECT_EQ(rows[0]["covered_nodes"], 12);
  EXPECT_EQ(rows[1]["min_block_size"], 3);
  EXPECT_EQ(rows[1]["engines"], 1);
  EXPECT_EQ(rows[2]["min_block_size"], 11);
  EXPECT_EQ(rows[2]["engines"], 0);
  EXPECT_EQ(r["recommended_min_block_size"], 1) << "the small engine is more than 1 % of the nodes";
}

TEST(DryRun, SaysWhatSupportOfAnOperatorWouldGive) {
  const GraphBuilder b = example();
  const DeviceProfile& device = DeviceProfile::builtin_default();
  const Settings settings{.min_block_size = 1};
  const Plan made = plan(b.graph, settings, device);
  EXPECT_EQ(parts_as_if(made, {}).blocks.size(), 2u);
  const Partition joined = parts_as_if(made, {"t::unknown"});
  EXPECT_EQ(joined.blocks.size(), 1u);
  EXPECT_EQ(joined.covered_nodes, 13);
}

TEST(DryRun, OfAnEmptyGraph) {
  const json r = report(GraphBuilder(), {});
  EXPECT_EQ(r["coverage"], 1.0);
  EXPECT_TRUE(r["engines"].empty() && r["native"].empty());
}

}  // namespace
}  // namespace tv
