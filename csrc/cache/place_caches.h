#pragma once

#include "csrc/cache/cache_settings.h"
#include "csrc/settings.h"

namespace tv {

/// Says where engines, compiled kernels (Settings::cache_dir) and the tuner's timings are kept,
/// unless the user has: in the user's cache, each where the settings permit it. Kernels, and with
/// them timings, are kept if they may be both read and written.
void place_caches(Settings& settings, CacheSettings& cache);

}  // namespace tv
