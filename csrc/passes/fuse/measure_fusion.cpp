#include "csrc/passes/fuse/measure_fusion.h"

#include <algorithm>

#include "csrc/graph/edit.h"
#include "csrc/graph/strided.h"
#include "csrc/passes/layouts/choose_channels_last.h"

namespace tv {

namespace {

constexpr double kWorthFusing = 0.95;  // of the fused time

/// Gives `second` what `first` keeps not: the operators of a fused node behind the `kept` first.
void share_operators(Node& first, Node& second, size_t kept) {
  const std::vector<std::string> all = first.fused_ops;
  if (all.size() < 2) return;
  const auto border =
      all.begin() + static_cast<std::ptrdiff_t>(std::clamp<size_t>(kept, 1, all.size() - 1));
  first.fused_ops.assign(all.begin(), border);
  second.fused_ops.assign(border, all.end());
}

/// Where the node's own operator stands among those that are fused into it.
size_t own_place(const Node& node) {
  const auto it = std::ranges::find(node.fused_ops, node.op);
  return static_cast<size_t>(it - node.fused_ops.begin());
}

Node pointwise(const Node& node, const char* suffix,
               std::shared_ptr<const PointwiseProgram> program, std::vector<ValueId> inputs) {
  Node made = node_for(node, "tv::pointwise", suffix);
  made.program = std::move(program);
  made.args = {tensor_list_arg("inputs", std::move(inputs))};
  return made;
}

/// The graph with the prologue of node n as a node of its own before it.
Graph without_prologue(const Graph& graph, size_t n) {
  Graph other = graph;
  Node reader = std::move(other.nodes[n]);
  Node prologue =
      pointwise(reader, "_prologue", std::move(reader.prologue), reader.prologue_inputs);
  prologue.outputs = {reader.input(reader.prologue_arg)};
  prologue.fused_ops = reader.fused_ops;
  share_operators(prologue, reader, own_place(reader));
  reader.prologue.reset();
  reader.prologue_arg.clear();
  reader.prologue_inputs.clear();
  reader.prologue_shape.clear();
  other.nodes[n] = std::move(prologue);
  other.nodes.insert(other.nodes.begin() + static_cast<std::ptrdiff_t>(n) + 1, std::move(reader));
  return other;
}

/// The graph with the epilogue of node n as a node of its own after it.
Graph without_epilogue(const Graph& graph, size_t n) {
  Graph other = graph;
  Node anchor = std::move(other.nodes[n]);
  const ValueId result = anchor.outputs[0];
  Value plain = other.value(result);
  plain.name += "_plain";
  if (anchor.own_result_dtype != DType::kOther) plain.dtype = anchor.own_result_dtype;
  const bool whole = plain.view && plain.view->offset == Expr(0) &&
                     dense_order(plain.shape, plain.view->strides).size() == plain.shape.size() &&
                     product(other.value(plain.view->base).shape) == product(plain.shape);
  const std::optional<View> layout = whole ? plain.view : std::nullopt;
  plain.view.reset();
  anchor.outputs[0] = other.add_value(plain);
  if (layout) {  // as it would have been stored
    Value base = other.value(layout->base);
    base.name += "_plain";
    base.dtype = plain.dtype;
    const ValueId storage = other.add_value(std::move(base));
    other.value(anchor.outputs[0]).view = View{storage, layout->offset, layout->strides};
  }
  std::vector<ValueId> inputs = {anchor.outputs[0]};
  inputs.insert(inputs.end(), anchor.epilogue_inputs.begin(), anchor.epilogue_inputs.end());
  Node epilogue = pointwise(anchor, "_epilogue", std::move(anchor.epilogue), std::move(inputs));
  epilogue.outputs = {result};
  share_operators(anchor, epilogue, own_place(anchor) + 1);
  anchor.epilogue.reset();
  anchor.epilogue_inputs.clear();
  anchor.own_result_dtype = DType::kOther;
  walk_by_pixels(other, epilogue);
  other.nodes[n] = std::move(anchor);
  other.nodes.insert(other.nodes.begin() + static_cast<std::ptrdiff_t>(n) + 1, std::move(epilogue));
  return other;
}

}  // namespace

Graph measure_fusion(Graph graph, const NodesUs& us, bool epilogues) {
  const auto faster = [&](const Graph& other, size_t n) {
    const auto together = us(graph, std::vector<size_t>{n});
    const auto apart = together ? us(other, std::vector<size_t>{n, n + 1}) : std::nullopt;
    return apart && *apart < kWorthFusing * *together;
  };
  const size_t nodes = graph.nodes.size();
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].prologue && !graph.nodes[n].prologue_arg.empty()) {  // else of its own norm
      Graph other = without_prologue(graph, n);
      if (faster(other, n)) {
        graph = std::move(other);
        ++n;  // the reader, which may have an epilogue
      }
    }
    if (epilogues && graph.nodes[n].epilogue) {
      Graph other = without_epilogue(graph, n);
      if (faster(other, n)) graph = std::move(other);
    }
  }
  if (graph.nodes.size() > nodes) make_names_unique(graph);
  return graph;
}

}  // namespace tv
