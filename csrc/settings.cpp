#include "csrc/settings.h"

#include <functional>
#include <limits>
#include <map>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace tv {
namespace {

[[noreturn]] void bad(const std::string& field, const Json& got, const std::string& want) {
  throw Error(ErrorKind::kUser, "[settings] " + field + ": got " + got.dump() + ", want " + want);
}

bool boolean(const std::string& field, const Json& j) {
  if (const bool* value = j.get<bool>()) return *value;
  bad(field, j, "true or false");
}

int64_t integer(const std::string& field, const Json& j, int64_t low, int64_t high) {
  const int64_t* value = j.get<int64_t>();
  if (value && *value >= low && *value <= high) return *value;
  bad(field, j,
      "an integer from " + std::to_string(low) +
          (high == std::numeric_limits<int64_t>::max() ? "" : " to " + std::to_string(high)));
}

std::string text(const std::string& field, const Json& j) {
  if (const auto* value = j.get<std::string>()) return *value;
  bad(field, j, "text");
}

std::vector<std::string> texts(const std::string& field, const Json& j) {
  const auto* items = j.get<Json::Array>();
  if (!items) bad(field, j, "a list of names");
  std::vector<std::string> out;
  for (const Json& item : *items) out.push_back(text(field, item));
  return out;
}

double block_size(const std::string& field, const Json& j) {
  if (j == Json("inf")) return std::numeric_limits<double>::infinity();
  const auto* whole = j.get<int64_t>();
  const auto* number = j.get<double>();
  const double value = whole ? static_cast<double>(*whole) : number ? *number : 0;
  if (!(value >= 1)) bad(field, j, "a number from 1, or \"inf\"");
  return value;
}

std::vector<DType> dtypes(const std::string& field, const Json& j) {
  std::vector<DType> out;
  for (const std::string& dtype : texts(field, j)) {
    out.push_back(dtype_from_name(dtype));
    if (out.back() == DType::kOther) bad(field, dtype, "names of dtypes such as \"float16\"");
  }
  return out;
}

using Setter = std::function<void(Settings&, const std::string&, const Json&)>;

Setter boolean_into(bool Settings::*member) {
  return [member](Settings& s, const std::string& f, const Json& j) { s.*member = boolean(f, j); };
}

Setter text_into(std::string Settings::*member) {
  return [member](Settings& s, const std::string& f, const Json& j) { s.*member = text(f, j); };
}

Setter integer_into(int64_t Settings::*member, int64_t low, int64_t high) {
  return [=](Settings& s, const std::string& f, const Json& j) {
    s.*member = integer(f, j, low, high);
  };
}

const std::map<std::string, Setter>& setters() {
  using S = Settings;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  static const std::map<std::string, Setter> table = {
      {"min_block_size",
       [](S& s, const std::string& f, const Json& j) { s.min_block_size = block_size(f, j); }},
      {"switch_nodes",
       [](S& s, const std::string& f, const Json& j) { s.switch_nodes = block_size(f, j); }},
      {"torch_executed_ops",
       [](S& s, const std::string& f, const Json& j) { s.torch_executed_ops = texts(f, j); }},
      {"tactics",
       [](S& s, const std::string& f, const Json& j) { s.tactics = texts(f, j); }},
      {"enabled_precisions",
       [](S& s, const std::string& f, const Json& j) { s.enabled_precisions = dtypes(f, j); }},
      {"require_full_compilation", boolean_into(&S::require_full_compilation)},
      {"truncate_long_and_double", boolean_into(&S::truncate_long_and_double)},
      {"use_fp32_acc", boolean_into(&S::use_fp32_acc)},
      {"disable_tf32", boolean_into(&S::disable_tf32)},
      {"check_addresses", boolean_into(&S::check_addresses)},
      {"check_indices", boolean_into(&S::check_indices)},
      {"optimization_level", integer_into(&S::optimization_level, 0, 5)},
      {"workspace_size", integer_into(&S::workspace_size, 0, kMax)},
      {"debug_dir", text_into(&S::debug_dir)},
      {"cache_dir", text_into(&S::cache_dir)},
      {"timing_cache_path", text_into(&S::timing_cache_path)},
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
  const Json parsed = Json::parse(text, "settings");
  const auto* fields = parsed.get<Json::Object>();
  if (!fields) throw Error(ErrorKind::kUser, "[settings] want a JSON object");
  Settings settings;
  for (const auto& [field, value] : *fields) {
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
