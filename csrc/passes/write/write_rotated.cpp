#include "csrc/passes/write/write_rotated.h"

#include <algorithm>
#include <optional>

#include "csrc/graph/strided.h"
#include "csrc/passes/kit/makers.h"

namespace tv {
namespace {

/// One position of the caches, along one dimension that is not the last.
struct Place {
  ValueId at = kNoValue;
  size_t dim = 0;
};

std::optional<Place> place_of(const Graph& graph, const Node& write) {
  Place place;
  const std::vector<ValueId>& indices = write.inputs("indices");
  for (size_t d = 0; d < indices.size(); ++d) {
    if (indices[d] == kNoValue) continue;
    if (place.at != kNoValue) return std::nullopt;
    place = {indices[d], d};
  }
  const size_t rank = graph.value(write.input("self")).shape.size();
  const bool fits = place.at != kNoValue && place.dim + 1 < rank &&
                    graph.value(place.at).shape == Shape{Expr(1)} &&
                    graph.value(write.input("self2")).shape.size() == rank;
  return fits ? std::optional(place) : std::nullopt;
}

/// Whether `entry` is what the cache has at one position, nothing repeated.
bool is_entry(const Graph& graph, ValueId entry, ValueId cache, const Place& place) {
  Shape one = graph.value(cache).shape;
  one[place.dim] = Expr(1);
  return graph.value(entry).shape == one && one.back().is_constant() &&
         graph.value(entry).dtype == graph.value(cache).dtype;
}

class RotatedWrites {
 public:
  explicit RotatedWrites(Graph graph) : graph_(std::move(graph)), makers_(graph_) {}

  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].op == "tv::in_place_index_put_pair") join(i);
    }
    std::erase_if(graph_.nodes, [](const Node& node) { return node.op.empty(); });
    return std::move(graph_);
  }

 private:
  ValueId base_of(ValueId v) const { return layout_of(graph_, v).base; }

  void join(size_t at) {
    Node& write = graph_.nodes[at];
    const std::optional<Place> place = place_of(graph_, write);
    if (!place || write.flag("accumulate")) return;
    const bool second = makers_.maker(write.input("values"), "tv::rotary_pair") == nullptr;
    const ValueId keys = write.input(second ? "values2" : "values");
    const Node* found = makers_.only(keys, "tv::rotary_pair");
    if (!found || found->outputs[1] != keys || !fits(*found, write, second, *place, at)) return;
    Node& rotary = graph_.nodes[static_cast<size_t>(found - graph_.nodes.data())];
    write = joined(rotary, write, second, *place);
    rotary = Node{};
  }

  bool fits(const Node& rotary, const Node& write, bool second, const Place& place,
            size_t at) const {
    const ValueId keys = write.input(second ? "self2" : "self");
    const ValueId values = write.input(second ? "self" : "self2");
    const ValueId v = write.input(second ? "values" : "values2");
    if (!is_entry(graph_, rotary.outputs[1], keys, place)) return false;
    if (!is_entry(graph_, v, values, place)) return false;
    // It rotates as late as it writes, and what it rotated is in the cache alone, for views, too.
    const ValueId y = rotary.outputs[0], rotated = rotary.outputs[1];
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (i <= at && reads(graph_.nodes[i], y)) return false;
      if (i != at && reads(graph_.nodes[i], rotated)) return false;
    }
    const auto returned = [&](const GraphOutput& o) { return base_of(o.value) == rotated; };
    if (std::ranges::any_of(graph_.outputs, returned)) return false;
    const std::vector<ValueId> inputs = rotary.all_inputs();
    return std::ranges::none_of(inputs, [&](ValueId x) {
      return graph_.value(base_of(x)).kind == ValueKind::kInput && is_written(base_of(x));
    });
  }

  bool reads(const Node& node, ValueId storage) const {
    const std::vector<ValueId> inputs = node.all_inputs();
    return std::ranges::any_of(inputs, [&](ValueId v) { return base_of(v) == storage; });
  }

  bool is_written(ValueId storage) const {
    return std::ranges::any_of(graph_.outputs,
                               [&](const GraphOutput& output) { return output.over == storage; });
  }

  static Node joined(const Node& rotary, const Node& write, bool second, const Place& place) {
    const size_t keys = second ? 1 : 0;
    Node node = write;
    node.op = "tv::rotary_write";
    node.args = rotary.args;
    node.args.push_back(tensor_arg("keys", write.input(second ? "self2" : "self")));
    node.args.push_back(tensor_arg("values", write.input(second ? "self" : "self2")));
    node.args.push_back(tensor_arg("v", write.input(second ? "values" : "values2")));
    node.args.push_back(tensor_arg("at", place.at));
    node.args.push_back(attr_arg("dim", Expr(static_cast<int64_t>(place.dim))));
    if (write.has("wraps")) node.args.push_back(*write.find("wraps"));
    node.outputs = {rotary.outputs[0], write.outputs[keys], write.outputs[1 - keys]};
    node.program = rotary.program;  // of its norms
    node.fused_ops = rotary.fused_ops.empty() ? std::vector{rotary.op} : rotary.fused_ops;
    node.fused_ops.insert(node.fused_ops.end(), write.fused_ops.begin(), write.fused_ops.end());
    return node;
  }

  Graph graph_;
  const Makers makers_;
};

}  // namespace

Graph write_rotated(Graph graph) { return RotatedWrites(std::move(graph)).run(); }

}  // namespace tv
