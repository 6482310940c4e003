// Devices and their profiles.

#include "python/bindings/py_module.h"
#include "runtime/device.h"
#include "runtime/env.h"
#include "runtime/store.h"

namespace tv::bindings {

void bind_device(py::module_& m) {
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
      .def_property_readonly("type",
                             [](const DeviceProfile& p) {
                               switch (p.type) {
                                 case DeviceType::kIntegrated: return "integrated";
                                 case DeviceType::kDiscrete: return "discrete";
                                 case DeviceType::kVirtual: return "virtual";
                                 case DeviceType::kCpu: return "cpu";
                                 case DeviceType::kOther: break;
                               }
                               return "other";
                             })
      .def("runs_on", &DeviceProfile::runs_on)
      .def("tuned_for", &DeviceProfile::tuned_for);
  m.def("list_devices", &list_devices, py::call_guard<py::gil_scoped_release>());
  m.def(
      "device_profile",
      [](const std::string& spec) { return profile(*open_device(spec)); },
      "Opens the device that `spec` names and returns its profile.",
      py::call_guard<py::gil_scoped_release>());
  m.def("default_cache_dir", &default_cache_dir);
  m.def("env", [](const std::string& name) { return env(name); },
        "A variable of runtime/env.cpp's list; \"\" where it is not set.");
}

}  // namespace tv::bindings
