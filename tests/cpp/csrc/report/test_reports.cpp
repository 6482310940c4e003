// Tables, traces and drawings of engines.

#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/report/engine_graph.h"
#include "csrc/report/layer_times.h"
#include "csrc/report/layered_layout.h"
#include "csrc/report/svg.h"
#include "runtime/base/json.h"

namespace tv {
namespace {

OperandRange part(uint32_t buffer, int64_t first, int64_t bytes, bool write) {
  return {buffer, first, bytes, !write, write};
}

/// x → a (two layers write a half each) → y, and y also reads x's first half.
EngineSpec halves() {
  EngineSpec spec;
  spec.name = "halves";
  spec.inputs = {{"x", DType::kF32, {Expr::symbol(0), 4}, {4, 1}}};
  spec.outputs = {{"y", DType::kF32, {4}, {1}}};
  spec.symbols = {{"batch", 1, 2, 8}};
  spec.buffers = {{BufferKind::kInput, 0, Expr::symbol(0) * 16, "x"},
                  {BufferKind::kOutput, 0, 16, "y"},
                  {BufferKind::kArena, 0, 32, "a"}};
  const auto layer = [](const char* name, std::vector<OperandRange> operands) {
    return Dispatch{
        .name = name, .operands = std::move(operands), .tactic = "t", .ops = {"aten::relu"}};
  };
  spec.dispatches = {
      layer("low", {part(2, 0, 16, true), part(0, 0, 16, false)}),
      layer("high", {part(2, 16, 16, true), part(0, 16, 16, false)}),
      layer("sum", {part(1, 0, 16, true), part(2, 0, 32, false), part(0, 0, 16, false)})};
  return spec;
}

TEST(EngineGraph, FollowsTheRangesOfTheOperands) {
  const EngineGraph graph = engine_graph(halves());
  ASSERT_EQ(graph.nodes.size(), 5u);  // x, low, high, sum, y
  std::vector<std::vector<int64_t>> edges;
  for (const auto& e : graph.edges) {
    edges.push_back({static_cast<int64_t>(e.from), static_cast<int64_t>(e.to), e.bytes});
  }
  const std::vector<std::vector<int64_t>> want = {{0, 1, 16}, {0, 2, 16}, {0, 3, 16},
                                                  {1, 3, 16}, {2, 3, 16}, {3, 4, 16}};
  EXPECT_EQ(edges, want);
}

TEST(EngineGraph, ALaterWriteHidesAnEarlierOne) {
  EngineSpec spec = halves();
  spec.dispatches[1].operands[0] = part(2, 0, 32, true);
  const EngineGraph graph = engine_graph(spec);
  EXPECT_TRUE(std::none_of(graph.edges.begin(), graph.edges.end(),
                           [](const auto& e) { return e.from == 1; }));
}

TEST(EngineGraph, IsWrittenAsJsonAndText) {
  const EngineSpec spec = halves();
  const Json json = Json::parse(engine_layers_json(spec));
  const auto& layers = *json.get<Json::Object>()->at("Layers").get<Json::Array>();
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[2].get<Json::Object>()->at("Name"), Json("sum"));
  const auto& inputs = *layers[0].get<Json::Object>()->at("Inputs").get<Json::Array>();
  EXPECT_EQ(inputs[0].get<Json::Object>()->at("Dimensions"), Json(Json::Array{"batch", 4}));
  EXPECT_EQ(engine_layers_text(spec),
            "low  [t]  aten::relu\nhigh  [t]  aten::relu\nsum  [t]  aten::relu");
}

TEST(EngineGraph, IsDrawn) {
  EngineSpec spec = halves();
  spec.dispatches[0].name = "a<b & \"c\"";
  const std::string svg = engine_picture(spec);
  EXPECT_NE(svg.find("a&lt;b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(svg.find("float32[batch, 4]"), std::string::npos);
}

/// The texts of a picture's boxes, in their order.
std::vector<std::string> box_lines(const std::string& svg) {
  std::vector<std::string> lines;
  for (size_t at = 0; (at = svg.find("<text ", at)) != std::string::npos;) {
    const size_t begin = svg.find('>', at) + 1;
    at = svg.find("</text>", begin);
    lines.push_back(svg.substr(begin, at - begin));
  }
  return lines;
}

TEST(EngineGraph, LabelsAreShortAndSayNothingTwice) {
  EngineSpec spec = halves();
  spec.dispatches[0].name = std::string(300, 'n');
  spec.dispatches[0].module_path = "relu";  // as the operator is called
  spec.dispatches[1].module_path = spec.dispatches[1].name;
  const std::vector<std::string> lines = box_lines(engine_picture(spec));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 64u) << line;
  // Of the first: its name, the operator once, the tactic. Of the second: no name twice.
  EXPECT_EQ(std::ranges::count(lines, "relu"), 3);
  EXPECT_EQ(std::ranges::count(lines, "high"), 1);
}

TEST(LayeredLayout, EdgesGoDownAndBoxesStayApart) {
  const LayoutSizes sizes;
  // A chain with two long edges beside it, a second source, and a wide row.
  std::vector<std::pair<size_t, size_t>> edges = {{0, 2}, {2, 3}, {3, 4}, {0, 4}, {2, 4}, {1, 3}};
  for (size_t n = 5; n < 12; ++n) edges.emplace_back(4, n);
  const Layout layout = layered_layout(12, edges, sizes);
  for (size_t a = 0; a < 12; ++a) {
    const Point& p = layout.centres[a];
    EXPECT_GE(p.x - sizes.width / 2, 0);
    EXPECT_LE(p.x + sizes.width / 2, layout.width);
    EXPECT_LE(p.y + sizes.height / 2, layout.height);
    for (size_t b = 0; b < a; ++b) {
      const Point& q = layout.centres[b];
      EXPECT_TRUE(std::abs(p.x - q.x) >= sizes.width - 1e-6 || std::abs(p.y - q.y) >= sizes.height)
          << a << " on " << b;
    }
  }
  ASSERT_EQ(layout.paths.size(), edges.size());
  for (size_t e = 0; e < edges.size(); ++e) {
    const auto& path = layout.paths[e];
    EXPECT_EQ(path.front().x, layout.centres[edges[e].first].x);
    EXPECT_EQ(path.back().x, layout.centres[edges[e].second].x);
    for (size_t i = 1; i < path.size(); ++i) EXPECT_GT(path[i].y, path[i - 1].y);
  }
}

TEST(LayeredLayout, OfNothing) { EXPECT_TRUE(layered_layout(0, {}, {}).centres.empty()); }

std::vector<LayerTime> three() {
  return {
      {.engine = "e", .name = "short", .tactic = "t1", .time_us = 1, .mean_us = 2, .bytes = 1000},
      {.engine = "e",
       .name = "long",
       .tactic = "t2",
       .module_path = "layer.0",
       .time_us = 3,
       .mean_us = 3,
       .bytes = 6000},
      {.engine = "e", .call = 1, .name = "none", .tactic = "t1"}};
}

TEST(LayerTimes, TableIsSortedOrNot) {
  const std::string sorted = layer_table(three()), ran = layer_table(three(), 0, false);
  EXPECT_LT(sorted.find("long"), sorted.find("short"));
  EXPECT_LT(ran.find("short"), ran.find("long"));
  EXPECT_NE(sorted.find("75.0%"), std::string::npos) << sorted;
  EXPECT_NE(sorted.find("2.0  long"), std::string::npos) << "GB/s\n" << sorted;
  EXPECT_NE(sorted.find("layer.0"), std::string::npos);
  EXPECT_TRUE(sorted.ends_with("4.0 us in 3 layers")) << sorted;
  EXPECT_EQ(layer_table(three(), 1).find("short"), std::string::npos);
  EXPECT_TRUE(layer_table({}).ends_with("0.0 us in 0 layers"));
}

TEST(LayerTimes, JsonHasTrtexecsFields) {
  const Json json = Json::parse(layer_json(three(), 20));
  const auto& list = *json.get<Json::Array>();
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].get<Json::Object>()->at("count"), Json(20));
  const auto& first = *list[1].get<Json::Object>();
  EXPECT_EQ(first.at("name"), Json("short"));
  EXPECT_DOUBLE_EQ(*first.at("timeMs").get<double>(), 0.04);
  EXPECT_DOUBLE_EQ(*first.at("medianMs").get<double>(), 0.001);
  EXPECT_DOUBLE_EQ(*first.at("averageMs").get<double>(), 0.002);
}

TEST(LayerTimes, TraceHasATrackForEachCall) {
  const Json json = Json::parse(layer_trace(three()));
  const auto& events = *json.get<Json::Object>()->at("traceEvents").get<Json::Array>();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].get<Json::Object>()->at("tid"), Json(1));
  EXPECT_DOUBLE_EQ(*events[1].get<Json::Object>()->at("ts").get<double>(), 1.0);
}

TEST(Svg, TextIsSafeAndShort) {
  EXPECT_EQ(xml_escape("a<b>&\"\n"), "a&lt;b&gt;&amp;&quot; ");
  EXPECT_EQ(shortened("größe", 5), "größe");
  EXPECT_EQ(shortened("größer", 5), "größ…");
  EXPECT_EQ(shortened_front("größe", 5), "größe");
  EXPECT_EQ(shortened_front("üb.größe", 6), "…größe");
  EXPECT_EQ(coordinate(2), "2");
  EXPECT_EQ(coordinate(2.25), "2.3");
}

}  // namespace
}  // namespace tv
