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

/// What a setting may be. Its name without the k is what Python's checks and scripts go by.
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
  kFile,  ///< a path; "": none
  kDirectory,
  // Of the Python package alone, which keeps their values.
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
  } else if constexpr (kKind == kText || kKind == kFile || kKind == kDirectory) {
    return std::string{};
  } else {
    return std::monostate{};
  }
}

/// The type of a kind's values in C++.
template <SettingKind kKind>
using SettingValue = decltype(setting_value<kKind>());

/// Who reads a setting: the compiler (Settings), the engine cache (CacheSettings), or the Python
/// package alone.
enum class SettingScope : uint8_t { kCompiler, kCache, kPython };

/// A flag of vkexec's.
struct SettingFlag {
  const char* name;  ///< "--fp16"
  const char* help;
  const char* sets = "";  ///< what it stands for, as JSON; "": the flag takes a value
};

/// A default: none, or a value.
using SettingDefault = std::variant<std::monostate, bool, int64_t, double>;

struct SettingRow {
  const char* name;
  const char* kind;  ///< "Integer"
  SettingScope scope;
  SettingDefault standard;

  // What a row of the table says beside these.
  int64_t low = 0, high = std::numeric_limits<int64_t>::max();
  const char* unit = "";      ///< said with the range: "bytes"
  bool of_user = true;        ///< false: its value follows from others, it is in no page
  bool in_key = true;         ///< of the compiler's: the code of an engine depends on it
  bool saved = false;         ///< a saved program remembers it
  const char* variable = "";  ///< the environment's, which gives the default in Python
  const char* section = "";   ///< of docs/settings.md
  const char* shown = "";     ///< the default as the page has it; "": the value
  const char* help = "";
  std::vector<SettingFlag> flags = {};
};

/// All of them, in the table's order.
std::span<const SettingRow> setting_rows();

/// Throws Error(kInternal) for a name that is none.
const SettingRow& setting_row(std::string_view name);

}  // namespace tv
