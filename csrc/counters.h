#pragma once
// How often this process did work that a cached engine saves. Counters only go up.

#include <atomic>
#include <cstdint>

namespace tv {

struct BuildCounters {
  std::atomic<uint64_t> engines{0};      ///< graphs compiled
  std::atomic<uint64_t> conversions{0};  ///< nodes given to their converter
  std::atomic<uint64_t> glslang{0};      ///< kernels compiled from GLSL
};

inline BuildCounters& build_counters() {
  static BuildCounters counters;
  return counters;
}

}  // namespace tv
