#include "csrc/passes/layouts/choose_channels_last.h"

#include <algorithm>
#include <vector>

#include "csrc/codegen/cooperative_matrix.h"
#include "csrc/graph/strided.h"
#include "csrc/settings.h"

namespace tv {

namespace {

constexpr int64_t kChunkBytes = 16;  // of channels that kernels read at once
constexpr int64_t kMostInChunk = 16, kLeastInChunk = 8;

bool is_of_integers(const Node& node) { return node.op == "tv::convolution_integer"; }

class Chooser {
 public:
  Chooser(Graph graph, bool integers)
      : graph_(std::move(graph)), integers_(integers), readers_(graph_.values.size()) {
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
      if (is_convolution(node) && can_move(node.outputs[0])) {
        store_channels_last(graph_, node.outputs[0]);
      }
    }
    return std::move(graph_);
  }

 private:
  bool is_convolution(const Node& node) const {
    return is_plane_convolution(graph_, node) && (integers_ || !is_of_integers(node));
  }

  size_t base_of(ValueId id) const {
    const Value& value = graph_.value(id);
    return static_cast<size_t>(value.view ? value.view->base : id);
  }

  bool can_move(ValueId id) const {
    const Value& value = graph_.value(id);
    const auto& readers = readers_[static_cast<size_t>(id)];
    if (value.view || returned_[static_cast<size_t>(id)] || readers.empty()) return false;
    return has_whole_chunks(value.shape[1], value.dtype) &&
           std::all_of(readers.begin(), readers.end(),
                       [&](size_t n) { return reads_well(graph_.nodes[n], id); });
  }

  /// Whether all that `reader` reads of the storage of `id` is `id` itself, as a convolution's
  /// input or through its epilogue.
  bool reads_well(const Node& reader, ValueId id) const {
    if (!is_convolution(reader)) return false;
    int64_t known = std::count(reader.epilogue_inputs.begin(), reader.epilogue_inputs.end(), id);
    if (reader.input("input") == id && !reader.prologue) {
      const Expr channels = floordiv(graph_.value(id).shape[1], reader.expr("groups"));
      if (!has_whole_chunks(channels, graph_.value(id).dtype) && !(channels == Expr(1)))
        return false;
      ++known;
    }
    int64_t reads = 0;
    for (const ValueId read : reader.all_inputs())
      reads += base_of(read) == static_cast<size_t>(id);
    return reads == known;
  }

  Graph graph_;
  const bool integers_;                       // move, too
  std::vector<std::vector<size_t>> readers_;  // of each storage
  std::vector<bool> returned_;
};

}  // namespace

bool wants_channels_last(const Settings& settings, const DeviceProfile& device) {
  return settings.matrix_units && !device.is_cpu() &&
         matrix_refusal(CooperativeMatrix{}, device).empty();
}

bool is_plane_convolution(const Graph& graph, const Node& node) {
  return (node.op == "aten::convolution" || is_of_integers(node)) &&
         graph.rank(node.outputs[0]) == 4;
}

bool has_whole_chunks(const Expr& channels, DType dtype) {
  const int64_t chunk = std::clamp(kChunkBytes / size_bytes(dtype), kLeastInChunk, kMostInChunk);
  return mod(channels, chunk) == Expr(0);
}

Shape by_pixels(const Shape& shape) { return {shape[0], shape[2], shape[3], shape[1]}; }

void store_channels_last(Graph& graph, ValueId id) {
  const Shape s = graph.value(id).shape;
  const ValueId base = graph.add_value({.name = graph.value(id).name + "_last",
                                        .dtype = graph.value(id).dtype,
                                        .shape = by_pixels(s),
                                        .kind = ValueKind::kNode,
                                        .view = std::nullopt});
  graph.value(id).view = View{base, Expr(0), {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]}};
}

void walk_by_pixels(Graph& graph, Node& node) {
  if (node.op != "tv::pointwise" || node.outputs.size() != 1) return;
  const Value result = graph.value(node.outputs[0]);
  if (!result.view || result.shape.size() != 4) return;
  const Shape& stored = graph.value(result.view->base).shape;
  if (!(stored == by_pixels(result.shape)) ||
      !same_strides(stored, by_pixels(result.view->strides), contiguous_strides(stored))) {
    return;
  }
  std::vector<View> views;
  for (const ValueId id : node.inputs("inputs")) {
    const Value& value = graph.value(id);
    const View layout = layout_of(graph, id);
    if (value.shape == result.shape) {
      views.push_back(layout);
    } else if (product(value.shape) == product(result.shape)) {
      return;
    } else {
      views.push_back({layout.base, layout.offset,
                       broadcast_strides(value.shape, layout.strides, result.shape)});
    }
  }
  for (size_t k = 0; k < views.size(); ++k) {
    ValueId& id = node.args[0].values[k];
    View view = views[k];
    view.strides = by_pixels(view.strides);
    const Value& base = graph.value(view.base);
    const bool whole = base.shape == by_pixels(result.shape) && view.offset == Expr(0) &&
                       same_strides(base.shape, view.strides, contiguous_strides(base.shape));
    id = whole ? view.base
               : graph.add_value({.name = graph.value(id).name + "_by_pixels",
                                  .dtype = graph.value(id).dtype,
                                  .shape = by_pixels(result.shape),
                                  .kind = ValueKind::kNode,
                                  .view = std::move(view)});
  }
  node.outputs[0] = result.view->base;
}

Graph choose_channels_last(Graph graph, const DeviceProfile& device) {
  return Chooser(std::move(graph), steps_of_bytes(device) > 0).run();
}

}  // namespace tv
