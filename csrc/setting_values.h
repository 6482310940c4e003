#pragma once
// Values of settings from JSON and back, by their rows.

#include <map>
#include <string>
#include <vector>

#include "csrc/setting_rows.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace tv {

/// Each reads a value and throws Error(kUser), with what is allowed, if it is invalid. Messages
/// begin with `shown`, where the value is from and the name that it has there; "": "setting " and
/// the row's name.
void read_setting(const SettingRow& row, const Json& json, bool& into,
                  const std::string& shown = "");
void read_setting(const SettingRow& row, const Json& json, int64_t& into,
                  const std::string& shown = "");
void read_setting(const SettingRow& row, const Json& json, double& into,
                  const std::string& shown = "");
void read_setting(const SettingRow& row, const Json& json, std::string& into,
                  const std::string& shown = "");
void read_setting(const SettingRow& row, const Json& json, std::vector<std::string>& into,
                  const std::string& shown = "");
void read_setting(const SettingRow& row, const Json& json, std::vector<DType>& into,
                  const std::string& shown = "");

template <typename T>
Json setting_json(const T& value) {
  return value;
}
inline Json setting_json(const std::vector<std::string>& value) {
  return Json::Array(value.begin(), value.end());
}
Json setting_json(const std::vector<DType>& value);

/// The fields of a JSON object. Throws Error(kUser).
Json::Object settings_object(const std::string& text, const std::string& what);

/// The value that the environment has for a setting of integers (SettingRow::variable); null: none.
/// Throws Error(kUser), which names the variable, for what is no value of the row's.
Json setting_of_environment(const SettingRow& row);

/// Settings that the environment gives, where none is given.
template <typename S>
void read_environment(S& settings) {
  each_setting(settings, [](const SettingRow& row, auto& member) {
    const Json value = setting_of_environment(row);
    if (!value.is_null()) read_setting(row, value, member);
  });
}

/// Throws Error(kUser) for a value that a file or an option may not have, although the program
/// itself may pass it: no precision, numbers of nodes with a point. `shown`: as of read_setting.
void check_written(const SettingRow& row, const Json& json, const std::string& shown);

/// Reads Settings or CacheSettings, called `what` in messages. An unknown field or an invalid value
/// is an Error(kUser).
template <typename S>
S settings_from_json(const std::string& text, const std::string& what) {
  Json::Object fields = settings_object(text, what);
  S settings;
  std::string names;
  each_setting(settings, [&](const SettingRow& row, auto& member) {
    names += (names.empty() ? "" : ", ") + std::string(row.name);
    if (const auto field = fields.extract(row.name)) read_setting(row, field.mapped(), member);
  });
  if (!fields.empty()) {
    throw Error(ErrorKind::kUser, "[" + what + "] unknown field '" + fields.begin()->first +
                                      "'; want one of " + names);
  }
  return settings;
}

}  // namespace tv
