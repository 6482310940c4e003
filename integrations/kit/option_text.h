#pragma once
// Options of plugins: texts by name, most of which are settings of csrc/settings_table.h.

#include <map>
#include <string>
#include <vector>

#include "csrc/cache/cache_settings.h"
#include "csrc/cli/text/shapes.h"
#include "csrc/frontends/onnx/onnx_import.h"
#include "csrc/settings.h"
#include "runtime/base/json.h"

namespace tv {

[[noreturn]] void user_error(const std::string& message);

/// Throws Error(kUser): "KEY: got 'TEXT', want WANT".
[[noreturn]] void refuse_option(const std::string& key, const std::string& text,
                                const std::string& want);

/// "1", "true", "True", "0", "false" or "False".
bool option_flag(const std::string& key, const std::string& text);

/// What stands between commas, without what is empty.
std::vector<std::string> option_items(const std::string& text);

/// An option's text as the value of its setting, for read_setting.
Json setting_of_text(const SettingRow& row, const std::string& key, const std::string& text);

/// "unknown KIND 'KEY'; did you mean …?", or where they are listed.
[[noreturn]] void refuse_unknown(const std::string& kind, const std::string& key,
                                 const std::vector<std::string>& known, const std::string& page);

/// Ranges of inputs' sizes, as profile_min_shapes, profile_opt_shapes and profile_max_shapes give
/// them. Throws Error(kUser) where these differ in inputs or ranks, or are not ascending.
std::map<std::string, std::vector<onnx::DimRange>> profile_ranges(const cli::NamedShapes& min,
                                                                  const cli::NamedShapes& opt,
                                                                  const cli::NamedShapes& max);

/// Settings as the environment gives them, to be read before options.
void read_environment_settings(Settings& settings, CacheSettings& cache);

}  // namespace tv
