#include "csrc/passes/fuse/fusion_graph.h"

#include "csrc/graph/edit.h"
#include "csrc/graph/strided.h"

namespace tv {

FusionGraph::FusionGraph(Graph graph)
    : graph_(std::move(graph)),
      alive_(graph_.nodes.size(), true),
      constant_(graph_.nodes.size(), false),
      producers_(producers(graph_)),
      readers_(graph_.values.size()) {
  const std::vector<bool> constant = constant_values(graph_);
  for (int32_t i = 0; i < size(); ++i) {
    note_reads(i, true);
    for (ValueId output : node(i).outputs) {
      if (output != kNoValue && constant[static_cast<size_t>(output)]) {
        constant_[static_cast<size_t>(i)] = true;
      }
    }
  }
  for (const GraphOutput& output : graph_.outputs) outputs_.insert(base_of(output.value));
}

Graph FusionGraph::take() {
  std::vector<Node> nodes;
  for (int32_t i = 0; i < size(); ++i) {
    if (alive(i)) nodes.push_back(std::move(node(i)));
  }
  graph_.nodes = std::move(nodes);
  return std::move(graph_);
}

ValueId FusionGraph::base_of(ValueId id) const {
  const Value& v = value(id);
  return v.view ? v.view->base : id;
}

bool FusionGraph::covers_storage(ValueId id) const {
  const Value& v = value(id);
  if (!v.view) return true;
  return v.view->offset == Expr(0) && is_dense(v.shape, v.view->strides) &&
         product(v.shape) == product(value(v.view->base).shape);
}

ValueId FusionGraph::broadcast_to(ValueId id, const Shape& shape) {
  if (product(value(id).shape) == product(shape)) return id;
  const View layout = layout_of(graph_, id);
  Value expanded{
      value(id).name + "_expanded", value(id).dtype, shape, ValueKind::kNode,
      View{layout.base, layout.offset, broadcast_strides(value(id).shape, layout.strides, shape)}};
  return add_value(std::move(expanded));
}

ValueId FusionGraph::add_like(ValueId id, const char* suffix) {
  const Value& like = value(id);
  return add_value(Value{like.name + suffix, like.dtype, like.shape, ValueKind::kNode, {}});
}

ValueId FusionGraph::add_view(std::string name, DType dtype, Shape shape, View view) {
  return add_value(
      Value{std::move(name), dtype, std::move(shape), ValueKind::kNode, std::move(view)});
}

ValueId FusionGraph::add_value(Value value) {
  const ValueId added = graph_.add_value(std::move(value));
  readers_.emplace_back();
  producers_.push_back(-1);
  return added;
}

int64_t FusionGraph::reads(int32_t reader, ValueId base) const {
  int64_t count = 0;
  for (const ValueId input : node(reader).all_inputs()) count += base_of(input) == base;
  return count;
}

bool FusionGraph::is_read_once(ValueId base, int32_t reader) const {
  return !is_output(base) && readers(base) == std::set<int32_t>{reader} && reads(reader, base) == 1;
}

void FusionGraph::replace(int32_t at, Node merged, int32_t gone) {
  drop(gone);
  put(at, std::move(merged));
}

void FusionGraph::replace_by_copy(int32_t at, Node merged, int32_t copied) {
  put(at, std::move(merged));
  for (const ValueId output : node(copied).outputs) {
    if (output != kNoValue && (is_output(output) || !readers(output).empty())) return;
  }
  drop(copied);
}

void FusionGraph::drop(int32_t index) {
  note_reads(index, false);
  alive_[static_cast<size_t>(index)] = false;
}

void FusionGraph::put(int32_t at, Node merged) {
  note_reads(at, false);
  node(at) = std::move(merged);
  note_reads(at, true);
  for (ValueId output : node(at).outputs) {
    if (output != kNoValue) producers_[static_cast<size_t>(output)] = at;
  }
}

void FusionGraph::rebase(ValueId old, ValueId by) {
  for (Value& v : graph_.values) {
    if (v.view && v.view->base == old) v.view->base = by;
  }
  graph_.value(old).view = View{by, Expr(0), contiguous_strides(value(old).shape)};
  auto& moved = readers_[static_cast<size_t>(old)];
  readers_[static_cast<size_t>(by)].insert(moved.begin(), moved.end());
  moved.clear();
  if (outputs_.erase(old)) outputs_.insert(by);
}

void FusionGraph::note_reads(int32_t index, bool reads) {
  for (ValueId input : node(index).all_inputs()) {
    auto& readers = readers_[static_cast<size_t>(base_of(input))];
    if (reads) {
      readers.insert(index);
    } else {
      readers.erase(index);
    }
  }
}

}  // namespace tv
