#include "csrc/cli/yaml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "csrc/cli/command_error.h"

namespace tv::cli {
namespace {

constexpr int kMaxDepth = 16;

struct Line {
  size_t number = 0, indent = 0;
  std::string_view text;  ///< without indentation, comment and blanks at the end
};

/// A parser of one value on one line.
class Inline {
 public:
  Inline(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Json all() {
    Json made = value(0);
    blanks();
    if (at_ != text_.size()) fail("got '" + std::string(text_.substr(at_)) + "' after a value");
    return made;
  }

  /// "key" of "key: value"; "" if the line is no such. The rest is what follows the colon.
  bool key(std::string& name, std::string_view& rest) {
    const char first = text_.empty() ? ' ' : text_.front();
    if (first == '[' || first == '{') return false;
    if (first == '"' || first == '\'') {
      name = quoted();
    } else {
      while (at_ < text_.size() && !colon()) ++at_;
      name = std::string(text_.substr(0, at_));
      while (!name.empty() && name.back() == ' ') name.pop_back();
    }
    blanks();
    if (at_ >= text_.size() || !colon()) return false;
    rest = text_.substr(at_ + 1);
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    return true;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw CommandError(where_ + ": " + message);
  }
  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool next(char wanted) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool colon() const {
    return text_[at_] == ':' && (at_ + 1 == text_.size() || text_[at_ + 1] == ' ');
  }

  Json value(int depth) {
    if (depth > kMaxDepth) fail("nested deeper than " + std::to_string(kMaxDepth));
    blanks();
    if (next('[')) return list(depth);
    if (next('{')) return mapping(depth);
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return quoted();
    return plain(depth > 0);
  }

  Json list(int depth) {
    Json::Array items;
    while (!next(']')) {
      if (!items.empty() && !next(',')) fail("want ',' or ']' in a list");
      if (next(']')) break;
      items.push_back(value(depth + 1));
    }
    return items;
  }

  Json mapping(int depth) {
    Json::Object fields;
    while (!next('}')) {
      if (!fields.empty() && !next(',')) fail("want ',' or '}' in a mapping");
      if (next('}')) break;
      blanks();
      const size_t begin = at_;
      std::string name;
      if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
        name = quoted();
      } else {
        while (at_ < text_.size() && text_[at_] != ':' && text_[at_] != ',') ++at_;
        name = std::string(text_.substr(begin, at_ - begin));
      }
      if (!next(':')) fail("want 'name: value' in a mapping");
      if (!fields.emplace(name, value(depth + 1)).second) fail("'" + name + "' occurs twice");
    }
    return fields;
  }

  std::string quoted() {
    const char quote = text_[at_++];
    std::string made;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] != quote) {
        if (quote == '"' && text_[at_] == '\\') {
          if (++at_ == text_.size()) break;
          constexpr std::string_view kEscapes = "\"\\/";
          if (kEscapes.find(text_[at_]) == kEscapes.npos)
            fail("an escape other than \\\" and \\\\");
        }
        made += text_[at_];
      } else if (quote == '\'' && text_.substr(at_ + 1).starts_with('\'')) {
        made += text_[at_++];
      } else {
        ++at_;
        return made;
      }
    }
    fail("a quote that does not end");
  }

  Json plain(bool inside) {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           !(inside && (text_[at_] == ',' || text_[at_] == ']' || text_[at_] == '}'))) {
      ++at_;
    }
    std::string_view word = text_.substr(begin, at_ - begin);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    return scalar(word);
  }

  Json scalar(std::string_view word) const {
    if (word.empty() || word == "~" || word == "null" || word == "Null" || word == "NULL")
      return {};
    for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "on", "On"}) {
      if (word == yes) return true;
    }
    for (const char* no : {"false", "False", "FALSE", "no", "No", "off", "Off"}) {
      if (word == no) return false;
    }
    constexpr std::string_view kNotHere = "&*!|>%@`?";
    if (kNotHere.find(word.front()) != kNotHere.npos) {
      fail("got '" + std::string(word) +
           "': anchors, tags and texts of several lines are not read; "
           "quotes make it a text");
    }
    int64_t whole = 0;
    double number = 0;
    const char* end = word.data() + word.size();
    if (const auto [at, error] = std::from_chars(word.data(), end, whole);
        error == std::errc() && at == end) {
      return whole;
    }
    if (const auto [at, error] = std::from_chars(word.data(), end, number);
        error == std::errc() && at == end && word.find_first_of("0123456789") != word.npos) {
      return number;
    }
    return std::string(word);
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

/// Up to a comment: '#' after a blank, and outside of quotes.
std::string_view without_comment(std::string_view text) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quote) {
      if (text[i] == '\\' && quote == '"')
        ++i;
      else if (text[i] == quote)
        quote = 0;
    } else if (text[i] == '#' && (i == 0 || text[i - 1] == ' ')) {
      return text.substr(0, i);
    } else if ((text[i] == '"' || text[i] == '\'') &&
               (i == 0 || std::string_view(" [{,:").find(text[i - 1]) != std::string_view::npos)) {
      quote = text[i];
    }
  }
  return text;
}

class Blocks {
 public:
  Blocks(std::string_view text, const std::string& what) : what_(what) {
    size_t number = 0;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      add(text.substr(0, end), ++number);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  Json all() {
    if (lines_.empty()) return Json::Object{};
    if (lines_.size() == 1 && lines_[0].text.starts_with('{')) {
      const std::string place = where();
      return Inline(lines_[0].text, place).all();
    }
    Json made = block(lines_.front().indent, 0);
    if (at_ != lines_.size()) fail("indented in another way than the lines before it");
    return made;
  }

 private:
  void add(std::string_view text, size_t number) {
    if (text.ends_with('\r')) text.remove_suffix(1);
    text = without_comment(text);
    while (text.ends_with(' ')) text.remove_suffix(1);
    const size_t indent = std::min(text.find_first_not_of(' '), text.size());
    Line line{number, indent, text.substr(indent)};
    if (line.text.empty() || (lines_.empty() && line.text == "---")) return;
    lines_.push_back(line);
    if (line.text.find('\t') != line.text.npos) {
      at_ = lines_.size() - 1;
      fail("a tab, want blanks");
    }
    if (line.text == "---" || line.text == "...") {
      at_ = lines_.size() - 1;
      fail("a second document");
    }
  }

  std::string where() const {
    return what_ + ":" + std::to_string(lines_[std::min(at_, lines_.size() - 1)].number);
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw CommandError(where() + ": " + message);
  }

  static bool is_item(std::string_view text) { return text == "-" || text.starts_with("- "); }

  Json block(size_t indent, int depth) {
    if (depth > kMaxDepth) fail("nested deeper than " + std::to_string(kMaxDepth));
    return is_item(lines_[at_].text) ? items(indent) : fields(indent, depth);
  }

  Json items(size_t indent) {
    Json::Array made;
    while (at_ < lines_.size() && lines_[at_].indent == indent && is_item(lines_[at_].text)) {
      const std::string place = where();
      made.push_back(Inline(lines_[at_++].text.substr(1), place).all());
    }
    return made;
  }

  Json fields(size_t indent, int depth) {
    Json::Object made;
    while (at_ < lines_.size() && lines_[at_].indent == indent) {
      const std::string place = where();
      std::string name;
      std::string_view rest;
      if (!Inline(lines_[at_].text, place).key(name, rest)) fail("want 'key: value'");
      if (made.count(name)) fail("'" + name + "' occurs twice");
      ++at_;
      made[name] = rest.empty() ? below(indent, depth) : Inline(rest, place).all();
    }
    return made;
  }

  /// What belongs to "key:": lines that are indented further, or items at the same place.
  Json below(size_t indent, int depth) {
    if (at_ == lines_.size()) return {};
    const Line& line = lines_[at_];
    if (line.indent > indent || (line.indent == indent && is_item(line.text))) {
      return block(line.indent, depth + 1);
    }
    return {};
  }

  const std::string& what_;
  std::vector<Line> lines_;
  size_t at_ = 0;
};

}  // namespace

Json parse_yaml(std::string_view text, const std::string& what) { return Blocks(text, what).all(); }

}  // namespace tv::cli
