#include "csrc/cache/cache_settings.h"

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace tv {
namespace {

template <typename T>
bool take(const Json& json, T& into) {
  const T* value = json.get<T>();
  if (value) into = *value;
  return value != nullptr;
}

}  // namespace

CacheSettings CacheSettings::from_json(const std::string& text) {
  const Json parsed = Json::parse(text, "cache settings");
  const auto* fields = parsed.get<Json::Object>();
  if (!fields) throw Error(ErrorKind::kUser, "[cache settings] want a JSON object");
  CacheSettings s;
  for (const auto& [field, value] : *fields) {
    const bool good = field == "engine_cache_dir"       ? take(value, s.dir)
                      : field == "reuse_cached_engines" ? take(value, s.read)
                      : field == "cache_built_engines"  ? take(value, s.write)
                      : field == "engine_cache_size"    ? take(value, s.max_bytes)
                      : field == "weights_digest"       ? take(value, s.weights_digest)
                                                        : false;
    if (!good || s.max_bytes < 1)
      throw Error(ErrorKind::kUser, "[cache settings] " + field + ": got " + value.dump());
  }
  return s;
}

}  // namespace tv
