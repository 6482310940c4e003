// What layers take and how they hang together, as tables, traces and pictures.

#include "csrc/report/bar_picture.h"
#include "csrc/report/engine_graph.h"
#include "csrc/report/layer_times.h"
#include "python/bindings/module/module.h"
#include "runtime/engine/engine.h"
#include "runtime/spec/vke.h"

namespace tv::bindings {
namespace {

std::vector<LayerTime> to_layers(const py::list& entries) {
  std::vector<LayerTime> layers;
  for (const py::handle item : entries) {
    const auto entry = item.cast<py::dict>();
    layers.push_back({.engine = entry["engine"].cast<std::string>(),
                      .call = entry["call"].cast<int64_t>(),
                      .name = entry["name"].cast<std::string>(),
                      .tactic = entry["tactic"].cast<std::string>(),
                      .ops = entry["ops"].cast<std::vector<std::string>>(),
                      .module_path = entry["module_path"].cast<std::string>(),
                      .source = entry["source"].cast<std::string>(),
                      .time_us = entry["time_us"].cast<double>(),
                      .mean_us = entry["mean_us"].cast<double>(),
                      .bytes = entry["bytes"].cast<int64_t>()});
  }
  return layers;
}

}  // namespace

void bind_report(py::module_& m) {
  m.def(
      "layer_table",
      [](const py::list& layers, size_t rows, bool by_time) {
        return layer_table(to_layers(layers), rows, by_time);
      },
      py::arg("layers"), py::arg("rows") = 0, py::arg("by_time") = true);
  m.def("layer_json",
        [](const py::list& layers, int64_t runs) { return layer_json(to_layers(layers), runs); });
  m.def("layer_trace", [](const py::list& layers) { return layer_trace(to_layers(layers)); });
  m.def("layer_picture", [](const py::list& layers) { return layer_picture(to_layers(layers)); });
  m.def(
      "bar_picture",
      [](const std::string& title, const std::string& axis, const py::list& rows) {
        std::vector<Bar> bars;
        for (const auto& [length, label] :
             rows.cast<std::vector<std::pair<double, std::string>>>()) {
          bars.push_back({.length = length, .label = label, .title = label});
        }
        return bar_picture(title, axis, bars);
      },
      "A bar chart as SVG of (length, label).");
  m.def(
      "engine_picture",
      [](const py::bytes& vke) {
        const std::string_view bytes = vke;
        return engine_picture(
            from_vke({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}).spec);
      },
      "The layers of a .vke file and the data between them, as SVG.");
}

}  // namespace tv::bindings
