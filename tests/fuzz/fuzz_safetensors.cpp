// libFuzzer target over the .safetensors reader; mutations are made in the header, whose length is
// put right, or in the data.

#include <cstring>
#include <random>

#include "csrc/cli/safetensors.h"
#include "runtime/base/error.h"
#include "tests/fuzz/fuzz_file.h"

namespace {

constexpr size_t kLengthBytes = 8;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tv::fuzz::MemoryFile file({data, size});
  try {
    for (const auto& [name, weight] : tv::cli::read_safetensors(file.path())) {
      uint64_t bytes = static_cast<uint64_t>(tv::size_bytes(weight.dtype));
      for (const int64_t dim : weight.shape) bytes *= static_cast<uint64_t>(dim);
      if (weight.bytes.bytes.size() != bytes || bytes > size) std::abort();
      uint8_t sum = 0;
      for (const uint8_t byte : weight.bytes.bytes) sum ^= byte;
      volatile uint8_t read = sum;
      (void)read;
    }
  } catch (const tv::Error& error) {
    if (error.kind() != tv::ErrorKind::kUser) std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  uint64_t length = 0;
  if (size > kLengthBytes) std::memcpy(&length, data, kLengthBytes);
  if (std::minstd_rand(seed)() % 8 == 0 || length == 0 || length > size - kLengthBytes) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const auto made = tv::fuzz::mutate_header(data, size, max_size, kLengthBytes, length);
  if (made.size == 0) return LLVMFuzzerMutate(data, size, max_size);
  length = made.length;
  std::memcpy(data, &length, kLengthBytes);
  return made.size;
}
