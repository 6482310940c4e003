// The ONNX importer.

#include "csrc/frontends/onnx/onnx_import.h"
#include "python/bindings/py_module.h"
#include "runtime/base/error.h"

namespace tv::bindings {
namespace {

using onnx::ImportedModel;

// {"inputs": {name: [(min, opt, max or None), …]}, "constants": {name: (dtype, dims, ints,
// floats)},
//  "directory": str}
onnx::ImportOptions to_options(const py::dict& given) {
  onnx::ImportOptions options;
  for (const auto& [name, dims] : given["inputs"].cast<py::dict>()) {
    auto& ranges = options.inputs[name.cast<std::string>()];
    for (py::handle dim : dims) {
      const auto triple = dim.cast<py::tuple>();
      ranges.push_back({triple[0].cast<int64_t>(), triple[1].cast<int64_t>(),
                        triple[2].is_none() ? kUnbounded : triple[2].cast<int64_t>()});
    }
  }
  for (const auto& [name, value] : given["constants"].cast<py::dict>()) {
    const auto parts = value.cast<py::tuple>();
    options.constants[name.cast<std::string>()] = {
        dtype_from_name(parts[0].cast<std::string>()), parts[1].cast<std::vector<int64_t>>(),
        parts[2].cast<std::vector<int64_t>>(), parts[3].cast<std::vector<double>>()};
  }
  options.directory = given["directory"].cast<std::string>();
  return options;
}

py::list bindings_of(const std::vector<onnx::Binding>& bindings) {
  py::list out;
  for (const onnx::Binding& binding : bindings) {
    out.append(
        py::make_tuple(binding.name, std::string(name(binding.dtype)), from_shape(binding.shape)));
  }
  return out;
}

}  // namespace

void bind_onnx(py::module_& m) {
  py::class_<ImportedModel>(m, "OnnxModel", "An ONNX file as a Graph and its weights.")
      .def_property_readonly(
          "graph", [](ImportedModel& model) -> Graph& { return model.graph; },
          py::return_value_policy::reference_internal)
      .def_readonly("opset", &ImportedModel::opset)
      .def_readonly("producer", &ImportedModel::producer)
      .def_property_readonly("inputs",
                             [](const ImportedModel& model) { return bindings_of(model.inputs); })
      .def_property_readonly("outputs",
                             [](const ImportedModel& model) { return bindings_of(model.outputs); })
      .def_property_readonly("symbols",
                             [](const ImportedModel& model) {
                               std::vector<std::string> names;
                               for (const Symbol& s : model.graph.symbols) names.push_back(s.name);
                               return names;
                             })
      .def_property_readonly("weights",
                             [](const ImportedModel& model) {
                               py::list out;
                               for (const onnx::Weight& weight : model.weights) {
                                 out.append(py::make_tuple(
                                     weight.name, std::string(name(weight.dtype)), weight.shape));
                               }
                               return out;
                             })
      .def(
          "weight_bytes",
          [](const ImportedModel& model, size_t index) {
            const onnx::WeightBytes data = model.weights.at(index).load();
            return py::bytearray(reinterpret_cast<const char*>(data.bytes.data()),
                                 data.bytes.size());
          },
          "The bytes of weight `index`, as the graph holds it.");
  m.def("import_onnx", [](const std::string& path, const py::dict& given) {
    const auto options = to_options(given);
    py::gil_scoped_release no_gil;
    return onnx::import_file(path, options);
  });
  m.def("import_onnx_bytes", [](const py::bytes& model, const py::dict& given) {
    const auto options = to_options(given);
    const std::string_view text = model;
    py::gil_scoped_release no_gil;
    return onnx::import_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()},
                              options);
  });
  m.def("onnx_inputs", [](const py::bytes& model) {
    const std::string_view text = model;
    return onnx::input_names({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  });
  m.def("onnx_operators", &onnx::translated_operators);
}

}  // namespace tv::bindings
