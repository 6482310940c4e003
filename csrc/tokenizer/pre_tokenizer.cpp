#include "csrc/tokenizer/pre_tokenizer.h"

#include <optional>

#include "csrc/tokenizer/byte_characters.h"
#include "csrc/tokenizer/edits.h"
#include "csrc/tokenizer/fields.h"
#include "csrc/tokenizer/pattern.h"
#include "csrc/tokenizer/text_size.h"
#include "csrc/tokenizer/unicode.h"

namespace tv::tokenizer {
namespace {

/// GPT-2's.
constexpr std::string_view kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::vector<Word> words_of(const Word& word, const std::vector<Span>& spans) {
  std::vector<Word> words;
  for (const Span& span : spans) words.push_back(word.part(span.begin, span.end));
  return words;
}

PreTokenizer splitting(Pattern pattern, Behavior behavior, bool inverted = false) {
  return [=](const Word& word) {
    return words_of(word, split(word.text, pattern, behavior, inverted));
  };
}

PreTokenizer read_sequence(const Fields& fields) {
  fields.only({"type", "pretokenizers"});
  std::vector<PreTokenizer> steps;
  for (const Json& json : fields.array("pretokenizers")) steps.push_back(read_pre_tokenizer(json));
  return [steps](const Word& word) {
    std::vector<Word> words = {word};
    for (const PreTokenizer& step : steps) {
      std::vector<Word> next;
      size_t bytes = 0;
      for (const Word& each : words) {
        for (Word& part : step(each)) {
          check_text_size(bytes += part.text.size());
          next.push_back(std::move(part));
        }
      }
      words = std::move(next);
    }
    return words;
  };
}

PreTokenizer read_byte_level(const Fields& fields) {
  fields.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  std::optional<Regex> regex;
  if (fields.flag("use_regex", true)) regex.emplace(kByteLevelWords);
  const bool spaced = fields.flag("add_prefix_space", true);
  return [regex, spaced](const Word& given) {
    Word word = given;
    if (spaced && word.text.find(' ') != 0) prepend(word, " ");
    std::vector<Word> words = {word};
    if (regex) {
      const Pattern pattern = [&](std::string_view text) { return regex->find_all(text); };
      words = words_of(word, split(word.text, pattern, Behavior::kIsolated));
    }
    for (Word& each : words) map(each, to_byte_characters);
    return words;
  };
}

enum class Prepend { kAlways, kFirst, kNever };

Prepend read_prepend(const Fields& fields) {
  const bool adds = fields.flag("add_prefix_space", true);  // of older files
  if (!fields.find("prepend_scheme")) return adds ? Prepend::kAlways : Prepend::kNever;
  const std::string& scheme = fields.text("prepend_scheme");
  if (scheme == "always") return Prepend::kAlways;
  if (scheme == "first") return Prepend::kFirst;
  if (scheme == "never") return Prepend::kNever;
  fields.refuse("'prepend_scheme': '" + scheme + "' is not supported");
}

PreTokenizer read_metaspace(const Fields& fields) {
  fields.only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  std::string mark;
  append(mark, fields.character("replacement"));
  const Prepend when = read_prepend(fields);
  const bool splits = fields.flag("split", true);
  return [=](const Word& given) {
    const Pattern space = [](std::string_view text) { return find_literal(" ", text); };
    Word word = given;
    replace(word, space, mark);
    const bool adds = when == Prepend::kAlways || (when == Prepend::kFirst && word.is_first());
    if (adds && !word.text.starts_with(mark)) prepend(word, mark);
    if (!splits) return std::vector<Word>{word};
    const Pattern marks = [&](std::string_view text) { return find_literal(mark, text); };
    return words_of(word, split(word.text, marks, Behavior::kMergedWithNext));
  };
}

PreTokenizer read_split(const Fields& fields) {
  fields.only({"type", "pattern", "behavior", "invert"});
  return splitting(read_pattern(fields, "pattern"), read_behavior(fields, "behavior"),
                   fields.flag("invert", false));
}

PreTokenizer read_digits(const Fields& fields) {
  fields.only({"type", "individual_digits"});
  const bool each = fields.flag("individual_digits", false);
  return splitting(characters(is_number), each ? Behavior::kIsolated : Behavior::kContiguous);
}

PreTokenizer read_punctuation(const Fields& fields) {
  fields.only({"type", "behavior"});
  return splitting(characters(is_punctuation), fields.find("behavior")
                                                   ? read_behavior(fields, "behavior")
                                                   : Behavior::kIsolated);
}

PreTokenizer read_whitespace(const Fields& fields) {
  fields.only({"type"});
  const std::string word(kRustWordMembers);
  return splitting([regex = Regex("[" + word + "]+|[^" + word + R"(\s]+)")](
                       std::string_view text) { return regex.find_all(text); },
                   Behavior::kRemoved, /*inverted=*/true);
}

PreTokenizer read_whitespace_split(const Fields& fields) {
  fields.only({"type"});
  return splitting(characters(is_space), Behavior::kRemoved);
}

}  // namespace

PreTokenizer read_pre_tokenizer(const Json& json) {
  const Fields fields(json, "pre_tokenizer");
  const std::string& type = fields.text("type");
  if (type == "Sequence") return read_sequence(fields);
  if (type == "ByteLevel") return read_byte_level(fields);
  if (type == "Metaspace") return read_metaspace(fields);
  if (type == "Split") return read_split(fields);
  if (type == "Digits") return read_digits(fields);
  if (type == "Punctuation") return read_punctuation(fields);
  if (type == "Whitespace") return read_whitespace(fields);
  if (type == "WhitespaceSplit") return read_whitespace_split(fields);
  fields.refuse("type '" + type + "' is not supported");
}

}  // namespace tv::tokenizer
