#include "csrc/passes/simplify/canonicalise.h"

#include <algorithm>

#include "csrc/converter.h"
#include "csrc/graph/edit.h"
#include "csrc/passes/simplify/truncate.h"
#include "csrc/rewriter.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

constexpr int kMaxDepth = 32;          // of expansions in expansions
constexpr size_t kValuesAhead = 4096;  // that one expansion may add

class Canonicaliser {
 public:
  enum class Which : uint8_t { kAll, kTranslations };
  Canonicaliser(Graph graph, const Settings& settings, const DeviceProfile& device,
                Which which = Which::kAll)
      : graph_(std::move(graph)), settings_(settings), device_(device), which_(which) {}

  Graph run() {
    std::vector<Node> nodes = graph_.nodes;  // stay: converters ask which results are read
    for (Node& node : nodes) place(std::move(node), 0);
    graph_.nodes = std::move(out_);
    replaced_.apply(graph_);
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  void place(Node node, int depth) {
    replaced_.apply(node);
    const Converter* converter = Registry::instance().find(node.op);
    if (which_ == Which::kTranslations && converter && !converter->translates) converter = nullptr;
    if (converter && converter->expand && expand(node, *converter, depth)) return;
    if (converter && converter->pointwise) node = to_pointwise(node, *converter);
    out_.push_back(std::move(node));
  }

  /// False if the converter left the node as it is.
  bool expand(const Node& node, const Converter& converter, int depth) {
    if (depth == kMaxDepth) {
      throw Error(ErrorKind::kInternal, "[" + node.op + "] expands without an end");
    }
    // Converters hold references to values while they add others.
    reserve_values();
    std::vector<Node> made;
    Rewriter rewriter(graph_, node, made);
    converter.expand({graph_, node, device_, settings_}, rewriter);
    if (made.empty() && rewriter.replacements().empty()) return false;
    // Expansions name int64 as the operator's definition does.
    for (Node& n : made) {
      if (settings_.truncate_long_and_double) truncate_long_and_double(graph_, n);
    }
    for (const auto& [index, value] : rewriter.replacements()) replace_output(node, index, value);
    for (Node& n : made) place(std::move(n), depth + 1);
    return true;
  }

  void reserve_values() {
    const size_t want = graph_.values.size() + kValuesAhead;
    if (graph_.values.capacity() < want) {
      graph_.values.reserve(std::max(want, 2 * graph_.values.capacity()));
    }
  }

  void replace_output(const Node& node, size_t index, ValueId value) {
    const ValueId old = node.outputs.at(index);
    if (old == kNoValue) return;
    const Value& was = graph_.value(old);
    const Value& is = graph_.value(value);
    if (was.dtype != is.dtype || was.shape.size() != is.shape.size()) {
      throw Error(ErrorKind::kInternal, "[" + node.op + "] output " + std::to_string(index) +
                                            " is replaced by a " + std::string(name(is.dtype)) +
                                            " of rank " + std::to_string(is.shape.size()) +
                                            ", want " + std::string(name(was.dtype)) + " of rank " +
                                            std::to_string(was.shape.size()));
    }
    for (size_t d = 0; d < was.shape.size(); ++d) {
      const auto want = was.shape[d].constant(), got = is.shape[d].constant();
      if (want && got && *want != *got) {
        throw Error(ErrorKind::kInternal, "[" + node.op + "] output " + std::to_string(index) +
                                              " is replaced by size " + std::to_string(*got) +
                                              " in dim " + std::to_string(d) + ", want " +
                                              std::to_string(*want));
      }
    }
    replaced_.add(old, value);
  }

  Node to_pointwise(const Node& node, const Converter& converter) {
    PointwiseOp op = converter.pointwise({graph_, node, device_, settings_});
    auto program = std::make_shared<PointwiseProgram>();
    std::vector<ValueId> inputs;
    std::vector<int32_t> number_of;  // operand in the converter's order → program input
    for (const ValueId v : op.operands) {
      const auto at = std::find(inputs.begin(), inputs.end(), v);
      number_of.push_back(static_cast<int32_t>(at - inputs.begin()));
      if (at != inputs.end()) continue;
      inputs.push_back(v);
      program->inputs.push_back(graph_.value(v).dtype);
    }
    for (int32_t& operand : op.instr.operands) operand = number_of.at(operand);
    program->instrs = {std::move(op.instr)};
    program->results = {static_cast<int32_t>(inputs.size())};

    Node out;
    out.op = "tv::pointwise";
    out.name = node.name;
    out.args = {tensor_list_arg("inputs", std::move(inputs))};
    out.outputs = {node.outputs.at(0)};
    out.source = node.source;
    out.module_path = node.module_path;
    out.fused_ops = node.fused_ops.empty() ? std::vector<std::string>{node.op} : node.fused_ops;
    out.program = std::move(program);
    return out;
  }

  Graph graph_;
  const Settings& settings_;
  const DeviceProfile& device_;
  const Which which_;
  std::vector<Node> out_;
  Replacements replaced_;
};

}  // namespace

Graph canonicalise(Graph graph, const Settings& settings, const DeviceProfile& device) {
  return Canonicaliser(std::move(graph), settings, device).run();
}

Graph translate(Graph graph, const Settings& settings, const DeviceProfile& device) {
  const bool some = std::ranges::any_of(graph.nodes, [](const Node& node) {
    const Converter* converter = Registry::instance().find(node.op);
    return converter && converter->translates;
  });
  if (!some) return graph;
  return Canonicaliser(std::move(graph), settings, device, Canonicaliser::Which::kTranslations)
      .run();
}

}  // namespace tv
