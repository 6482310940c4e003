// libFuzzer target over the .npy reader; mutations are made in the header, whose length is put
// right, or in the data.

#include <algorithm>
#include <random>

#include "csrc/cli/tensors/npy.h"
#include "runtime/base/error.h"
#include "tests/fuzz/fuzz_file.h"

namespace {

constexpr size_t kHeaderAt = 10;  // of format 1

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tv::fuzz::MemoryFile file({data, size});
  for (const tv::DType want : {tv::DType::kOther, tv::DType::kBF16}) {
    try {
      const tv::cli::Tensor tensor = tv::cli::read_npy(file.path(), want);
      // No reader makes more of a file than it holds.
      if (static_cast<size_t>(tensor.bytes.size_bytes()) > size) std::abort();
    } catch (const tv::Error& error) {
      if (error.kind() != tv::ErrorKind::kUser) std::abort();
    }
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  const size_t length = size > kHeaderAt ? data[8] | size_t{data[9]} << 8 : 0;
  if (std::minstd_rand(seed)() % 8 == 0 || length == 0 || length > size - kHeaderAt) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const auto made = tv::fuzz::mutate_header(data, size, std::min(max_size, kHeaderAt + 0xFFFF),
                                            kHeaderAt, length);
  if (made.size == 0) return LLVMFuzzerMutate(data, size, max_size);
  data[8] = static_cast<uint8_t>(made.length);
  data[9] = static_cast<uint8_t>(made.length >> 8);
  return made.size;
}
