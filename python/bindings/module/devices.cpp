// Devices and their profiles.

#include "csrc/cache/place_caches.h"
#include "python/bindings/module/module.h"
#include "runtime/base/env.h"
#include "runtime/cuda/device.h"
#include "runtime/vulkan/device.h"
#include "runtime/vulkan/device_memory.h"

namespace tv::bindings {
namespace {

const char* type_name(const DeviceProfile& profile) {
  switch (profile.type) {
    case DeviceType::kIntegrated:
      return "integrated";
    case DeviceType::kDiscrete:
      return "discrete";
    case DeviceType::kVirtual:
      return "virtual";
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kOther:
      break;
  }
  return "other";
}

void bind_profile(py::module_& m) {
  py::class_<DeviceProfile>(m, "DeviceProfile", "What the compiler knows of a device.")
      .def_static("from_json", &DeviceProfile::from_json)
      .def_static("builtin_default", [] { return DeviceProfile::builtin_default(); })
      .def("to_json", &DeviceProfile::to_json)
      .def_readonly("name", &DeviceProfile::name)
      .def_readonly("uuid", &DeviceProfile::uuid)
      .def_readonly("driver_name", &DeviceProfile::driver_name)
      .def_readonly("driver_info", &DeviceProfile::driver_info)
      .def_readonly("host_pointers", &DeviceProfile::host_pointers)
      .def_property_readonly("is_cpu", &DeviceProfile::is_cpu)
      .def_property_readonly("type", &type_name)
      .def("runs_on", &DeviceProfile::runs_on)
      .def("tuned_for", &DeviceProfile::tuned_for);
  m.def("list_devices", &list_devices, py::call_guard<py::gil_scoped_release>());
  m.def(
      "device_profile", [](const std::string& spec) { return profile(*open_device(spec)); },
      "Opens the device that `spec` names and returns its profile.",
      py::call_guard<py::gil_scoped_release>());
}

void bind_memory(py::module_& m) {
  m.def(
      "memory_stats",
      [](const std::string& spec) {
        const DeviceMemory held = memory_in_use(*open_device(spec));
        return std::map<std::string, int64_t>{{"arenas", held.arenas},
                                              {"weights", held.weights},
                                              {"slots", held.slots},
                                              {"staging", held.staging},
                                              {"shared", held.shared},
                                              {"other", held.other},
                                              {"all", held.all()},
                                              {"peak", held.peak},
                                              {"host_weights", held.host_weights}};
      },
      "Bytes that this process holds on the device.", py::call_guard<py::gil_scoped_release>());
  m.def(
      "reset_peak_memory", [](const std::string& spec) { reset_peak_memory(*open_device(spec)); },
      py::call_guard<py::gil_scoped_release>());
  m.def(
      "release_memory", [](const std::string& spec) { release_memory(*open_device(spec)); },
      py::call_guard<py::gil_scoped_release>());
}

void bind_cuda(py::module_& m) {
  m.def(
      "cuda_report", [](const std::string& spec) { return cuda_report(*open_device(spec)); },
      "What of CUDA works together with the device, one line a step.", py::arg("device") = "",
      py::call_guard<py::gil_scoped_release>());
  m.def(
      "cuda_counts",
      [](const std::string& spec) {
        const CudaCounts counts = cuda_counts(*open_device(spec));
        return std::map<std::string, uint64_t>{{"idle", counts.idle},
                                               {"polled", counts.polled},
                                               {"semaphores", counts.semaphores},
                                               {"imports", counts.imports}};
      },
      "How calls on CUDA tensors found their stream so far.", py::arg("device") = "");
  m.def(
      "cuda_finds",
      [](const std::string& spec, uint64_t address, int64_t size_bytes) {
        return cuda_finds(*open_device(spec), address, size_bytes);
      },
      "True where engines use these bytes of CUDA's in place.");
}

void bind_places(py::module_& m) {
  m.def("default_cache_dir", &default_cache_dir);
  m.def(
      "place_caches",
      [](const std::string& cache, const std::string& timings) {
        Settings settings{.timing_cache_path = timings};
        CacheSettings placed = CacheSettings::from_json(cache);
        place_caches(settings, placed);
        return py::make_tuple(placed.engine_cache_dir, settings.cache_dir,
                              settings.timing_cache_path);
      },
      "Where engines, kernels and timings are kept; \"\": nowhere (csrc/cache/place_caches.h).");
  m.def(
      "env", [](const std::string& name) { return env(name); },
      "A variable of runtime/base/env.cpp's list; \"\" where it is not set.");
}

}  // namespace

void bind_device(py::module_& m) {
  bind_profile(m);
  bind_memory(m);
  bind_cuda(m);
  bind_places(m);
}

}  // namespace tv::bindings
