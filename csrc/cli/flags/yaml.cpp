#include "csrc/cli/flags/yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <vector>

#include "csrc/cli/text/command_error.h"

namespace tv::cli {
namespace {

template <class Number>
bool read(std::string_view word, Number& number) {
  const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && at == word.data() + word.size();
}

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// A word without quotes.
Json scalar(const std::string& word) {
  constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
  constexpr std::array<std::string_view, 9> kTrue = {"true", "True", "TRUE", "yes", "Yes",
                                                     "YES",  "on",   "On",   "ON"};
  constexpr std::array<std::string_view, 9> kFalse = {"false", "False", "FALSE", "no", "No",
                                                      "NO",    "off",   "Off",   "OFF"};
  if (is_one_of(word, kNull)) return {};
  if (is_one_of(word, kTrue)) return true;
  if (is_one_of(word, kFalse)) return false;
  int64_t whole = 0;
  double number = 0;
  if (read(word, whole)) return whole;
  const bool has_digit = word.find_first_of("0123456789") != word.npos;  // not inf, nan
  if (has_digit && read(word, number)) return number;
  return word;
}

class Converter {
 public:
  explicit Converter(const std::string& what) : what_(what) {}

  /// Aliases are followed, so it counts what it makes.
  Json value(const YAML::Node& node, int depth = 0) {
    constexpr int kMaxDepth = 16, kMaxValues = 1 << 17;
    if (depth > kMaxDepth) fail(node.Mark(), "nested deeper than " + std::to_string(kMaxDepth));
    if (++made_ > kMaxValues) fail(node.Mark(), "more values than anybody means");
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        // Its tag is "?" for a word, "!" for a text in quotes.
        return node.Tag() == "!" ? Json(node.Scalar()) : scalar(node.Scalar());
      case YAML::NodeType::Sequence: {
        Json::Array items;
        for (const YAML::Node& item : node) items.push_back(value(item, depth + 1));
        return items;
      }
      case YAML::NodeType::Map: {
        Json::Object fields;
        for (const auto& field : node) {
          const YAML::Node& key = field.first;
          if (!key.IsScalar()) fail(key.Mark(), "a key that is no text");
          if (!fields.emplace(key.Scalar(), value(field.second, depth + 1)).second) {
            fail(key.Mark(), "'" + key.Scalar() + "' occurs twice");
          }
        }
        return fields;
      }
      default:
        return {};
    }
  }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
    throw CommandError(what_ + ":" + std::to_string(mark.line + 1) + ": " + message);
  }

 private:
  const std::string& what_;
  int made_ = 0;
};

}  // namespace

Json parse_yaml(std::string_view text, const std::string& what) {
  Converter converter(what);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) converter.fail(documents[1].Mark(), "a second document");
    if (documents.empty()) return {};
    return converter.value(documents[0]);
  } catch (const YAML::Exception& error) {
    converter.fail(error.mark, error.msg);
  }
}

}  // namespace tv::cli
