#pragma once
// What the engine cache reads of the user's settings.

#include <cstdint>
#include <string>

namespace tv {

struct CacheSettings {
  std::string dir;                       ///< engine_cache_dir; "": none
  bool read = true, write = true;        ///< reuse_cached_engines, cache_built_engines
  int64_t max_bytes = int64_t{5} << 30;  ///< engine_cache_size
  std::string weights_digest;            ///< of immutable weights; "" for others

  /// From a JSON object with the names of the settings; an unknown one or a wrong type is an
  /// Error(kUser).
  static CacheSettings from_json(const std::string& text);
};

}  // namespace tv
