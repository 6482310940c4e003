#include "csrc/setting_values.h"

#include <limits>
#include <regex>

#include "csrc/calibration.h"

namespace tv {
namespace {

[[noreturn]] void refuse(const SettingRow& row, const Json& got, const std::string& want) {
  throw Error(ErrorKind::kUser,
              std::string("[settings] ") + row.name + ": got " + got.dump() + ", want " + want);
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
  const bool* value = json.get<bool>();
  if (!value) refuse(row, json, "true or false");
  into = *value;
}

void read_setting(const SettingRow& row, const Json& json, int64_t& into) {
  const int64_t* value = json.get<int64_t>();
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
  const auto* whole = json.get<int64_t>();
  const auto* number = json.get<double>();
  const double value = json == Json("inf") ? std::numeric_limits<double>::infinity()
                       : whole             ? static_cast<double>(*whole)
                       : number            ? *number
                                           : 0;
  if (!(value >= 1)) refuse(row, json, "a number from 1, or \"inf\"");
  into = value;
}

void read_setting(const SettingRow& row, const Json& json, std::string& into) {
  const auto* value = json.get<std::string>();
  if (!value) refuse(row, json, "text");
  const bool is_calibration = row.kind == std::string_view("Calibration");
  if (is_calibration && !value->empty()) read_calibration(*value, "the setting calibration");
  into = *value;
}

void read_setting(const SettingRow& row, const Json& json, std::vector<std::string>& into) {
  const auto* items = json.get<Json::Array>();
  if (!items) refuse(row, json, "a list of names");
  into.clear();
  for (const Json& item : *items) read_setting(row, item, into.emplace_back());
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
  Json::Array names;
  for (const DType dtype : value) names.push_back(std::string(name(dtype)));
  return names;
}

Json::Object settings_object(const std::string& text, const std::string& what) {
  const Json parsed = Json::parse(text, what);
  const auto* fields = parsed.get<Json::Object>();
  if (!fields) throw Error(ErrorKind::kUser, "[" + what + "] want a JSON object");
  return *fields;
}

}  // namespace tv
