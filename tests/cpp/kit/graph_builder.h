#pragma once
// Graphs for tests, a line a node, over operators that exist for tests alone.

#include "csrc/converter.h"
#include "csrc/graph/graph.h"

namespace tv::test {

/// Operators without kernels, for what asks only whether a converter exists: t::work (counts),
/// t::view (a view, free) and t::picky (refuses where its attribute `reason` is not empty, throws
/// where it is "throw"). Operators that are not registered: any other.
inline void register_partition_ops() {
  if (Registry::instance().find("t::work")) return;
  Registry::instance().add({.op = "t::work"});
  Registry::instance().add({.op = "t::work.Other"});
  Registry::instance().add({.op = "t::view", .is_compute = false});
  Registry::instance().add({.op = "t::picky", .unsupported = [](const NodeContext& context) {
                              const std::string reason = context.node.text("reason");
                              if (reason == "throw") context.wrap(9, 2);
                              return reason;
                            }});
}

struct GraphBuilder {
  Graph graph;

  GraphBuilder() { register_partition_ops(); }

  int32_t symbol(std::string name, int64_t min = 1, int64_t max = kUnbounded) {
    graph.symbols.push_back({.name = std::move(name), .min = min, .opt = min, .max = max});
    return static_cast<int32_t>(graph.symbols.size() - 1);
  }

  ValueId input(Shape shape = {4}, DType dtype = DType::kF32) {
    return leaf(graph.inputs, "in", ValueKind::kInput, std::move(shape), dtype);
  }

  ValueId weight(Shape shape = {4}, DType dtype = DType::kF32) {
    return leaf(graph.weights, "w", ValueKind::kWeight, std::move(shape), dtype);
  }

  /// A node over the tensor arguments "a0", "a1", …; adds `attrs` after them.
  ValueId op(const std::string& name, const std::vector<ValueId>& inputs, Shape shape = {4},
             DType dtype = DType::kF32, std::vector<Arg> attrs = {}) {
    std::vector<Arg> args;
    for (size_t i = 0; i < inputs.size(); ++i) {
      args.push_back(tensor_arg("a" + std::to_string(i), inputs[i]));
    }
    args.insert(args.end(), attrs.begin(), attrs.end());
    return node(name, std::move(args), {{dtype, std::move(shape)}}).outputs.at(0);
  }

  ValueId work(const std::vector<ValueId>& inputs, Shape shape = {4}) {
    return op("t::work", inputs, std::move(shape));
  }

  Node& node(const std::string& name, std::vector<Arg> args,
             const std::vector<std::pair<DType, Shape>>& outputs) {
    Node node;
    node.op = name;
    node.name = "n" + std::to_string(graph.nodes.size());
    node.source = "model.py:" + std::to_string(graph.nodes.size() + 1);
    node.args = std::move(args);
    for (const auto& [dtype, shape] : outputs) graph.add_output(node, dtype, shape);
    graph.nodes.push_back(std::move(node));
    return graph.nodes.back();
  }

  void output(ValueId value, Shape strides = {}) {
    graph.outputs.push_back(
        {value, "out" + std::to_string(graph.outputs.size()), std::move(strides)});
  }

 private:
  ValueId leaf(std::vector<ValueId>& list, const char* prefix, ValueKind kind, Shape shape,
               DType dtype) {
    const ValueId id = graph.add_value({.name = prefix + std::to_string(list.size()),
                                        .dtype = dtype,
                                        .shape = std::move(shape),
                                        .kind = kind,
                                        .view = std::nullopt});
    list.push_back(id);
    return id;
  }
};

}  // namespace tv::test
