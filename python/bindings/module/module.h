#pragma once
// The parts of the extension module `_C`, one function per file. No torch headers here.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "csrc/graph/graph.h"

namespace tv::bindings {

namespace py = pybind11;

extern const char* const kTorchVersion;  ///< of the headers that libtorch_vulkan is compiled with

void bind_errors(py::module_& m);
void bind_expr(py::module_& m);
void bind_graph(py::module_& m);
void bind_compile(py::module_& m);
void bind_calibration(py::module_& m);
void bind_cache(py::module_& m);
void bind_device(py::module_& m);
void bind_engine(py::module_& m);
void bind_report(py::module_& m);
void bind_onnx(py::module_& m);
void bind_graph_file(py::module_& m);

/// An Expr from a Python int or `_C.Expr`; throws py::type_error for anything else.
Expr to_expr(py::handle object);
Shape to_shape(const py::sequence& dims);
Relation relation_of(const std::string& name);  ///< "equal", "differs", "at_least", "multiple"
/// ints where constant, else `_C.Expr`.
py::list from_shape(const Shape& shape);

/// Of (value, name, promised strides or None[, input that the value is written over]).
std::vector<GraphOutput> to_outputs(const py::list& outputs);

}  // namespace tv::bindings
