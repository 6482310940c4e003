#pragma once
// The cache of engines on disk, by everything that their code depends on.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "csrc/cache/cache_settings.h"
#include "csrc/compile/compile.h"
#include "csrc/cost_model.h"

namespace tv {

/// Counts of the engines that this process asked for. `reasons` counts by reason, such as
/// "bypass: cache_built_engines and reuse_cached_engines are off".
struct EngineCacheStats {
  uint64_t hits = 0, misses = 0, bad = 0, bypassed = 0;
  uint64_t writes = 0, failed_writes = 0, evicted = 0;
  std::map<std::string, uint64_t> reasons;
};
EngineCacheStats engine_cache_stats();

/// Makes the cost model of a build; may return null, as for a device of another machine.
using MakeCostModel = std::function<std::unique_ptr<CostModel>()>;

/// As compile(), but takes an engine of an equal graph, settings, device and program from the
/// cache's directory, or else from the system's ($TORCH_VULKAN_SYSTEM_CACHE), and stores what it
/// built. Whatever is wrong with the cache, the engine is right: at worst it is built. Dumps
/// (settings.debug_dir) need a build, so they bypass the cache. Thread-safe.
EngineSpec compile_cached(const Graph& graph, const Settings& settings, const DeviceProfile& device,
                          const CacheSettings& cache, const Progress& progress = nullptr,
                          const MakeCostModel& make_costs = nullptr);

/// The tuned engine that compile_cached() would take from a cache; nothing where it would compile
/// one, and where the caches have no part in a build. Thread-safe.
std::optional<EngineSpec> find_cached(const Graph& graph, const Settings& settings,
                                      const DeviceProfile& device, const CacheSettings& cache);

}  // namespace tv
