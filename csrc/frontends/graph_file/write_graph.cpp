// A Graph as JSON.

#include <cmath>

#include "csrc/frontends/graph_file/graph_text.h"
#include "csrc/graph/relation_names.h"
#include "runtime/base/error.h"

namespace tv::graph_file {
namespace {

Json text(std::string_view t) { return std::string(t); }

Json expr(const Expr& e) {
  const auto constant = e.constant();
  return constant ? Json(*constant) : Json(e.str());
}

Json number(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  return d;
}

Json id(ValueId value) { return value == kNoValue ? Json() : Json(value); }

template <class List, class Function>
Json array(const List& list, const Function& item) {
  Json::Array out;
  for (const auto& one : list) out.push_back(item(one));
  return out;
}

void put_text(Json::Object& object, const char* key, const std::string& t) {
  if (!t.empty()) object[key] = t;
}

Json symbol(const Symbol& s) {
  Json::Object object{{"name", s.name}, {"min", s.min}, {"opt", s.opt}};
  if (s.max != kUnbounded) object["max"] = s.max;
  return object;
}

Json condition(const Condition& c) {
  Json::Object object{
      {"relation", text(name(c.relation))}, {"left", expr(c.left)}, {"right", expr(c.right)}};
  put_text(object, "source", c.source);
  return object;
}

Json value(const Value& v) {
  if (v.view) throw Error(ErrorKind::kInternal, "[graph file] '" + v.name + "' is a view");
  Json::Object object{
      {"name", v.name}, {"dtype", text(name(v.dtype))}, {"shape", array(v.shape, expr)}};
  if (v.four_bits) object["four_bits"] = true;
  return object;
}

struct AttrWriter {
  Json::Object& out;
  void operator()(std::monostate) const {}
  void operator()(bool b) const { out["bool"] = b; }
  void operator()(const Expr& e) const { out["int"] = expr(e); }
  void operator()(double d) const { out["float"] = number(d); }
  void operator()(const std::string& t) const { out["text"] = t; }
  void operator()(DType d) const { out["dtype"] = text(name(d)); }
  void operator()(const std::vector<Expr>& list) const { out["ints"] = array(list, expr); }
  void operator()(const std::vector<double>& list) const { out["floats"] = array(list, number); }
  void operator()(const std::vector<bool>& list) const {
    out["bools"] = array(list, [](bool b) { return Json(b); });
  }
};

Json arg(const Arg& a) {
  Json::Object object{{"name", a.name}};
  if (!a.is_tensor) {
    std::visit(AttrWriter{object}, a.attr);
  } else if (a.is_list) {
    object["tensors"] = array(a.values, id);
  } else {
    object["tensor"] = id(a.values.at(0));
  }
  return object;
}

Json node(const Node& n) {
  if (n.program || n.epilogue || n.prologue || n.input_scale != 0) {
    throw Error(ErrorKind::kInternal, "[graph file] a pass made node '" + n.name + "'");
  }
  Json::Object object{{"op", n.op},
                      {"name", n.name},
                      {"args", array(n.args, arg)},
                      {"outputs", array(n.outputs, id)}};
  put_text(object, "source", n.source);
  put_text(object, "module", n.module_path);
  return object;
}

Json output(const GraphOutput& o) {
  if (o.over != kNoValue) {
    throw Error(ErrorKind::kUser, "[graph file] output '" + o.name + "' is written over an input");
  }
  Json::Object object{{"value", id(o.value)}, {"name", o.name}};
  if (!o.strides.empty()) object["strides"] = array(o.strides, expr);
  return object;
}

}  // namespace

Json to_json(const Graph& graph) {
  std::vector<Condition> conditions = graph.conditions;
  for (const Node& n : graph.nodes) {
    for (const Condition& demand : n.origin.demands) add_condition(conditions, demand);
  }
  Json::Object object{
      {"symbols", array(graph.symbols, symbol)}, {"conditions", array(conditions, condition)},
      {"values", array(graph.values, value)},    {"inputs", array(graph.inputs, id)},
      {"weights", array(graph.weights, id)},     {"nodes", array(graph.nodes, node)},
      {"outputs", array(graph.outputs, output)}};
  put_text(object, "name", graph.name);
  return object;
}

}  // namespace tv::graph_file
