#include "csrc/settings.h"

#include "csrc/setting_values.h"

namespace tv {

Settings Settings::from_json(const std::string& text) {
  return settings_from_json<Settings>(text, "settings");
}

}  // namespace tv
