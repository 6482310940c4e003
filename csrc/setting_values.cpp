#include "csrc/setting_values.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <regex>

#include "csrc/calibration/calibration.h"
#include "runtime/base/env.h"

namespace tv {
namespace {

[[noreturn]] void refuse(const SettingRow& row, const std::string& shown, const Json& got,
                         const std::string& want) {
  throw Error(ErrorKind::kUser, (shown.empty() ? std::string("setting ") + row.name : shown) +
                                    ": got " + got.dump() + ", want " + want);
}

void check_pattern(const SettingRow& row, const std::string& pattern, const std::string& shown) {
  try {
    const std::regex checked(pattern);
  } catch (const std::regex_error& error) {
    refuse(row, shown, Json(pattern), "a regular expression (" + std::string(error.what()) + ")");
  }
}

constexpr const char* kPrecisions = "names of float32, float16, bfloat16 and int8";

bool is_precision(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kI8;
}

}  // namespace

void check_written(const SettingRow& row, const Json& json, const std::string& shown) {
  const std::string_view kind = row.kind;
  const auto* items = json.get<Json::Array>();
  if (kind == "Precisions" && items && items->empty()) refuse(row, shown, json, kPrecisions);
  if (kind == "Nodes" && json.get<double>()) {
    refuse(row, shown, json, "a whole number from 1, or \"inf\"");
  }
}

Json setting_of_environment(const SettingRow& row) {
  if (!*row.variable) return {};
  const std::string text = env(row.variable);
  if (text.empty()) return {};
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end || value < row.low || value > row.high) {
    throw Error(ErrorKind::kUser, std::string("environment variable ") + row.variable + ": got '" +
                                      text + "', want " + std::to_string(row.low) + " to " +
                                      std::to_string(row.high));
  }
  return value;
}

void read_setting(const SettingRow& row, const Json& json, bool& into, const std::string& shown) {
  const bool* value = json.get<bool>();
  if (!value) refuse(row, shown, json, "true or false");
  into = *value;
}

void read_setting(const SettingRow& row, const Json& json, int64_t& into,
                  const std::string& shown) {
  const int64_t* value = json.get<int64_t>();
  if (!value || *value < row.low || *value > row.high) {
    const bool open = row.high == std::numeric_limits<int64_t>::max();
    refuse(row, shown, json,
           "an integer from " + std::to_string(row.low) +
               (open ? " up" : " to " + std::to_string(row.high)) +
               (*row.unit ? " (" + std::string(row.unit) + ")" : ""));
  }
  into = *value;
}

void read_setting(const SettingRow& row, const Json& json, double& into, const std::string& shown) {
  const auto* whole = json.get<int64_t>();
  const auto* number = json.get<double>();
  const double value = json == Json("inf") ? std::numeric_limits<double>::infinity()
                       : whole             ? static_cast<double>(*whole)
                       : number            ? *number
                                           : 0;
  if (!(value >= 1) || std::floor(value) != value) {
    refuse(row, shown, json, "a whole number from 1, or \"inf\"");
  }
  into = value;
}

void read_setting(const SettingRow& row, const Json& json, std::string& into,
                  const std::string& shown) {
  const auto* value = json.get<std::string>();
  if (!value) refuse(row, shown, json, "text");
  const bool is_calibration = row.kind == std::string_view("Calibration");
  if (is_calibration && !value->empty()) {
    read_calibration(*value, shown.empty() ? "the setting calibration" : shown);
  }
  into = *value;
}

void read_setting(const SettingRow& row, const Json& json, std::vector<std::string>& into,
                  const std::string& shown) {
  const auto* items = json.get<Json::Array>();
  if (!items) refuse(row, shown, json, "a list of names");
  into.clear();
  for (const Json& item : *items) read_setting(row, item, into.emplace_back(), shown);
  if (row.kind == std::string_view("Patterns")) {
    for (const std::string& pattern : into) check_pattern(row, pattern, shown);
  }
}

void read_setting(const SettingRow& row, const Json& json, std::vector<DType>& into,
                  const std::string& shown) {
  std::vector<std::string> names;
  read_setting(row, json, names, shown);
  into.clear();
  for (const std::string& dtype : names) {
    into.push_back(dtype_from_name(dtype));
    if (!is_precision(into.back())) refuse(row, shown, dtype, kPrecisions);
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
