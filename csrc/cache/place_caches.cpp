#include "csrc/cache/place_caches.h"

#include "runtime/base/env.h"

namespace tv {

void place_caches(Settings& settings, CacheSettings& cache) {
  const bool any = cache.cache_built_engines || cache.reuse_cached_engines;
  if (any && cache.engine_cache_dir.empty()) cache.engine_cache_dir = default_cache_dir();
  if (cache.cache_built_engines && cache.reuse_cached_engines) {
    settings.cache_dir = cache.engine_cache_dir;
  }
  if (settings.timing_cache_path.empty() && !settings.cache_dir.empty()) {
    settings.timing_cache_path = settings.cache_dir + "/timings.json";
  }
}

}  // namespace tv
