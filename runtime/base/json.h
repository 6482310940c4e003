#pragma once
// JSON of device profiles, settings and timings: read by nlohmann's parser into values of our own.
// (Arrays and objects of nlohmann's take memory when they are destroyed, which ends the process
// where there is none.)

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tv {

/// A JSON value. Whole numbers that fit are int64, others double.
struct Json {
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value;

  Json() = default;                                     // null
  Json(bool v) : value(v) {}                            // NOLINT: literals convert
  Json(int v) : value(static_cast<int64_t>(v)) {}       // NOLINT
  Json(uint32_t v) : value(static_cast<int64_t>(v)) {}  // NOLINT
  Json(int64_t v) : value(v) {}                         // NOLINT
  Json(double v) : value(v) {}                          // NOLINT
  Json(const char* v) : value(std::string(v)) {}        // NOLINT
  Json(std::string v) : value(std::move(v)) {}          // NOLINT
  Json(Array v) : value(std::move(v)) {}                // NOLINT
  Json(Object v) : value(std::move(v)) {}               // NOLINT
  bool operator==(const Json&) const = default;

  template <class T>
  const T* get() const {
    return std::get_if<T>(&value);
  }
  bool is_null() const { return std::holds_alternative<std::monostate>(value); }
  /// "null", "bool", "integer", "number", "string", "array" or "object", for messages.
  const char* type_name() const;

  /// Text on one line, or indented by two spaces a level. Numbers that are not finite become null,
  /// bytes that are not UTF-8 U+FFFD.
  std::string dump(bool indent = false) const;
  /// Text of any origin. What occurs twice in an object is refused, and so are nesting deeper than
  /// 64, numbers out of double's range and bytes that are not UTF-8. Throws Error(kUser) with the
  /// line; `what` names the text in the message.
  static Json parse(std::string_view text, std::string_view what = "json");
};

}  // namespace tv
