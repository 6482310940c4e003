// Calibration: caches, and what is seen of tensors.

#include "csrc/calibration/calibration.h"

#include <algorithm>

#include "csrc/calibration/observations.h"
#include "python/bindings/module/module.h"
#include "runtime/base/error.h"

namespace tv::bindings {
namespace {

RangeMethod method_of(const std::string& name) {
  const auto at = std::ranges::find(kRangeMethods, name);
  if (at == kRangeMethods.end()) {
    throw Error(ErrorKind::kInternal, "[calibration] no method '" + name + "'");
  }
  return static_cast<RangeMethod>(at - kRangeMethods.begin());
}

// float32, at an address.
std::span<const float> elements_at(uintptr_t address, size_t count) {
  return {reinterpret_cast<const float*>(address), count};  // NOLINT: as torch gives it
}

py::tuple parts_of(const Calibration& found) {
  py::dict largest, means;
  for (const auto& [name, channels] : found.channels) {
    if (!channels.largest.empty()) largest[py::str(name)] = channels.largest;
    if (!channels.means.empty()) means[py::str(name)] = channels.means;
  }
  return py::make_tuple(found.header, found.scales, found.alpha, largest, means, found.required);
}

void bind_caches(py::module_& m) {
  m.def(
      "read_calibration",
      [](const std::string& text, const std::string& what) {
        return parts_of(read_calibration(text, what));
      },
      "(header, [(name, scale)], SmoothQuant's alpha or None, {name: largest of each channel}, "
      "{name: means}, {names that are required in int8}) of a calibration cache; `what` names it "
      "in messages.");
  m.def(
      "calibration_text",
      [](std::string header, std::vector<std::pair<std::string, float>> scales,
         std::optional<float> alpha, const std::map<std::string, std::vector<float>>& largest,
         const std::map<std::string, std::vector<float>>& means, std::set<std::string> required) {
        Calibration made{.header = std::move(header),
                         .scales = std::move(scales),
                         .alpha = alpha,
                         .required = std::move(required)};
        for (const auto& [name, numbers] : largest) made.channels[name].largest = numbers;
        for (const auto& [name, numbers] : means) made.channels[name].means = numbers;
        return calibration_text(made);
      },
      "The text of a calibration cache, of what read_calibration returns.");
  m.attr("RANGE_METHODS") =
      py::cast(std::vector<std::string>(kRangeMethods.begin(), kRangeMethods.end()));
  m.def("algorithm_of",
        [](const std::string& method) { return std::string(algorithm_of(method_of(method))); });
  m.def("header_of", [](const std::string& method) { return header_of(method_of(method)); });
  m.attr("INT8_STEPS") = kInt8Levels - 1;  // of the largest magnitude
  m.def("is_of_method", [](const std::string& header, const std::string& method) {
    return is_of_method(header, method_of(method));
  });
}

void bind_histogram(py::module_& m) {
  py::class_<Histogram>(m, "Histogram", "Of magnitudes (csrc/calibration/histogram.h).")
      .def_static("empty", [] { return Histogram(); })
      .def(
          "add",
          [](Histogram& histogram, uintptr_t address, size_t count) {
            histogram.add(elements_at(address, count));
          },
          py::call_guard<py::gil_scoped_release>(), "Counts float32 numbers at an address.")
      .def(
          "largest",
          [](const Histogram& histogram, const std::string& method, double percentile) {
            return histogram.largest(method_of(method), percentile);
          },
          py::call_guard<py::gil_scoped_release>())
      .def_readonly("counts", &Histogram::counts)
      .def_readonly("width", &Histogram::width)
      .def_readonly("amax", &Histogram::amax);
}

void bind_observations(py::module_& m) {
  py::class_<Observations>(m, "Observations",
                           "What a calibration has seen (csrc/calibration/observations.h).")
      .def_static(
          "empty", [](bool by_channels) { return Observations(by_channels); },
          py::arg("by_channels"))
      .def("copy", [](const Observations& seen) { return seen; })
      .def(
          "add",
          [](Observations& seen, const std::string& name, uintptr_t address,
             const std::vector<int64_t>& shape, int64_t channel_dim, bool is_product) {
            size_t count = 1;
            for (const int64_t size : shape) count *= static_cast<size_t>(size);
            seen.add(name, {elements_at(address, count), shape, channel_dim, is_product});
          },
          py::call_guard<py::gil_scoped_release>(), "Counts a dense float32 tensor at an address.")
      .def_property_readonly("by_channels", &Observations::by_channels)
      .def_property_readonly("names",
                             [](const Observations& seen) {
                               std::vector<std::string> names;
                               for (const SeenTensor& t : seen.tensors()) names.push_back(t.name);
                               return names;
                             })
      .def(
          "calibration",
          [](const Observations& seen, const std::string& method, double percentile,
             std::optional<float> smooth_quant, bool bias_correction) {
            const RangeChoice choice{method_of(method), percentile, smooth_quant, bias_correction};
            Calibration made;
            {
              py::gil_scoped_release no_gil;
              made = seen.calibration(choice);
            }
            return parts_of(made);
          },
          "As read_calibration returns it.")
      .def(
          "unfinished",
          [](const Observations& seen, const std::string& model, int64_t done) {
            return UnfinishedCalibration{model, done, seen}.text();
          },
          py::call_guard<py::gil_scoped_release>(),
          "The text of a file that keeps it, after so many batches of the model.");
  m.def(
      "read_unfinished",
      [](const std::string& text) {
        UnfinishedCalibration found = UnfinishedCalibration::read(text);
        return py::make_tuple(found.model, found.done, std::move(found.seen));
      },
      "(model, batches, Observations) of what `unfinished` returned.");
}

}  // namespace

void bind_calibration(py::module_& m) {
  bind_caches(m);
  bind_histogram(m);
  bind_observations(m);
}

}  // namespace tv::bindings
