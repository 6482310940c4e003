#include "runtime/base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"

namespace tv {

namespace {

constexpr size_t kMaxDepth = 64;

/// The text as the parser takes it; writes how far that is, for messages.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  const char* at;
  const char** taken;

  // A zero would end the text there, whatever comes behind it; 1 is no part of JSON either.
  char operator*() const { return *at == '\0' ? '\1' : *at; }
  Cursor& operator++() {
    *taken = ++at;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
};

/// Puts together the value whose parts nlohmann's parser calls out. It makes no value of its own,
/// and has no limits.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Reader(std::string_view text, std::string_view what)
      : text_(text), what_(what), taken_(text.data()) {}

  Json document() {
    const Cursor begin{text_.data(), &taken_}, end{text_.data() + text_.size(), &taken_};
    nlohmann::json::sax_parse(begin, end, this);
    return std::move(document_);
  }

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override {
    const bool fits = value <= std::numeric_limits<int64_t>::max();
    return add(fits ? Json(static_cast<int64_t>(value)) : Json(static_cast<double>(value)));
  }
  bool number_float(double value, const std::string& digits) override {
    const bool has_digit = digits.find_first_of("123456789") < digits.find_first_of("eE");
    if (value == 0 && has_digit) fail("a number is out of range");
    return add(value);
  }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) override { fail("bytes"); }  // no text has them

  bool start_object(size_t) override { return open(Json::Object()); }
  bool start_array(size_t) override { return open(Json::Array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    const auto& object = *open_.back()->get<Json::Object>();
    if (object.contains(name)) fail("\"" + name + "\" occurs twice");
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    if (error.id == 406) fail("a number is out of range");
    // "[json.exception…] parse error at line 3, column 1: …; last read: '…'; expected …"
    const std::string_view text = error.what();
    const std::string_view why = text.substr(text.find(": ") + 2);
    fail(std::string(why.substr(0, why.find("; last read: '"))));
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    // The last character taken is part of what is wrong, unless it is the one behind a number.
    const char* end = taken_ == text_.data() ? taken_ : taken_ - 1;
    const auto line = 1 + std::count(text_.data(), end, '\n');
    throw Error(ErrorKind::kUser, "[" + std::string(what_) + "] not valid JSON, line " +
                                      std::to_string(line) + ": " + why);
  }

  Json& put(Json value) {
    if (open_.empty()) return document_ = std::move(value);
    Json& parent = *open_.back();
    if (auto* array = std::get_if<Json::Array>(&parent.value)) {
      return array->emplace_back(std::move(value));
    }
    auto& object = std::get<Json::Object>(parent.value);
    return object.emplace(std::move(key_), std::move(value)).first->second;
  }

  bool add(Json value) {
    put(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() == kMaxDepth) fail("nested too deeply");
    open_.push_back(&put(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_, what_;
  const char* taken_;  ///< the end of what the parser has taken
  Json document_;
  std::vector<Json*> open_;  ///< the arrays and objects that the text is in
  std::string key_;
};

/// Bytes that are not UTF-8 become U+FFFD: what is written can be read again.
void write_string(const std::string& text, std::string& out) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write_number(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  const std::string_view text(buffer, static_cast<size_t>(result.ptr - buffer));
  out += text;
  // Keeps a double a double when it is read again.
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void write(const Json& json, bool indent, size_t level, std::string& out) {
  const auto newline = [&](size_t to) {
    if (indent) out.append("\n").append(2 * to, ' ');
  };
  if (json.is_null()) out += "null";
  if (const auto* b = json.get<bool>()) out += *b ? "true" : "false";
  if (const auto* i = json.get<int64_t>()) out += std::to_string(*i);
  if (const auto* d = json.get<double>()) write_number(*d, out);
  if (const auto* s = json.get<std::string>()) write_string(*s, out);
  if (const auto* array = json.get<Json::Array>()) {
    out += '[';
    for (size_t i = 0; i < array->size(); ++i) {
      if (i) out += indent ? "," : ", ";
      newline(level + 1);
      write((*array)[i], indent, level + 1, out);
    }
    if (!array->empty()) newline(level);
    out += ']';
  }
  if (const auto* object = json.get<Json::Object>()) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : *object) {
      if (!first) out += indent ? "," : ", ";
      first = false;
      newline(level + 1);
      write_string(key, out);
      out += ": ";
      write(item, indent, level + 1, out);
    }
    if (!first) newline(level);
    out += '}';
  }
}

}  // namespace

const char* Json::type_name() const {
  constexpr const char* kNames[] = {"null",   "bool",  "integer", "number",
                                    "string", "array", "object"};
  return kNames[value.index()];
}

std::string Json::dump(bool indent) const {
  std::string out;
  write(*this, indent, 0, out);
  return out;
}

Json Json::parse(std::string_view text, std::string_view what) {
  return Reader(text, what).document();
}

}  // namespace tv
