#include "csrc/tokenizer/pattern.h"

#include <algorithm>

#include "csrc/tokenizer/text_size.h"
#include "csrc/tokenizer/unicode.h"

namespace tv::tokenizer {
namespace {

struct Part {
  Span span;
  bool match = false;
};

/// A text in parts, matches and what lies between them.
std::vector<Part> parts_of(std::string_view text, const Pattern& pattern, bool inverted) {
  std::vector<Part> parts;
  size_t at = 0;
  for (const Span& match : pattern(text)) {
    if (match.begin > at) parts.push_back({{at, match.begin}, inverted});
    parts.push_back({match, !inverted});
    at = match.end;
  }
  if (at < text.size()) parts.push_back({{at, text.size()}, inverted});
  return parts;
}

/// Parts joined with the one before where `joins(part, before)`.
std::vector<Part> joined(const std::vector<Part>& parts,
                         const std::function<bool(const Part&, const Part&)>& joins) {
  std::vector<Part> out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && joins(parts[i], parts[i - 1])) {
      out.back().span.end = parts[i].span.end;
    } else {
      out.push_back(parts[i]);
    }
  }
  return out;
}

}  // namespace

Pattern read_pattern(const Fields& owner, std::string_view name) {
  const Fields fields(owner.at(name), owner.what() + "." + std::string(name));
  fields.only({"String", "Regex"});
  if (fields.find("Regex")) {
    return [regex = Regex(fields.text("Regex"))](std::string_view text) {
      // As the library has it: nothing is found in nothing, not even an end.
      return text.empty() ? std::vector<Span>{} : regex.find_all(text);
    };
  }
  const std::string& literal = fields.text("String");
  if (literal.empty()) fields.refuse("got an empty string");
  return [literal](std::string_view text) { return find_literal(literal, text); };
}

Pattern characters(std::function<bool(char32_t)> matches) {
  return [matches = std::move(matches)](std::string_view text) {
    std::vector<Span> found;
    for (size_t at = 0; at < text.size();) {
      const size_t end = at + length_at(text, at);
      if (matches(character_at(text, at))) found.push_back({at, end});
      at = end;
    }
    return found;
  };
}

Behavior read_behavior(const Fields& owner, std::string_view name) {
  const std::string& text = owner.text(name);
  if (text == "Removed") return Behavior::kRemoved;
  if (text == "Isolated") return Behavior::kIsolated;
  if (text == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (text == "MergedWithNext") return Behavior::kMergedWithNext;
  if (text == "Contiguous") return Behavior::kContiguous;
  owner.refuse("'" + std::string(name) + "': '" + text + "' is not supported");
}

std::vector<Span> split(std::string_view text, const Pattern& pattern, Behavior behavior,
                        bool inverted) {
  std::vector<Part> parts = parts_of(text, pattern, inverted);
  if (behavior == Behavior::kRemoved) {
    std::erase_if(parts, [](const Part& part) { return part.match; });
  } else if (behavior == Behavior::kContiguous) {
    parts = joined(parts,
                   [](const Part& part, const Part& before) { return part.match == before.match; });
  } else if (behavior == Behavior::kMergedWithPrevious) {
    parts = joined(
        parts, [](const Part& part, const Part& before) { return part.match && !before.match; });
  } else if (behavior == Behavior::kMergedWithNext) {
    parts = joined(
        parts, [](const Part& part, const Part& before) { return !part.match && before.match; });
  }
  std::vector<Span> spans;
  for (const Part& part : parts) {
    if (part.span.begin < part.span.end) spans.push_back(part.span);
  }
  return spans;
}

std::string replaced(std::string_view text, const Pattern& pattern, std::string_view content) {
  const std::vector<Span> matches = pattern(text);
  size_t bytes = text.size() + matches.size() * content.size();
  for (const Span& match : matches) bytes -= match.end - match.begin;
  check_text_size(bytes);
  std::string out;
  size_t at = 0;
  for (const Span& match : matches) {
    out += text.substr(at, match.begin - at);
    out += content;
    at = match.end;
  }
  out += text.substr(at);
  return out;
}

}  // namespace tv::tokenizer
