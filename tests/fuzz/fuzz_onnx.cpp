// libFuzzer target over the ONNX importer: what is no model, or a wrong one, is an Error and
// nothing else, in memory that is a small multiple of the file's.

#include <cstdlib>

#include "csrc/frontends/onnx/onnx_import.h"
#include "runtime/base/error.h"
#include "tests/fuzz/mutate_protobuf.h"

namespace {

void use(const tv::onnx::ImportedModel& model) {
  tv::check(model.graph, "import");
  for (const tv::onnx::Weight& weight : model.weights) {
    int64_t count = tv::size_bytes(weight.dtype);
    for (int64_t size : weight.shape) count *= size;
    const auto data = weight.load();
    if (static_cast<int64_t>(data.bytes.size()) != count) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const bool partial : {false, true}) {
    tv::onnx::ImportOptions options;
    options.partial = partial;
    try {
      use(tv::onnx::import_bytes({data, size}, options));
    } catch (const tv::Error& error) {
      // A graph that the importer made and `check` refuses is a bug.
      if (error.kind() == tv::ErrorKind::kInternal) std::abort();
    }
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  if (seed % 4 != 0) {
    if (const size_t made = tv::fuzz::OnnxMutator(seed).run(data, size, max_size)) return made;
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
