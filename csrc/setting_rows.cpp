#include "csrc/setting_rows.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace tv {
namespace {

template <typename T>
SettingDefault default_of(const T& value) {
  if constexpr (std::is_constructible_v<SettingDefault, T>) {
    return value;
  } else {
    return value.empty() ? SettingDefault() : throw Error(ErrorKind::kInternal, "a list's default");
  }
}

#define TV_ROW(scope_, kind_, name_, standard_, ...)                              \
  SettingRow{.name = #name_,                                                      \
             .kind = #kind_ + 1, /* without its k */                              \
             .scope = SettingScope::scope_,                                       \
             .standard = default_of<SettingValue<SettingKind::kind_>>(standard_), \
             __VA_ARGS__},
#define TV_COMPILER_SETTING(...) TV_ROW(kCompiler, __VA_ARGS__)
#define TV_CACHE_SETTING(...) TV_ROW(kCache, __VA_ARGS__)
#define TV_PYTHON_SETTING(...) TV_ROW(kPython, __VA_ARGS__)

const std::vector<SettingRow>& rows() {
  static const std::vector<SettingRow> table = {
#include "csrc/settings_table.h"
  };
  return table;
}

}  // namespace

std::span<const SettingRow> setting_rows() { return rows(); }

const SettingRow& setting_row(std::string_view name) {
  const auto found = std::ranges::find(rows(), name, &SettingRow::name);
  if (found == rows().end()) {
    throw Error(ErrorKind::kInternal, "[settings] no row for '" + std::string(name) + "'");
  }
  return *found;
}

}  // namespace tv
