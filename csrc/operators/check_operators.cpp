#include "csrc/operators/check_operators.h"

#include "csrc/converter.h"
#include "csrc/operators/schema.h"
#include "csrc/settings.h"
#include "csrc/types/fail.h"

namespace tv {
namespace {

constexpr std::string_view kComplexLibrary = "complex::";

const Converter* converter_of(std::string_view op) { return Registry::instance().find(op); }

/// ATen's operator, for one on complex values that says nothing of its own.
const Converter* of_reals(std::string_view op) {
  if (!op.starts_with(kComplexLibrary)) return nullptr;
  return converter_of("aten::" + std::string(op.substr(kComplexLibrary.size())));
}

/// Null where nobody says the types: as for pointwise operators whose results broadcast.
const TypeRule* type_rule_of(std::string_view op) {
  for (const Converter* converter : {converter_of(op), of_reals(op)}) {
    if (converter != nullptr && converter->types) return &converter->types;
  }
  return nullptr;
}

bool is_pointwise(std::string_view op) {
  const Converter* reals = of_reals(op);
  const Converter* converter = reals != nullptr ? reals : converter_of(op);
  return converter != nullptr && converter->pointwise;
}

class OperatorCheck {
 public:
  OperatorCheck(const Graph& graph, std::vector<Condition>& demands)
      : graph_(graph), demands_(demands) {}

  void check(const Node& node, bool schemas) {
    if (!node.origin.refusal.empty()) return;
    const Converter* converter = Registry::instance().find(node.op);
    const Schema* schema = schema_of(node.op);
    if (schemas && schema != nullptr) check_schema(node, *schema);
    if (converter == nullptr) return;  // the plan says so
    if (schema == nullptr && node.op.starts_with("tv::")) {
      node_fails(node, "is an operator that passes make");
    }
    if (schema == nullptr && !converter->types) return;
    NodeTypes types(graph_, node, demands_);
    if (const TypeRule* rule = type_rule_of(node.op)) {
      (*rule)(types);
    } else if (is_pointwise(node.op)) {
      check_pointwise(node, types);
    }
    if (converter->view) check_views(node, *converter, types);
  }

 private:
  NodeContext context(const Node& node) const { return {graph_, node, device_, settings_}; }

  /// The result has the shape that all tensors broadcast to.
  static void check_pointwise(const Node& node, NodeTypes& types) {
    Shape shape;
    for (const Arg& arg : node.args) {
      if (!arg.is_tensor || !node.has(arg.name)) continue;
      shape =
          types.broadcast(shape, types.shape(arg.name), "a size of argument '" + arg.name + "'");
    }
    types.gives(shape);
  }

  /// Views lie within the elements that they are views of.
  void check_views(const Node& node, const Converter& converter, NodeTypes& types) {
    // What depends on sizes may be refused by the converter, which views() rely on.
    if (converter.unsupported && !converter.unsupported(context(node)).empty()) return;
    const ValueId base = node.all_inputs().at(0);
    const Shape& shape = graph_.value(base).shape;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const View whole{.base = base, .offset = 0, .strides = contiguous_strides(shape)};
      const auto view = converter.view(context(node), whole, i);
      if (view) check_view(node, *view, graph_.value(node.outputs[i]).shape, product(shape), types);
    }
  }

  static void check_view(const Node& node, const View& view, const Shape& shape,
                         const Expr& elements, NodeTypes& types) {
    if (view.strides.size() != shape.size()) node_fails(node, "the result has another rank");
    Expr last = view.offset;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == Expr(0)) return;
      types.at_least(view.strides[d], 0, "a stride");
      last += (shape[d] - 1) * view.strides[d];
    }
    types.at_least(view.offset, 0, "the first element's place");
    types.at_least(elements, last + 1, "the number of elements");
  }

  const Graph& graph_;
  std::vector<Condition>& demands_;
  const DeviceProfile device_;
  const Settings settings_;
};

}  // namespace

void check_operators(const Graph& graph, std::vector<Condition>& demands) {
  OperatorCheck check(graph, demands);
  for (const Node& node : graph.nodes) check.check(node, true);
}

void check_types(const Graph& graph, std::vector<Condition>& demands) {
  OperatorCheck check(graph, demands);
  for (const Node& node : graph.nodes) check.check(node, false);
}

bool has_type_rule(const std::string& op) {
  return type_rule_of(op) != nullptr || is_pointwise(op);
}

}  // namespace tv
