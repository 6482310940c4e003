#pragma once
// JSON of device profiles, settings, timings and reports: nlohmann's values, and how this project
// reads and writes them.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tv {

/// Objects are sorted by key.
using Json = nlohmann::json;

/// Text of any origin. Whole numbers that fit are int64, others double; what occurs twice in an
/// object is refused, and so is nesting deeper than 64. Throws Error(kUser) with the line; `what`
/// names the text in the message.
Json parse_json(std::string_view text, std::string_view what = "json");

/// The value as a T (bool, int64_t, double, std::string, Json::array_t, Json::object_t); null where
/// it is something else.
template <typename T>
const T* json_as(const Json& json) {
  return json.get_ptr<const T*>();
}

/// The field of an object; null if it has none, or `json` is no object.
inline const Json* json_field(const Json& json, std::string_view name) {
  const auto found = json.find(name);
  return found == json.end() ? nullptr : &*found;
}

/// Indented, `indent` spaces a level; -1: all on one line without spaces. Bytes that are no UTF-8
/// become U+FFFD: names come from files. Takes ordered_json too.
template <typename J>
std::string json_text(const J& json, int indent = 2) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, J::error_handler_t::replace);
}

/// On one line with spaces, {"a": 1, "b": [2, 3]}, as fingerprints and keys have always been
/// written: files hold them.
std::string json_line(const Json& json);

}  // namespace tv
