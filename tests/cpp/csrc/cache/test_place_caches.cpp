// Where engines, kernels and timings are kept.

#include <gtest/gtest.h>

#include "csrc/cache/place_caches.h"
#include "runtime/base/env.h"

namespace tv {
namespace {

TEST(PlaceCaches, InTheUsersCacheUnlessNamed) {
  Settings settings;
  CacheSettings cache;
  place_caches(settings, cache);
  EXPECT_EQ(cache.engine_cache_dir, default_cache_dir());
  EXPECT_EQ(settings.cache_dir, cache.engine_cache_dir);
  EXPECT_EQ(settings.timing_cache_path, settings.cache_dir + "/timings.json");

  Settings named{.timing_cache_path = "/t.json"};
  CacheSettings there{.engine_cache_dir = "/there"};
  place_caches(named, there);
  EXPECT_EQ(there.engine_cache_dir, "/there");
  EXPECT_EQ(named.cache_dir, "/there");
  EXPECT_EQ(named.timing_cache_path, "/t.json");
}

TEST(PlaceCaches, KernelsAreKeptIfBothReadAndWritten) {
  for (const auto& [built, reused] : {std::pair{true, false}, {false, true}, {false, false}}) {
    Settings settings;
    CacheSettings cache{.cache_built_engines = built,
                        .reuse_cached_engines = reused,
                        .engine_cache_dir = built || reused ? "" : "/there"};
    place_caches(settings, cache);
    EXPECT_EQ(settings.cache_dir, "");
    EXPECT_EQ(settings.timing_cache_path, "");
    EXPECT_EQ(cache.engine_cache_dir, built || reused ? default_cache_dir() : "/there");
  }
}

}  // namespace
}  // namespace tv
