#pragma once
// The engine cache's settings, generated from the rows of settings_table.h.

#include <concepts>
#include <string>
#include <type_traits>

#include "csrc/setting_rows.h"

namespace tv {

struct CacheSettings {
#define TV_CACHE_SETTING(kind, name, standard, ...) SettingValue<SettingKind::kind> name = standard;
#include "csrc/settings_table.h"

  /// From a JSON object; an unknown field or a wrong type is an Error(kUser).
  static CacheSettings from_json(const std::string& text);
};

/// Calls f(row, member) for each setting; `settings` may be const.
template <typename S, typename F>
  requires std::same_as<std::remove_const_t<S>, CacheSettings>
void each_setting(S& settings, F&& f) {
#define TV_CACHE_SETTING(kind, name, ...) f(setting_row(#name), settings.name);
#include "csrc/settings_table.h"
}

}  // namespace tv
