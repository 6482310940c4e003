// An engine drawn as boxes and arrows.

#include <algorithm>
#include <cstdio>

#include "csrc/report/engine_graph.h"
#include "csrc/report/layered_layout.h"
#include "csrc/report/svg.h"

namespace tv {
namespace {

constexpr LayoutSizes kSizes = {.width = 270, .height = 58, .gap_x = 30, .gap_y = 44, .lane = 70};
// Widths of characters that are not narrow, in the two sizes of text.
constexpr double kTitleWidth = 8.2, kLineWidth = 6.2, kMargin = 6;
constexpr size_t kTitle = static_cast<size_t>((kSizes.width - 2 * kMargin) / kTitleWidth);
constexpr size_t kLine = static_cast<size_t>((kSizes.width - 2 * kMargin) / kLineWidth);

std::string bytes_text(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value,
                kUnits[unit]);
  return text;
}

std::string shape_text(const Binding& binding, const std::vector<Symbol>& symbols) {
  std::string text(name(binding.dtype));
  text += "[";
  for (size_t i = 0; i < binding.shape.size(); ++i) {
    text += (i ? ", " : "") + named(binding.shape[i], symbols);
  }
  return text + "]";
}

/// What stands in a box, and what colour it has.
struct Box {
  std::string title, second, third, fill;
};

std::string joined_ops(const Dispatch& d) {
  std::string text, last;
  for (const std::string& op : d.ops) {
    const size_t at = op.find("::");
    const std::string name = at == std::string::npos ? op : op.substr(at + 2);
    if (name == last) continue;  // pieces of one operator
    last = name;
    text += (text.empty() ? "" : " + ") + name;
  }
  return text;
}

Box box_of(const EngineSpec& spec, const EngineGraph::Node& node, size_t kind) {
  if (node.kind == EngineGraph::Kind::kLayer) {
    // A line for each thing that is known, and none twice.
    const Dispatch& d = spec.dispatches[node.index];
    std::vector<std::string> lines;
    const std::string ops = joined_ops(d);
    for (const std::string& text : {d.module_path.empty() ? ops : d.module_path, d.tactic, ops}) {
      const bool said = text.empty() || text == d.name ||
                        std::find(lines.begin(), lines.end(), text) != lines.end();
      if (!said && lines.size() < 2) lines.push_back(text);
    }
    lines.resize(2);
    return {d.name, lines[0], lines[1], colour(kind)};
  }
  const bool input = node.kind == EngineGraph::Kind::kInput;
  const Binding& binding = (input ? spec.inputs : spec.outputs)[node.index];
  return {binding.name, shape_text(binding, spec.symbols), input ? "input" : "output", "#888888"};
}

std::string text_line(double x, double y, const std::string& text, bool title) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) +
         (title ? "\" class=\"t\">" : "\" class=\"s\">") +
         xml_escape(title ? shortened_middle(text, kTitle) : shortened(text, kLine)) + "</text>";
}

std::string draw_box(const Box& box, Point centre, const std::string& hint) {
  const double left = centre.x - kSizes.width / 2, top = centre.y - kSizes.height / 2;
  return "<g><title>" + xml_escape(hint) + "</title><rect x=\"" + coordinate(left) + "\" y=\"" +
         coordinate(top) + "\" width=\"" + coordinate(kSizes.width) + "\" height=\"" +
         coordinate(kSizes.height) + "\" rx=\"6\" fill=\"" + box.fill +
         "\" fill-opacity=\"0.25\" stroke=\"" + box.fill + "\"/>" +
         text_line(centre.x, top + 18, box.title, true) +
         text_line(centre.x, top + 34, box.second, false) +
         text_line(centre.x, top + 49, box.third, false) + "</g>\n";
}

/// A line through the points that leaves and reaches each of them vertically.
std::string draw_path(const std::vector<Point>& path) {
  std::string d = "M" + coordinate(path[0].x) + " " + coordinate(path[0].y);
  for (size_t i = 1; i < path.size(); ++i) {
    const Point &a = path[i - 1], &b = path[i];
    const double middle = (a.y + b.y) / 2;
    d += " C" + coordinate(a.x) + " " + coordinate(middle) + " " + coordinate(b.x) + " " +
         coordinate(middle) + " " + coordinate(b.x) + " " + coordinate(b.y);
  }
  return "<path d=\"" + d + "\" class=\"e\"/>";
}

std::string hint_of(const EngineSpec& spec, const EngineGraph::Node& node) {
  if (node.kind != EngineGraph::Kind::kLayer) return {};
  const Dispatch& d = spec.dispatches[node.index];
  return d.name + "\n" + d.tactic + "\n" + joined_ops(d) + "\n" + d.module_path + "\n" + d.source;
}

/// Equal operators have equal colours.
std::vector<size_t> kinds_of(const EngineSpec& spec, const EngineGraph& graph) {
  std::vector<std::string> seen;
  std::vector<size_t> kinds;
  for (const EngineGraph::Node& node : graph.nodes) {
    std::string op;
    if (node.kind == EngineGraph::Kind::kLayer && !spec.dispatches[node.index].ops.empty()) {
      op = spec.dispatches[node.index].ops.front();
    }
    auto found = std::find(seen.begin(), seen.end(), op);
    if (found == seen.end()) found = seen.insert(seen.end(), op);
    kinds.push_back(static_cast<size_t>(found - seen.begin()));
  }
  return kinds;
}

}  // namespace

std::string engine_picture(const EngineSpec& spec) {
  const EngineGraph graph = engine_graph(spec);
  std::vector<std::pair<size_t, size_t>> edges;
  for (const EngineGraph::Edge& edge : graph.edges) edges.emplace_back(edge.from, edge.to);
  const Layout layout = layered_layout(graph.nodes.size(), edges, kSizes);
  const std::string width = coordinate(layout.width), height = coordinate(layout.height);
  std::string text =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
      "\" viewBox=\"0 0 " + width + " " + height +
      "\" font-family=\"sans-serif\">\n"
      "<style>svg{background:#fff}.t{font-size:12px;font-weight:bold;text-anchor:middle}"
      ".s{font-size:10.5px;fill:#333;text-anchor:middle}.e{fill:none;stroke:#777;"
      "marker-end:url(#a)}.b{font-size:10px;fill:#555}</style>\n"
      "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
      "fill=\"#777\"/></marker></defs>\n";
  for (size_t e = 0; e < graph.edges.size(); ++e) {
    const std::vector<Point>& path = layout.paths[e];
    text += draw_path(path) + "<text x=\"" + coordinate((path[0].x + path[1].x) / 2 + 5) +
            "\" y=\"" + coordinate((path[0].y + path[1].y) / 2 + 3) + "\" class=\"b\">" +
            bytes_text(graph.edges[e].bytes) + "</text>\n";
  }
  const std::vector<size_t> kinds = kinds_of(spec, graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    text += draw_box(box_of(spec, graph.nodes[n], kinds[n]), layout.centres[n],
                     hint_of(spec, graph.nodes[n]));
  }
  return text + "</svg>\n";
}

}  // namespace tv
