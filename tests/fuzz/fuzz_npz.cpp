// libFuzzer target over the reader of .npz files: the directory, and each array that it names.

#include <cstdlib>

#include "csrc/cli/tensors/npz.h"
#include "runtime/base/error.h"
#include "tests/fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMostRatio = 1200;  // of what deflate can do
  const tv::fuzz::MemoryFile file({data, size});
  try {
    const tv::cli::Npz archive(file.path());
    for (const std::string& name : archive.names()) {
      try {
        const std::vector<uint8_t> array = archive.array(name);
        if (array.size() > (size + 1) * kMostRatio) std::abort();
        tv::fuzz::touch(array);
      } catch (const tv::Error& error) {
        if (error.kind() != tv::ErrorKind::kUser) std::abort();
      }
    }
  } catch (const tv::Error& error) {
    if (error.kind() != tv::ErrorKind::kUser) std::abort();
  }
  return 0;
}
