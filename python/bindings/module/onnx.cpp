// The ONNX importer, and models divided into engines and the rest.

#include "csrc/division/steps.h"
#include "csrc/frontends/onnx/file/small_float.h"
#include "csrc/frontends/onnx/file/tensor.h"
#include "csrc/frontends/onnx/file/unsigned.h"
#include "csrc/frontends/onnx/graph_nodes.h"
#include "csrc/frontends/onnx/onnx_import.h"
#include "python/bindings/module/module.h"
#include "runtime/base/error.h"

namespace tv::bindings {
namespace {

using onnx::ImportedModel;

// {"inputs": {name: [(min, opt, max or None), …]}, "constants": {name: (dtype, dims, ints,
// floats)},
//  "directory": str, and perhaps "left_out": {number of a node: reason}, which asks for a partial
//  import}; `settings` as JSON, or "" where they say nothing of it
onnx::ImportOptions to_options(const py::dict& given, const std::string& settings) {
  onnx::ImportOptions options;
  if (!settings.empty()) options = onnx::import_options(Settings::from_json(settings));
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
  if (given.contains("left_out")) {
    options.partial = true;
    options.left_out = given["left_out"].cast<std::map<int32_t, std::string>>();
  }
  return options;
}

py::list bindings_of(const std::vector<onnx::Binding>& bindings) {
  py::list out;
  for (const onnx::Binding& binding : bindings) {
    const std::string dtype =
        binding.format.empty() ? std::string(name(binding.dtype)) : binding.format;
    out.append(py::make_tuple(binding.name, dtype, from_shape(binding.shape)));
  }
  return out;
}

// name → (value of the graph or None, (dtype, dims, elements) or None, format of codes or "")
py::dict names_of(const ImportedModel& model) {
  py::dict out;
  for (const auto& [name, what] : model.names) {
    const py::object id = what.id == kNoValue ? py::none() : py::object(py::int_(what.id));
    py::object host = py::none();
    if (what.host) {
      const py::object elements = is_float(what.host->dtype)
                                      ? py::object(py::cast(what.host->floats))
                                      : from_shape(what.host->ints);
      host = py::make_tuple(std::string(tv::name(what.host->dtype)), what.host->dims, elements);
    }
    out[py::str(name)] = py::make_tuple(id, host, onnx::border_format(what.widened));
  }
  return out;
}

py::list nodes_of(const ImportedModel& model) {
  py::list out;
  for (const onnx::FileNode& node : model.nodes) {
    out.append(py::make_tuple(node.label, node.op, node.reads, node.writes, node.refusal));
  }
  return out;
}

py::list ranges_of(const ImportedModel& model) {
  py::list out;
  for (const Symbol& s : model.graph.symbols) {
    out.append(py::make_tuple(
        s.name, s.min, s.max == kUnbounded ? py::object(py::none()) : py::object(py::int_(s.max))));
  }
  return out;
}

struct DividedModel {
  onnx::Division division;
  std::vector<onnx::Step> steps;
};

DividedModel divide(const py::bytes& bytes, const py::dict& given, const std::string& settings,
                    const DeviceProfile& device) {
  onnx::DivisionRequest request{.import = to_options(given, settings)};
  const std::string_view text = bytes;
  py::gil_scoped_release no_gil;
  request.model = onnx::read_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()},
                                   request.import.directory);
  DividedModel made{.division = onnx::divide(request, Settings::from_json(settings), device)};
  made.steps = onnx::steps_of(made.division, *request.model);
  return made;
}

py::list steps_of(const DividedModel& model) {
  py::list out;
  for (const onnx::Step& step : model.steps) {
    if (const auto* engine = std::get_if<onnx::EngineStep>(&step)) {
      out.append(py::make_tuple(engine->block, engine->inputs, engine->outputs));
      continue;
    }
    const auto& native = std::get<onnx::NativeStep>(step);
    py::dict by_value;
    for (const auto& [name, value] : native.by_value) by_value[py::str(name)] = value;
    out.append(py::make_tuple(native.nodes, by_value, native.by_size, native.outputs));
  }
  return out;
}

void bind_onnx_model(py::module_& m) {
  py::class_<ImportedModel>(m, "OnnxModel", "An ONNX file as a Graph and its weights.")
      .def_property_readonly(
          "graph", [](ImportedModel& model) -> Graph& { return model.graph; },
          py::return_value_policy::reference_internal)
      .def_readonly("opset", &ImportedModel::opset)
      .def_readonly("producer", &ImportedModel::producer)
      .def_property_readonly("nodes", &nodes_of,
                             "(label, operator, names read, names written, why it is left out or "
                             "\"\") of each node of a partial import.")
      .def_property_readonly("names", &names_of,
                             "Of a partial import: name → (value of the graph or None, (dtype, "
                             "dims, elements) or None, the format whose codes it holds or \"\").")
      .def_property_readonly("graph_nodes", &onnx::graph_nodes,
                             "Of a partial import, for each node of the file: names of the nodes "
                             "of the graph that compute it from inputs, and weights for it.")
      .def_readonly("shape_inputs", &ImportedModel::shape_inputs)
      .def_property_readonly("ranges", &ranges_of, "(name, min, max or None) of each symbol.")
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
          "The bytes of weight `index`, as the graph holds it.")
      .def(
          "digest",
          [](const ImportedModel& model, const py::bytes& file) {
            const std::string_view bytes = file;
            py::gil_scoped_release no_gil;
            return model_digest({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                                model.weights);
          },
          "Of the file's bytes and of the weights, 64 hexadecimal digits.");
}

void bind_onnx_files(py::module_& m) {
  m.def(
      "import_onnx",
      [](const std::string& path, const py::dict& given, const std::string& settings) {
        const auto options = to_options(given, settings);
        py::gil_scoped_release no_gil;
        return onnx::import_file(path, options);
      },
      py::arg("path"), py::arg("given"), py::arg("settings") = "");
  m.def(
      "import_onnx_bytes",
      [](const py::bytes& model, const py::dict& given, const std::string& settings) {
        const auto options = to_options(given, settings);
        const std::string_view text = model;
        py::gil_scoped_release no_gil;
        return onnx::import_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()},
                                  options);
      },
      py::arg("model"), py::arg("given"), py::arg("settings") = "");
  m.def("onnx_inputs", [](const py::bytes& model) {
    const std::string_view text = model;
    return onnx::inputs_of({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  });
  m.def("onnx_operators", &onnx::translated_operators);
  m.attr("onnx_shape_elements") = onnx::kMostShapeElements;
  m.def(
      "onnx_unsigned",
      [] {
        std::map<std::string, std::string> held;
        for (const auto& [type, dtype] : onnx::wider_unsigned()) held.emplace(type, name(dtype));
        return held;
      },
      "Types of unsigned integers that engines hold in wider ones, and these.");
}

void bind_onnx_division(py::module_& m) {
  py::class_<DividedModel>(m, "DividedOnnx", "What of an ONNX model engines run, and what others.")
      .def_property_readonly(
          "model", [](DividedModel& model) -> ImportedModel& { return model.division.model; },
          py::return_value_policy::reference_internal)
      .def_property_readonly(
          "plan", [](DividedModel& model) -> Plan& { return model.division.plan; },
          py::return_value_policy::reference_internal)
      .def_property_readonly("steps", &steps_of,
                             "In the order in which they run: (block, inputs, outputs) of engines, "
                             "(nodes, name read → value, names computed from sizes, outputs) of "
                             "what others run (csrc/division/steps.h).");
  m.def("divide_onnx", &divide, py::arg("model"), py::arg("given"), py::arg("settings"),
        py::arg("device"), "Plans a model, as bytes; builds nothing.");
}

}  // namespace

void bind_onnx(py::module_& m) {
  bind_onnx_model(m);
  bind_onnx_files(m);
  bind_onnx_division(m);
}

}  // namespace tv::bindings
