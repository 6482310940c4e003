// libFuzzer target over graph files: what is none, or a wrong one, is an Error and nothing else.
// Mutations are made in the header, whose length is put right, or in the data.

#include "csrc/frontends/graph_file/graph_file.h"
#include "csrc/frontends/graph_file/graph_text.h"
#include "runtime/base/error.h"
#include "tests/fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tv::fuzz::MemoryFile file({data, size});
  try {
    const tv::graph_file::Model model = tv::graph_file::read(file.path());
    const tv::Graph again = tv::graph_file::from_json(tv::graph_file::to_json(model.graph));
    if (tv::dump(again) != tv::dump(model.graph)) std::abort();
    for (const tv::Weight& weight : model.weights) tv::fuzz::touch(weight.load().bytes);
  } catch (const tv::Error& error) {
    if (error.kind() != tv::ErrorKind::kUser) std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return tv::fuzz::mutate_safetensors(data, size, max_size, seed);
}
