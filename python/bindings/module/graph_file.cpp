// Graph files.

#include "csrc/frontends/graph_file/graph_file.h"

#include "python/bindings/module/module.h"

namespace tv::bindings {
namespace {

using graph_file::Model;

// name → (min, opt, max) of each dimension
std::map<std::string, std::vector<DimRange>> to_ranges(const py::dict& given) {
  std::map<std::string, std::vector<DimRange>> ranges;
  for (const auto& [name, dims] : given) {
    std::vector<DimRange>& of_input = ranges[name.cast<std::string>()];
    for (py::handle dim : dims) {
      const auto sizes = dim.cast<std::array<int64_t, 3>>();
      of_input.push_back({sizes[0], sizes[1], sizes[2]});
    }
  }
  return ranges;
}

}  // namespace

void bind_graph_file(py::module_& m) {
  py::class_<Model>(m, "GraphFile", "A graph file's graph and its weights.")
      .def_property_readonly(
          "graph", [](Model& model) -> Graph& { return model.graph; },
          py::return_value_policy::reference_internal)
      .def_property_readonly("weights",
                             [](const Model& model) {
                               py::list out;
                               for (const Weight& weight : model.weights) {
                                 out.append(py::make_tuple(
                                     weight.name, std::string(name(weight.dtype)), weight.shape));
                               }
                               return out;
                             })
      .def(
          "weight_bytes",
          [](const Model& model, size_t index) {
            const WeightBytes data = model.weights.at(index).load();
            return py::bytearray(reinterpret_cast<const char*>(data.bytes.data()),
                                 data.bytes.size());
          },
          "The bytes of weight `index`.");
  m.def(
      "read_graph_file",
      [](const std::string& path, const py::dict& inputs, std::string weights) {
        const graph_file::Options options{.inputs = to_ranges(inputs),
                                          .weights = std::move(weights)};
        py::gil_scoped_release no_gil;
        return graph_file::read(path, options);
      },
      py::arg("path"), py::arg("inputs") = py::dict(), py::arg("weights") = "",
      "Reads a graph file. `inputs`: name → (min, opt, max) of each dimension, within the file's; "
      "`weights`: a .safetensors file whose tensors take the place of the file's.");
  m.def(
      "graph_file_head",
      [](const Graph& graph) {
        const graph_file::Head head = graph_file::head(graph);
        return py::make_tuple(py::bytes(head.bytes), head.weights);
      },
      "How the file of a graph begins, and the weights whose bytes follow, in order.");
}

}  // namespace tv::bindings
