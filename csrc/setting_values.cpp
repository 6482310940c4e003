#include "csrc/setting_values.h"

#include <limits>
#include <regex>

namespace tv {
namespace {

[[noreturn]] void refuse(const SettingRow& row, const Json& got, const std::string& want) {
  throw Error(ErrorKind::kUser,
              std::string("[settings] ") + row.name + ": got " + json_line(got) + ", want " + want);
}

void check_pattern(const SettingRow& row, const std::string& pattern) {
  try {
    const std::regex checked(pattern);
  } catch (const std::regex_error& error) {
    refuse(row, Json(pattern), "a regular expression (" + std::string(error.what()) + ")");
  }
}

}  // namespace

void read_setting(const SettingRow& row, const Json& json, bool& into) {
  const bool* value = json_as<bool>(json);
  if (!value) refuse(row, json, "true or false");
  into = *value;
}

void read_setting(const SettingRow& row, const Json& json, int64_t& into) {
  const int64_t* value = json_as<int64_t>(json);
  if (!value || *value < row.low || *value > row.high) {
    const bool open = row.high == std::numeric_limits<int64_t>::max();
    refuse(row, json,
           "an integer from " + std::to_string(row.low) +
               (open ? " up" : " to " + std::to_string(row.high)) +
               (*row.unit ? " (" + std::string(row.unit) + ")" : ""));
  }
  into = *value;
}

void read_setting(const SettingRow& row, const Json& json, double& into) {
  const auto* whole = json_as<int64_t>(json);
  const auto* number = json_as<double>(json);
  const double value = json == "inf" ? std::numeric_limits<double>::infinity()
                       : whole       ? static_cast<double>(*whole)
                       : number      ? *number
                                     : 0;
  if (!(value >= 1)) refuse(row, json, "a number from 1, or \"inf\"");
  into = value;
}

void read_setting(const SettingRow& row, const Json& json, std::string& into) {
  const auto* value = json_as<std::string>(json);
  if (!value) refuse(row, json, "text");
  into = *value;
}

void read_setting(const SettingRow& row, const Json& json, std::vector<std::string>& into) {
  if (!json.is_array()) refuse(row, json, "a list of names");
  into.clear();
  for (const Json& item : json) read_setting(row, item, into.emplace_back());
  if (row.kind == std::string_view("Patterns")) {
    for (const std::string& pattern : into) check_pattern(row, pattern);
  }
}

void read_setting(const SettingRow& row, const Json& json, std::vector<DType>& into) {
  std::vector<std::string> names;
  read_setting(row, json, names);
  into.clear();
  for (const std::string& dtype : names) {
    into.push_back(dtype_from_name(dtype));
    if (into.back() == DType::kOther) refuse(row, dtype, "names of dtypes such as \"float16\"");
  }
}

Json setting_json(const std::vector<DType>& value) {
  Json names = Json::array();
  for (const DType dtype : value) names.push_back(std::string(name(dtype)));
  return names;
}

Json::object_t settings_object(const std::string& text, const std::string& what) {
  Json parsed = parse_json(text, what);
  if (!parsed.is_object()) throw Error(ErrorKind::kUser, "[" + what + "] want a JSON object");
  return std::move(parsed.get_ref<Json::object_t&>());
}

}  // namespace tv
