#include "csrc/cache/cache_settings.h"

#include "csrc/setting_values.h"

namespace tv {

CacheSettings CacheSettings::from_json(const std::string& text) {
  return settings_from_json<CacheSettings>(text, "cache settings");
}

}  // namespace tv
