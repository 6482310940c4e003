#pragma once
// The settings as data: the rows of settings_table.h.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"

namespace tv {

/// The kind of a setting's value. Python's checks and the scripts know it by its name without the
/// k.
enum class SettingKind : uint8_t {
  kBool,
  kInteger,    ///< from SettingRow::low to high
  kBytes,      ///< the same, of memory
  kNodes,      ///< a whole number from 1, or infinity
  kOperators,  ///< "aten::relu" (every overload) or "aten::add.Tensor"
  kNames,
  kPatterns,    ///< regular expressions
  kPrecisions,  ///< dtypes; none: the model's own
  kText,
  kFile,         ///< a path; "": none
  kCalibration,  ///< the text of a calibration cache, which users name by its path; "": none
  kDirectory,
  // Only for settings of the Python package, which keeps their values.
  kOptionalBool,
  kDevice,
  kLowPrecision,  ///< a 16-bit dtype
  kFlagOrPath,
  kReport,  ///< the same, of a file in a folder that exists
};

template <SettingKind kKind>
auto setting_value() {
  using enum SettingKind;
  if constexpr (kKind == kBool || kKind == kFlagOrPath || kKind == kReport) {
    return bool{};
  } else if constexpr (kKind == kInteger || kKind == kBytes) {
    return int64_t{};
  } else if constexpr (kKind == kNodes) {
    return double{};
  } else if constexpr (kKind == kOperators || kKind == kNames || kKind == kPatterns) {
    return std::vector<std::string>{};
  } else if constexpr (kKind == kPrecisions) {
    return std::vector<DType>{};
  } else if constexpr (kKind == kText || kKind == kFile || kKind == kDirectory ||
                       kKind == kCalibration) {
    return std::string{};
  } else {
    return std::monostate{};
  }
}

/// The type of a kind's values in C++.
template <SettingKind kKind>
using SettingValue = decltype(setting_value<kKind>());

/// What reads a setting: the compiler (Settings), the engine cache (CacheSettings), or the Python
/// package alone.
enum class SettingScope : uint8_t { kCompiler, kCache, kPython };

/// A flag of vkexec that sets the setting.
struct SettingFlag {
  const char* name;  ///< "--fp16"
  const char* help;
  const char* sets = "";  ///< the value that it sets, as JSON; "": the flag takes a value
};

/// A default: none, or a value.
using SettingDefault = std::variant<std::monostate, bool, int64_t, double>;

struct SettingRow {
  const char* name;
  const char* kind;  ///< "Integer"
  SettingScope scope;
  SettingDefault standard;

  // Optional facts that a row of the table may state.
  int64_t low = 0, high = std::numeric_limits<int64_t>::max();
  const char* unit = "";      ///< printed with the range: "bytes"
  bool of_user = true;        ///< false: set by the program itself, and not documented
  bool in_key = true;         ///< part of the engine cache's key: an engine's code depends on it
  bool saved = false;         ///< stored with a saved program
  const char* variable = "";  ///< environment variable that sets the default in Python
  const char* section = "";   ///< the section of docs/settings.md that lists it
  const char* shown = "";     ///< how the page prints the default; "": as it is
  const char* help = "";      ///< its description in the page
  std::vector<SettingFlag> flags = {};
};

/// All settings, in the table's order.
std::span<const SettingRow> setting_rows();

/// The row of a setting. Throws Error(kInternal) if there is none of that name.
const SettingRow& setting_row(std::string_view name);

}  // namespace tv
