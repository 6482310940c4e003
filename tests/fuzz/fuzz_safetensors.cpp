// libFuzzer target over the .safetensors reader; mutations are made in the header, whose length is
// put right, or in the data.

#include "csrc/frontends/safetensors.h"
#include "runtime/base/error.h"
#include "tests/fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tv::fuzz::MemoryFile file({data, size});
  try {
    for (const auto& [name, weight] : tv::read_safetensors(file.path()).tensors) {
      uint64_t bytes = static_cast<uint64_t>(tv::size_bytes(weight.dtype));
      for (const int64_t dim : weight.shape) bytes *= static_cast<uint64_t>(dim);
      if (weight.bytes.bytes.size() != bytes || bytes > size) std::abort();
      tv::fuzz::touch(weight.bytes.bytes);
    }
  } catch (const tv::Error& error) {
    if (error.kind() != tv::ErrorKind::kUser) std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return tv::fuzz::mutate_safetensors(data, size, max_size, seed);
}
