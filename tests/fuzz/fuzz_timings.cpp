// libFuzzer target over the timing cache's file: whatever it holds, it is read or set aside, and
// what was read is written and read again. A file that is not one of ours stays as it is.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "csrc/tuner/timing_cache.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "tests/fuzz/mutate_json.h"

namespace {

namespace fs = std::filesystem;

/// A folder of the process's own, under TMPDIR.
const fs::path& folder() {
  static const fs::path made = [] {
    std::string name = (fs::temp_directory_path() / "tv_fuzz_XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    return fs::path(name);
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::atexit([] {
    std::error_code ignored;
    fs::remove_all(folder(), ignored);
  });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fs::path path = folder() / "timings.json";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const tv::TimingKey key = {"device", "problem", "tactic", "kernels"};
  {
    tv::TimingCache cache(path.string());
    cache.put(key, {.us = 12.5});
    cache.save();
  }
  const tv::TimingCache again(path.string());
  const auto found = again.find(key);
  if (found && found->us != 12.5) std::abort();
  if (!found) {
    std::ifstream file(path, std::ios::binary);
    const std::string kept{std::istreambuf_iterator<char>(file), {}};
    if (kept != std::string(reinterpret_cast<const char*>(data), size)) std::abort();
  }
  for (const auto& entry : fs::directory_iterator(folder())) fs::remove(entry.path());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  if (seed % 4 != 0) {
    if (const size_t made = tv::fuzz::JsonMutator(seed).run(data, size, max_size)) return made;
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
