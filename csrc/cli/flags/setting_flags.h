#pragma once
// Flags of settings, by the rows of csrc/settings_table.h.

#include <cstdint>
#include <map>
#include <string>

#include "csrc/cache/cache_settings.h"
#include "csrc/settings.h"

namespace CLI {
class App;
}

namespace tv::cli {

/// A size in MiB that was meant in bytes, as TensorRT's API has it: 1 TiB.
inline constexpr int64_t kTooManyMebibytes = int64_t{1} << 20;

/// What the settings' flags said, until they are read.
struct SettingTexts {
  std::map<std::string, bool> switches;      ///< "--fp16"
  std::map<std::string, std::string> sizes;  ///< "--memPoolSize"
  std::map<std::string, std::string> files;  ///< "--calib", whose text is the setting
};

/// Adds every setting's flags; parsing writes into `settings`, `cache` and `texts`, which outlive
/// the parse.
void add_setting_flags(CLI::App& app, Settings& settings, CacheSettings& cache,
                       SettingTexts& texts);

/// Settings that the environment gives, of which no flag was given. Throws CommandError.
void read_environment_without_flags(const CLI::App& app, Settings& settings);

/// What the flags that have a grammar of their own said. Throws CommandError.
void read_setting_flags(const SettingTexts& texts, Settings& settings, CacheSettings& cache);

/// Of which pools of --memPoolSize the size changes nothing, and why; "": of none. Throws
/// CommandError.
std::string idle_pools(const SettingTexts& texts);

/// The text of a calibration cache. Throws CommandError, naming the flag or key.
std::string calibration_of(const std::string& flag, const std::string& path);

/// Validators: "" for a path that is none of them.
std::string is_no_directory(const std::string& path);
std::string is_no_file(const std::string& path);

/// Throws CommandError for a text that is not a number.
double number(const std::string& flag, const std::string& text);

}  // namespace tv::cli
