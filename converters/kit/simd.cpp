#include "converters/kit/simd.h"

namespace tv {

std::string simd_refusal(const DeviceProfile& device) {
  if (!device.is_cpu()) return "the device is not a CPU";
  if (!device.int64) return "the device has no 64-bit integers";
  if (device.subgroup_size != 8 && device.subgroup_size != 16) {
    return "subgroups of " + std::to_string(device.subgroup_size) + " lanes; 8 or 16 are wanted";
  }
  return "";
}

std::string simd_uniform(const Graph& graph, const Expr& count) {
  const int64_t most = count.bounds(graph.symbols).second;
  return most <= 1 << 9    ? "simd_uniform_small"
         : most <= 1 << 15 ? "tv_uniform"
         : most <= 1 << 18 ? "simd_uniform"
                           : "simd_uniform_large";
}

}  // namespace tv
