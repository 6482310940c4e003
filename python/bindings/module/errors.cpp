// Error kinds as Python exceptions.

#include "python/bindings/module/module.h"
#include "runtime/base/error.h"
#include "runtime/vulkan/device_lost.h"

namespace tv::bindings {
namespace {

// Created once and kept for the life of the process: translators run until its end.
PyObject* unsupported_error = nullptr;
PyObject* device_error = nullptr;

/// PyTorch's exception of this name, or `other` in a process that has not loaded PyTorch.
PyObject* torchs_error(PyObject*& found, const char* name, PyObject* other) {
  if (found != nullptr) return found;
  PyObject* torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  if (torch != nullptr) found = PyObject_GetAttrString(torch, name);
  if (found == nullptr) PyErr_Clear();
  return found != nullptr ? found : other;
}

PyObject* out_of_memory_error() {
  static PyObject* found = nullptr;
  return torchs_error(found, "OutOfMemoryError", PyExc_MemoryError);
}

PyObject* device_lost_error() {
  static PyObject* found = nullptr;
  return torchs_error(found, "AcceleratorError", device_error);
}

PyObject* new_exception(py::module_& m, const char* name, const char* doc) {
  const std::string full_name = std::string("torch_vulkan.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full_name.c_str(), doc, PyExc_RuntimeError, nullptr);
  if (type == nullptr) throw py::error_already_set();
  m.attr(name) = py::reinterpret_borrow<py::object>(type);
  return type;
}

}  // namespace

void bind_errors(py::module_& m) {
  unsupported_error =
      new_exception(m, "UnsupportedError", "torch_vulkan cannot do this; PyTorch itself can.");
  device_error = new_exception(m, "DeviceError", "The driver or the device failed.");
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const BadValueError& error) {
      const bool index = error.reason() == BadValueError::What::kIndex;
      PyErr_SetString(index ? PyExc_IndexError : PyExc_RuntimeError, error.what());
    } catch (const OutOfMemoryError& error) {
      PyErr_SetString(out_of_memory_error(), error.what());
    } catch (const DeviceLostError& error) {
      PyErr_SetString(device_lost_error(), error.what());
    } catch (const Error& error) {
      switch (error.kind()) {
        case ErrorKind::kUser:
          PyErr_SetString(PyExc_ValueError, error.what());
          break;
        case ErrorKind::kUnsupported:
          PyErr_SetString(unsupported_error, error.what());
          break;
        case ErrorKind::kDevice:
          PyErr_SetString(device_error, error.what());
          break;
        case ErrorKind::kInternal: {
          const std::string text =
              std::string(error.what()) + " (a bug in torch_vulkan: please report it)";
          PyErr_SetString(PyExc_RuntimeError, text.c_str());
          break;
        }
      }
    }
  });
}

}  // namespace tv::bindings
