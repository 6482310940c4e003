#pragma once
// Engines on disk, found again by what their code depends on.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "csrc/cache/cache_settings.h"
#include "csrc/compile/compile.h"
#include "csrc/cost_model.h"

namespace tv {

/// What became of the engines that this process asked for. `reasons` tells why, by
/// "bypass: cache_built_engines and reuse_cached_engines are off" and the like.
struct EngineCacheStats {
  uint64_t hits = 0, misses = 0, bad = 0, bypassed = 0;
  uint64_t writes = 0, failed_writes = 0, evicted = 0;
  std::map<std::string, uint64_t> reasons;
};
EngineCacheStats engine_cache_stats();

/// Makes the cost model of a build; may give null, as for a device that is not of this machine.
using MakeCostModel = std::function<std::unique_ptr<CostModel>()>;

/// As compile(), but an engine of an equal graph, settings, device and program is taken from the
/// cache's directory, or else from the system's ($TORCH_VULKAN_SYSTEM_CACHE), and one that was
/// built is kept. Whatever is wrong with the cache, the engine is right: at worst it is
/// built. Dumps (settings.debug_dir) are of a build, so they bypass the cache. Thread-safe.
EngineSpec compile_cached(const Graph& graph, const Settings& settings, const DeviceProfile& device,
                          const CacheSettings& cache, const Progress& progress = nullptr,
                          const MakeCostModel& make_costs = nullptr);

}  // namespace tv
