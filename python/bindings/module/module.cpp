// The extension module `_C`: the compiler and the runtime as Python sees them.

#include "python/bindings/module/module.h"

#include "csrc/version.h"

PYBIND11_MODULE(_C, m) {
  m.attr("version") = tv::kBuilderVersion;
  m.attr("torch_version") = tv::bindings::kTorchVersion;
  m.doc() = "torch_vulkan's compiler and runtime.";
  tv::bindings::bind_errors(m);
  tv::bindings::bind_expr(m);
  tv::bindings::bind_graph(m);
  tv::bindings::bind_compile(m);
  tv::bindings::bind_calibration(m);
  tv::bindings::bind_cache(m);
  tv::bindings::bind_device(m);
  tv::bindings::bind_engine(m);
  tv::bindings::bind_report(m);
  tv::bindings::bind_onnx(m);
  tv::bindings::bind_graph_file(m);
}
