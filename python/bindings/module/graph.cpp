// Building a Graph, one node at a time, from an importer written in Python.

#include "csrc/graph/graph.h"

#include <set>

#include "csrc/partition/symbols.h"
#include "python/bindings/module/module.h"
#include "runtime/base/error.h"

namespace tv::bindings {
namespace {

Attr list_attr(const py::sequence& list) {
  bool all_bool = list.size() > 0, all_integer = true;
  for (py::handle item : list) {
    all_bool = all_bool && PyBool_Check(item.ptr());
    all_integer = all_integer && !PyFloat_Check(item.ptr());
  }
  if (all_bool) return list.cast<std::vector<bool>>();
  if (all_integer) return to_shape(list);
  return list.cast<std::vector<double>>();
}

// bool before int: Python's bool is an int.
Attr to_attr(py::handle value) {
  if (value.is_none()) return std::monostate{};
  if (PyBool_Check(value.ptr())) return value.cast<bool>();
  if (PyFloat_Check(value.ptr())) return value.cast<double>();
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (py::isinstance<DType>(value)) return value.cast<DType>();
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    return list_attr(py::reinterpret_borrow<py::sequence>(value));
  }
  return to_expr(value);
}

ValueId to_value(py::handle id) { return id.is_none() ? kNoValue : id.cast<ValueId>(); }

// (name, "tensor", id | None), (name, "tensors", [id | None]), (name, "attr", object)
Arg to_arg(const py::tuple& item) {
  auto name = item[0].cast<std::string>();
  const auto kind = item[1].cast<std::string>();
  if (kind == "tensor") return tensor_arg(std::move(name), to_value(item[2]));
  if (kind == "tensors") {
    std::vector<ValueId> values;
    for (py::handle id : item[2]) values.push_back(to_value(id));
    return tensor_list_arg(std::move(name), std::move(values));
  }
  return attr_arg(std::move(name), to_attr(item[2]));
}

// (relation, left, right, source)
Condition to_condition(const py::tuple& item) {
  return {relation_of(item[0].cast<std::string>()), to_expr(item[1]), to_expr(item[2]),
          item[3].cast<std::string>()};
}

// Fields of Origin by name; those that are left out have their default.
Origin to_origin(const Graph& graph, const py::dict& given) {
  Origin origin;
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string>();
    if (name == "index") {
      origin.index = value.cast<int32_t>();
    } else if (name == "op") {
      origin.op = value.cast<std::string>();
    } else if (name == "refusal") {
      origin.refusal = value.cast<std::string>();
    } else if (name == "free") {
      origin.free = value.cast<bool>();
    } else if (name == "on_host") {
      origin.on_host = value.cast<bool>();
    } else if (name == "effect") {
      origin.effect = value.cast<bool>();
    } else if (name == "demands") {
      for (py::handle item : value) {
        Condition condition = to_condition(item.cast<py::tuple>());
        if (condition.decided(graph.symbols)) continue;
        origin.demands.push_back(std::move(condition));
      }
    } else {
      throw py::type_error("a node's origin has no " + name);
    }
  }
  return origin;
}

ValueId add_leaf(Graph& graph, ValueKind kind, std::string name, DType dtype,
                 const py::sequence& shape) {
  Value value;
  value.name = std::move(name);
  value.dtype = dtype;
  value.shape = to_shape(shape);
  value.kind = kind;
  const ValueId id = graph.add_value(std::move(value));
  (kind == ValueKind::kInput ? graph.inputs : graph.weights).push_back(id);
  return id;
}

py::list add_node(Graph& graph, std::string op, std::string name, const py::list& args,
                  const py::list& outputs, std::string source, std::string module_path,
                  const py::dict& origin) {
  Node node;
  node.op = std::move(op);
  node.name = std::move(name);
  node.source = std::move(source);
  node.module_path = std::move(module_path);
  node.origin = to_origin(graph, origin);
  for (py::handle arg : args) node.args.push_back(to_arg(arg.cast<py::tuple>()));
  py::list ids;
  for (py::handle output : outputs) {
    if (output.is_none()) {
      node.outputs.push_back(kNoValue);
      ids.append(py::none());
      continue;
    }
    const auto pair = output.cast<py::tuple>();
    const auto shape = to_shape(pair[1].cast<py::sequence>());
    ids.append(graph.add_output(node, pair[0].cast<DType>(), shape));
  }
  graph.nodes.push_back(std::move(node));
  return ids;
}

}  // namespace

std::vector<GraphOutput> to_outputs(const py::list& outputs) {
  std::vector<GraphOutput> made;
  for (py::handle item : outputs) {
    const auto parts = item.cast<py::tuple>();
    GraphOutput& output = made.emplace_back();
    output.value = parts[0].cast<ValueId>();
    output.name = parts[1].cast<std::string>();
    if (!parts[2].is_none()) output.strides = to_shape(parts[2].cast<py::sequence>());
    if (parts.size() > 3) output.over = parts[3].cast<ValueId>();
  }
  return made;
}

namespace {

void bind_dtype(py::module_& m) {
  py::enum_<DType>(m, "DType", "Element type of a tensor.")
      .value("other", DType::kOther)
      .value("float32", DType::kF32)
      .value("float16", DType::kF16)
      .value("bfloat16", DType::kBF16)
      .value("float64", DType::kF64)
      .value("int64", DType::kI64)
      .value("int32", DType::kI32)
      .value("int16", DType::kI16)
      .value("int8", DType::kI8)
      .value("uint8", DType::kU8)
      .value("bool", DType::kBool);
}

void bind_building(py::class_<Graph>& graph) {
  // `named` is no constructor: pybind11 registers what one has made outside of its try, so that no
  // memory for that would end the process.
  graph
      .def_static(
          "named",
          [](std::string name) {
            Graph graph;
            graph.name = std::move(name);
            return graph;
          },
          py::arg("name") = "", "An empty graph.")
      .def(
          "add_symbol",
          [](Graph& graph, std::string name, int64_t min, int64_t opt, std::optional<int64_t> max) {
            graph.symbols.push_back({std::move(name), min, opt, max.value_or(kUnbounded)});
            return Expr::symbol(static_cast<int32_t>(graph.symbols.size()) - 1);
          },
          "A new symbolic dimension; max None: no upper bound.")
      .def(
          "add_condition",
          [](Graph& graph, const std::string& relation, py::handle left, py::handle right,
             std::string source) {
            Condition condition{relation_of(relation), to_expr(left), to_expr(right),
                                std::move(source)};
            if (condition.decided(graph.symbols)) return;
            add_condition(graph.conditions, std::move(condition));
          },
          py::arg("relation"), py::arg("left"), py::arg("right"), py::arg("source") = "",
          "What sizes fulfil beside their ranges; nothing where the ranges decide it.")
      .def("add_input",
           [](Graph& graph, std::string name, DType dtype, const py::sequence& shape) {
             return add_leaf(graph, ValueKind::kInput, std::move(name), dtype, shape);
           })
      .def("add_weight",
           [](Graph& graph, std::string name, DType dtype, const py::sequence& shape) {
             return add_leaf(graph, ValueKind::kWeight, std::move(name), dtype, shape);
           })
      .def(
          "set_two_four",
          [](Graph& graph, ValueId id, int dimensions) {
            graph.value(id).two_four = static_cast<uint8_t>(dimensions);
          },
          "Along which dimensions a weight is 2:4 sparse, bit by bit.")
      .def(
          "set_four_bits", [](Graph& graph, ValueId id) { graph.value(id).four_bits = true; },
          "Says that the elements of a weight of int8 lie in -8 to 7.")
      .def("add_node", &add_node, py::arg("op"), py::arg("name"), py::arg("args"),
           py::arg("outputs"), py::arg("source") = "", py::arg("module_path") = "",
           py::arg("origin") = py::dict(),
           "Appends a node; returns the ids of its outputs. `origin`: index, op, refusal, free, "
           "on_host, effect, demands as (relation, left, right, source) (csrc/graph/graph.h).")
      .def(
          "set_outputs",
          [](Graph& graph, const py::list& outputs) { graph.outputs = to_outputs(outputs); },
          "A list of (value, name, promised strides or None[, input that the value is written "
          "over]).");
}

void bind_reading(py::class_<Graph>& graph) {
  graph.def("value_dtype", [](const Graph& graph, ValueId id) { return graph.value(id).dtype; })
      .def("value_shape",
           [](const Graph& graph, ValueId id) { return from_shape(graph.value(id).shape); })
      .def(
          "unbound_symbols",
          [](const Graph& graph) {
            std::set<int32_t> unbound;
            for (size_t s = 0; s < graph.symbols.size(); ++s) unbound.insert(static_cast<int>(s));
            for (const ValueId v : graph.inputs) drop_bound(unbound, graph.value(v));
            std::vector<std::pair<std::string, Expr>> found;
            for (const int32_t s : unbound) {
              found.emplace_back(graph.symbols[s].name, Expr::symbol(s));
            }
            return found;
          },
          "(name, symbol) of those that the shapes of inputs do not determine.")
      .def_property_readonly(
          "inputs",
          [](const Graph& graph) {
            std::vector<std::string> names;
            for (const ValueId v : graph.inputs) names.push_back(graph.value(v).name);
            return names;
          },
          "Names.")
      .def_property_readonly(
          "weights",
          [](const Graph& graph) {
            py::list out;
            for (const ValueId v : graph.weights) {
              const Value& weight = graph.value(v);
              out.append(py::make_tuple(weight.name, std::string(name(weight.dtype)),
                                        from_shape(weight.shape)));
            }
            return out;
          },
          "(name, dtype, shape) of each.")
      .def("ops",
           [](const Graph& graph) {
             std::vector<std::string> ops;
             for (const Node& node : graph.nodes) ops.push_back(node.op);
             return ops;
           })
      .def("dump", [](const Graph& graph) { return dump(graph); });
}

}  // namespace

void bind_graph(py::module_& m) {
  bind_dtype(m);
  py::class_<Graph> graph(m, "Graph", "What an importer makes and the compiler takes.");
  bind_building(graph);
  bind_reading(graph);
}

}  // namespace tv::bindings
