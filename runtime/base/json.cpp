#include "runtime/base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/base/error.h"

namespace tv {

namespace {

constexpr int kMaxDepth = 64;

class Parser {
 public:
  Parser(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  Json document() {
    Json result = value(0);
    skip_space();
    if (at_ != text_.size()) fail("unexpected text after the value");
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at_), '\n');
    throw Error(ErrorKind::kUser, "[" + std::string(what_) + "] not valid JSON, line " +
                                      std::to_string(line) + ": " + why);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }

  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  void expect(char c) {
    if (peek() != c) fail(std::string("'") + c + "' is missing");
    ++at_;
  }

  Json value(int depth) {
    if (depth > kMaxDepth) fail("nested too deeply");
    skip_space();
    switch (peek()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return string();
      default:
        break;
    }
    if (take("null")) return {};
    if (take("true")) return true;
    if (take("false")) return false;
    if (take("NaN")) return std::numeric_limits<double>::quiet_NaN();
    if (take("Infinity")) return std::numeric_limits<double>::infinity();
    if (take("-Infinity")) return -std::numeric_limits<double>::infinity();
    return number();
  }

  Json object(int depth) {
    Json::Object result;
    expect('{');
    skip_space();
    if (take("}")) return result;
    while (true) {
      skip_space();
      std::string key = string();
      skip_space();
      expect(':');
      Json item = value(depth + 1);
      if (!result.emplace(key, std::move(item)).second) fail("\"" + key + "\" occurs twice");
      skip_space();
      if (take("}")) return result;
      expect(',');
    }
  }

  Json array(int depth) {
    Json::Array result;
    expect('[');
    skip_space();
    if (take("]")) return result;
    while (true) {
      result.push_back(value(depth + 1));
      skip_space();
      if (take("]")) return result;
      expect(',');
    }
  }

  uint32_t hex4() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4)
      fail("\\u wants four hexadecimal digits");
    at_ += 4;
    return code;
  }

  void unicode_escape(std::string& out) {
    uint32_t code = hex4();
    if (code >= 0xD800 && code < 0xDC00) {
      if (!take("\\u")) fail("half a surrogate pair");
      const uint32_t low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) fail("half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      fail("half a surrogate pair");
    }
    if (code < 0x80) {
      out += static_cast<char>(code);
      return;
    }
    const int continuation = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    const uint32_t lead = continuation == 1 ? 0xC0 : continuation == 2 ? 0xE0 : 0xF0;
    out += static_cast<char>(lead | (code >> (6 * continuation)));
    for (int i = continuation - 1; i >= 0; --i)
      out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F));
  }

  std::string string() {
    expect('"');
    std::string out;
    while (true) {
      if (at_ >= text_.size()) fail("a string does not end");
      const char c = text_[at_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
      if (c != '\\') {
        out += c;
        continue;
      }
      const char escape = peek();
      ++at_;
      constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
      const size_t which = escape ? kFrom.find(escape) : std::string_view::npos;
      if (which != std::string_view::npos) {
        out += kTo[which];
      } else if (escape == 'u') {
        unicode_escape(out);
      } else {
        --at_;
        fail("unknown escape in a string");
      }
    }
  }

  void digits() {
    const size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    if (at_ == start)
      fail(start < text_.size() ? "a value is expected" : "the text ends too early");
  }

  Json number() {
    const size_t start = at_;
    bool whole = true;
    take("-");
    const size_t first = at_;
    digits();
    if (text_[first] == '0' && at_ - first > 1) fail("a number begins with 0");
    if (take(".")) {
      whole = false;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      whole = false;
      ++at_;
      if (!take("+")) take("-");
      digits();
    }
    const std::string_view text = text_.substr(start, at_ - start);
    if (int64_t i = 0; whole) {
      if (std::from_chars(text.data(), text.data() + text.size(), i).ec == std::errc()) return i;
    }
    double d = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), d);
    if (error == std::errc::result_out_of_range) fail("a number is out of range");
    return d;
  }

  std::string_view text_, what_;
  size_t at_ = 0;
};

void write_string(const std::string& text, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void write_number(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "Infinity" : "-Infinity";
  } else {
    char buffer[40];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
    const std::string_view text(buffer, static_cast<size_t>(result.ptr - buffer));
    out += text;
    // Keeps a double a double when it is read again.
    if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
  }
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
  return Parser(text, what).document();
}

}  // namespace tv
