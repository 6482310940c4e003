// Symbolic integers.

#include "csrc/graph/relation_names.h"
#include "python/bindings/module/module.h"

namespace tv::bindings {

Expr to_expr(py::handle object) {
  if (py::isinstance<Expr>(object)) return object.cast<Expr>();
  if (PyLong_Check(object.ptr())) return Expr(object.cast<int64_t>());
  throw py::type_error("an integer or a symbolic integer is wanted, got " +
                       py::repr(object).cast<std::string>());
}

Shape to_shape(const py::sequence& dims) {
  Shape shape;
  shape.reserve(dims.size());
  for (py::handle dim : dims) shape.push_back(to_expr(dim));
  return shape;
}

py::list from_shape(const Shape& shape) {
  py::list dims;
  for (const Expr& dim : shape) {
    if (auto value = dim.constant())
      dims.append(*value);
    else
      dims.append(dim);
  }
  return dims;
}

Relation relation_of(const std::string& name) {
  if (const auto relation = relation_from_name(name)) return *relation;
  throw py::value_error("got the relation '" + name + "'");
}

void bind_expr(py::module_& m) {
  py::class_<Expr>(m, "Expr", "An integer expression over a graph's symbols.")
      .def_static("symbol", &Expr::symbol, "The id-th symbol of a graph.")
      .def_static("parse", [](const std::string& text) { return Expr::parse(text); })
      .def("constant", &Expr::constant, "The value, or None where a symbol occurs.")
      .def("symbols", &Expr::symbols)
      .def("solve", &Expr::solve, "(symbol, value) where this is linear in one symbol.")
      .def("eval", [](const Expr& e, const std::vector<int64_t>& values) { return e.eval(values); })
      .def(
          "bounds",
          [](const Expr& e, const std::vector<std::pair<int64_t, int64_t>>& ranges) {
            std::vector<Symbol> symbols;
            for (const auto& [low, high] : ranges)
              symbols.push_back({.min = low, .opt = low, .max = high});
            return e.bounds(symbols);
          },
          "(least, largest) value where the symbols are in these ranges; 2^63 - 1 stands for more.")
      .def("__str__", &Expr::str)
      .def("__repr__", [](const Expr& e) { return "Expr(" + e.str() + ")"; })
      .def("__hash__", [](const Expr& e) { return py::hash(py::str(e.str())); })
      .def("__eq__",
           [](const Expr& a, py::object b) {
             const bool is_number = py::isinstance<Expr>(b) || PyLong_Check(b.ptr());
             return is_number && a == to_expr(b);
           })
      .def("__add__", [](const Expr& a, py::object b) { return a + to_expr(b); })
      .def("__radd__", [](const Expr& a, py::object b) { return to_expr(b) + a; })
      .def("__sub__", [](const Expr& a, py::object b) { return a - to_expr(b); })
      .def("__rsub__", [](const Expr& a, py::object b) { return to_expr(b) - a; })
      .def("__mul__", [](const Expr& a, py::object b) { return a * to_expr(b); })
      .def("__rmul__", [](const Expr& a, py::object b) { return to_expr(b) * a; })
      .def("__neg__", [](const Expr& a) { return Expr(0) - a; })
      .def("__floordiv__", [](const Expr& a, py::object b) { return floordiv(a, to_expr(b)); })
      .def("__rfloordiv__", [](const Expr& a, py::object b) { return floordiv(to_expr(b), a); })
      .def("__mod__", [](const Expr& a, py::object b) { return mod(a, to_expr(b)); })
      .def("__rmod__", [](const Expr& a, py::object b) { return mod(to_expr(b), a); });
  m.def("expr_max", [](py::object a, py::object b) { return max(to_expr(a), to_expr(b)); });
  m.def("expr_min", [](py::object a, py::object b) { return min(to_expr(a), to_expr(b)); });
}

}  // namespace tv::bindings
