// libFuzzer target over what reads kernels of unknown origin (runtime/spirv/guard.h). What it
// accepts and rewrites, it accepts again in the parts that a reader can see: the result is a module
// with every length right.

#include <cstdlib>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/spirv/guard.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint32_t> words(size / 4);
  if (!words.empty()) std::memcpy(words.data(), data, words.size() * 4);
  try {
    const std::vector<uint32_t> made = tv::guard_spirv(words, {.ranges = 3});
    for (size_t at = 5; at < made.size();) {
      const size_t count = made[at] >> 16;
      if (count == 0 || count > made.size() - at) std::abort();
      at += count;
    }
  } catch (const tv::Error&) {
  }
  return 0;
}
