#include "csrc/settings.h"

#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace tv {
namespace {

using nlohmann::json;

[[noreturn]] void bad(const std::string& field, const json& got, const std::string& want) {
  throw Error(ErrorKind::kUser, "[settings] " + field + ": got " + got.dump() + ", want " + want);
}

bool boolean(const std::string& field, const json& j) {
  if (!j.is_boolean()) bad(field, j, "true or false");
  return j.get<bool>();
}

int64_t integer(const std::string& field, const json& j, int64_t low, int64_t high) {
  if (j.is_number_integer() && !(j.is_number_unsigned() && j.get<uint64_t>() > INT64_MAX)) {
    const int64_t value = j.get<int64_t>();
    if (value >= low && value <= high) return value;
  }
  bad(field, j,
      "an integer from " + std::to_string(low) +
          (high == std::numeric_limits<int64_t>::max() ? "" : " to " + std::to_string(high)));
}

std::string text(const std::string& field, const json& j) {
  if (!j.is_string()) bad(field, j, "text");
  return j.get<std::string>();
}

std::vector<std::string> texts(const std::string& field, const json& j) {
  if (!j.is_array()) bad(field, j, "a list of names");
  std::vector<std::string> out;
  for (const json& item : j) out.push_back(text(field, item));
  return out;
}

double block_size(const std::string& field, const json& j) {
  if (j == "inf") return std::numeric_limits<double>::infinity();
  if (!j.is_number() || !(j.get<double>() >= 1)) bad(field, j, "a number from 1, or \"inf\"");
  return j.get<double>();
}

std::vector<DType> dtypes(const std::string& field, const json& j) {
  std::vector<DType> out;
  for (const std::string& dtype : texts(field, j)) {
    out.push_back(dtype_from_name(dtype));
    if (out.back() == DType::kOther) bad(field, dtype, "names of dtypes such as \"float16\"");
  }
  return out;
}

using Setter = std::function<void(Settings&, const std::string&, const json&)>;

Setter boolean_into(bool Settings::* member) {
  return [member](Settings& s, const std::string& f, const json& j) { s.*member = boolean(f, j); };
}

Setter text_into(std::string Settings::* member) {
  return [member](Settings& s, const std::string& f, const json& j) { s.*member = text(f, j); };
}

Setter integer_into(int64_t Settings::* member, int64_t low, int64_t high) {
  return [=](Settings& s, const std::string& f, const json& j) {
    s.*member = integer(f, j, low, high);
  };
}

const std::map<std::string, Setter>& setters() {
  using S = Settings;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  static const std::map<std::string, Setter> table = {
      {"min_block_size",
       [](S& s, const std::string& f, const json& j) { s.min_block_size = block_size(f, j); }},
      {"torch_executed_ops",
       [](S& s, const std::string& f, const json& j) { s.torch_executed_ops = texts(f, j); }},
      {"enabled_precisions",
       [](S& s, const std::string& f, const json& j) { s.enabled_precisions = dtypes(f, j); }},
      {"require_full_compilation", boolean_into(&S::require_full_compilation)},
      {"truncate_long_and_double", boolean_into(&S::truncate_long_and_double)},
      {"use_fp32_acc", boolean_into(&S::use_fp32_acc)},
      {"disable_tf32", boolean_into(&S::disable_tf32)},
      {"check_addresses", boolean_into(&S::check_addresses)},
      {"optimization_level", integer_into(&S::optimization_level, 0, 5)},
      {"workspace_size", integer_into(&S::workspace_size, 0, kMax)},
      {"debug_dir", text_into(&S::debug_dir)},
      {"cache_dir", text_into(&S::cache_dir)},
  };
  return table;
}

std::string allowed() {
  std::string out;
  for (const auto& [field, setter] : setters()) out += (out.empty() ? "" : ", ") + field;
  return out;
}

}  // namespace

Settings Settings::from_json(const std::string& text) {
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) throw Error(ErrorKind::kUser, "[settings] want a JSON object");
  Settings settings;
  for (const auto& [field, value] : parsed.items()) {
    const auto setter = setters().find(field);
    if (setter == setters().end()) {
      throw Error(ErrorKind::kUser,
                  "[settings] unknown field '" + field + "'; want one of " + allowed());
    }
    setter->second(settings, field, value);
  }
  return settings;
}

}  // namespace tv
