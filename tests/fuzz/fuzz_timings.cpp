// libFuzzer target over the timing cache's file: whatever it holds, it is read or set aside, and
// what was read is written and read again.

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "csrc/tuner/timing_cache.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

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
  if (!found || found->us != 12.5) std::abort();
  for (const auto& entry : fs::directory_iterator(folder())) fs::remove(entry.path());
  return 0;
}
