#include "csrc/passes/choose_channels_last.h"

#include <algorithm>
#include <vector>

#include "csrc/codegen/matrix_units.h"

namespace tv {

namespace {

constexpr int64_t kChunk = 8;  // channels that kernels read at once

bool is_plane_convolution(const Graph& graph, const Node& node) {
  return node.op == "aten::convolution" && graph.rank(node.outputs[0]) == 4;
}

bool is_whole(const Expr& channels) { return mod(channels, kChunk) == Expr(0); }

class Chooser {
 public:
  explicit Chooser(Graph graph) : graph_(std::move(graph)), readers_(graph_.values.size()) {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const ValueId id : graph_.nodes[n].all_inputs()) readers_[base_of(id)].push_back(n);
    }
    returned_.resize(graph_.values.size(), false);
    for (const GraphOutput& output : graph_.outputs) returned_[base_of(output.value)] = true;
  }

  Graph run() {
    const size_t count = graph_.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      const Node& node = graph_.nodes[n];
      if (is_plane_convolution(graph_, node) && can_move(node.outputs[0])) move(node.outputs[0]);
    }
    return std::move(graph_);
  }

 private:
  size_t base_of(ValueId id) const {
    const Value& value = graph_.value(id);
    return static_cast<size_t>(value.view ? value.view->base : id);
  }

  bool can_move(ValueId id) const {
    const Value& value = graph_.value(id);
    const auto& readers = readers_[static_cast<size_t>(id)];
    if (value.view || returned_[static_cast<size_t>(id)] || readers.empty()) return false;
    return is_whole(value.shape[1]) && std::all_of(readers.begin(), readers.end(), [&](size_t n) {
             return reads_well(graph_.nodes[n], id);
           });
  }

  /// Whether all that `reader` reads of the storage of `id` is `id` itself, as a convolution's input
  /// or through its tail.
  bool reads_well(const Node& reader, ValueId id) const {
    if (!is_plane_convolution(graph_, reader)) return false;
    int64_t known = std::count(reader.epilogue_inputs.begin(), reader.epilogue_inputs.end(), id);
    if (reader.input("input") == id && !reader.prologue) {
      const Expr channels = floordiv(graph_.value(id).shape[1], reader.expr("groups"));
      if (!is_whole(channels) && !(channels == Expr(1))) return false;
      ++known;
    }
    int64_t reads = 0;
    for (const ValueId read : reader.all_inputs()) reads += base_of(read) == static_cast<size_t>(id);
    return reads == known;
  }

  void move(ValueId id) {
    const Shape s = graph_.value(id).shape;
    const ValueId base = graph_.add_value({.name = graph_.value(id).name + "_last",
                                           .dtype = graph_.value(id).dtype,
                                           .shape = {s[0], s[2], s[3], s[1]},
                                           .kind = ValueKind::kNode,
                                           .view = std::nullopt});
    graph_.value(id).view = View{base, Expr(0), {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]}};
  }

  Graph graph_;
  std::vector<std::vector<size_t>> readers_;  // of each storage
  std::vector<bool> returned_;
};

}  // namespace

bool wants_channels_last(const DeviceProfile& device) {
  return !device.is_cpu() && matrix_refusal(MatrixUnits{}, device).empty();
}

Graph choose_channels_last(Graph graph) { return Chooser(std::move(graph)).run(); }

}  // namespace tv
