// Graph → text: one line for each symbol, input, weight, node and output.

#include <cstdio>

#include "csrc/graph/graph.h"

namespace tv {
namespace {

template <typename List, typename Text>
std::string join(const List& list, Text text) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + text(item);
  return out;
}

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.17g", value);
  const std::string text = buffer;
  // An integer looks different.
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string list_text(const std::vector<Expr>& list) {
  return "[" + join(list, [](const Expr& e) { return e.str(); }) + "]";
}

struct AttrText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool b) const { return b ? "True" : "False"; }
  std::string operator()(const Expr& e) const { return e.str(); }
  std::string operator()(double d) const { return number_text(d); }
  std::string operator()(const std::string& s) const { return "'" + s + "'"; }
  std::string operator()(DType d) const { return std::string(name(d)); }
  std::string operator()(const std::vector<Expr>& list) const { return list_text(list); }
  std::string operator()(const std::vector<double>& list) const {
    return "[" + join(list, number_text) + "]";
  }
  std::string operator()(const std::vector<bool>& list) const {
    return "[" + join(list, [](bool b) { return std::string(b ? "True" : "False"); }) + "]";
  }
};

std::string id_text(ValueId v) { return v == kNoValue ? "None" : "%" + std::to_string(v); }

std::string ids_text(const std::vector<ValueId>& ids) { return "[" + join(ids, id_text) + "]"; }

std::string arg_text(const Arg& arg) {
  if (!arg.is_tensor) return arg.name + "=" + std::visit(AttrText{}, arg.attr);
  if (arg.is_list) return arg.name + "=" + ids_text(arg.values);
  return arg.name + "=" + id_text(arg.values.empty() ? kNoValue : arg.values.front());
}

std::string instr_text(const PointwiseInstr& instr) {
  std::string out = instr.function + "(";
  out += join(instr.operands, [](int32_t o) { return "$" + std::to_string(o); });
  for (const double s : instr.scalars) out += ", " + number_text(s);
  for (const int64_t i : instr.integers) out += ", " + std::to_string(i) + "i";
  out += "):" + std::string(name(instr.result));
  if (instr.compute != instr.result) out += "/" + std::string(name(instr.compute));
  return out;
}

std::string program_text(const PointwiseProgram& program) {
  std::string out = "{" + join(program.inputs, [](DType d) { return std::string(name(d)); }) + " |";
  for (const PointwiseInstr& instr : program.instrs) out += " " + instr_text(instr) + ";";
  return out + " -> " + join(program.results, [](int32_t o) { return "$" + std::to_string(o); }) +
         "}";
}

std::string value_text(const Graph& graph, ValueId v) {
  if (v == kNoValue) return "_";
  return "%" + std::to_string(v) + " " + graph.value(v).name + ": " + type_text(graph.value(v));
}

std::string node_text(const Graph& graph, const Node& node) {
  std::string out = "  " + join(node.outputs, [&](ValueId v) { return value_text(graph, v); });
  out += " = " + signature(node);
  if (!node.fused_ops.empty()) {
    out += " of " + join(node.fused_ops, [](const std::string& op) { return op; });
  }
  if (!node.module_path.empty() || !node.source.empty()) {
    out += "  # " + node.module_path + " " + node.source;
  }
  return out + "\n";
}

std::string symbol_text(size_t id, const Symbol& s) {
  return "  symbol s" + std::to_string(id) + " " + s.name + ": " + std::to_string(s.min) + ".." +
         (s.max == kUnbounded ? std::string() : std::to_string(s.max)) + " opt " +
         std::to_string(s.opt) + "\n";
}

}  // namespace

std::string condition_text(const Condition& c) {
  static constexpr const char* kRelations[] = {" == ", " != ", " >= ", " multiple of "};
  return c.left.str() + kRelations[static_cast<size_t>(c.relation)] + c.right.str();
}

std::string type_text(const Value& value) {
  std::string out = std::string(name(value.dtype)) + list_text(value.shape);
  if (value.view) {
    out += " view(" + id_text(value.view->base) + " + " + value.view->offset.str() + ", " +
           list_text(value.view->strides) + ")";
  }
  for (int dim = 0; dim < 8; ++dim) {
    if (value.two_four >> dim & 1) out += " 2:4 along " + std::to_string(dim);
  }
  if (value.four_bits) out += " of 4 bits";
  return out;
}

std::string signature(const Node& node) {
  std::string out = node.op + "(" + join(node.args, arg_text) + ")";
  if (node.program) out += " " + program_text(*node.program);
  if (node.prologue) {
    out += " prologue " + node.prologue_arg + list_text(node.prologue_shape) + "=" +
           program_text(*node.prologue) + ids_text(node.prologue_inputs);
  }
  if (node.epilogue) {
    out += " epilogue " + program_text(*node.epilogue) + ids_text(node.epilogue_inputs);
    if (node.own_result_dtype != DType::kOther)
      out += " on " + std::string(name(node.own_result_dtype));
  }
  if (node.input_scale != 0) out += " input_scale " + number_text(node.input_scale);
  return out;
}

std::string dump(const Graph& graph) {
  std::string out = "graph " + graph.name + "\n";
  for (size_t i = 0; i < graph.symbols.size(); ++i) out += symbol_text(i, graph.symbols[i]);
  for (const Condition& c : graph.conditions) out += "  condition " + condition_text(c) + "\n";
  for (const ValueId v : graph.inputs) out += "  input " + value_text(graph, v) + "\n";
  for (const ValueId v : graph.weights) out += "  weight " + value_text(graph, v) + "\n";
  for (const Node& node : graph.nodes) out += node_text(graph, node);
  for (const GraphOutput& o : graph.outputs) {
    out += "  output " + id_text(o.value) + " " + o.name +
           (o.strides.empty() ? "" : " strides " + list_text(o.strides)) +
           (o.over == kNoValue ? "" : " over " + id_text(o.over)) + "\n";
  }
  return out;
}

}  // namespace tv
