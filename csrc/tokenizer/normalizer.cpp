#include "csrc/tokenizer/normalizer.h"

#include <map>
#include <vector>

#include "csrc/tokenizer/byte_characters.h"
#include "csrc/tokenizer/edits.h"
#include "csrc/tokenizer/fields.h"
#include "csrc/tokenizer/pattern.h"
#include "csrc/tokenizer/text_size.h"
#include "csrc/tokenizer/unicode.h"

namespace tv::tokenizer {
namespace {

Normalizer read_sequence(const Fields& fields) {
  fields.only({"type", "normalizers"});
  std::vector<Normalizer> steps;
  for (const Json& json : fields.array("normalizers")) steps.push_back(read_normalizer(json));
  return [steps](Word& word) {
    const size_t given = word.text.size();
    for (const Normalizer& step : steps) {
      step(word);
      check_growth(word.text.size(), given);
    }
  };
}

Normalizer read_strip(const Fields& fields) {
  fields.only({"type", "strip_left", "strip_right"});
  const bool left = fields.flag("strip_left", true), right = fields.flag("strip_right", true);
  return [left, right](Word& word) {
    const std::string& text = word.text;
    size_t begin = 0, end = text.size();
    while (left && begin < end && is_space(character_at(text, begin))) {
      begin += length_at(text, begin);
    }
    while (right && end > begin && is_space(character_at(text, begin_before(text, end)))) {
      end = begin_before(text, end);
    }
    word = word.part(begin, end);
  };
}

Normalizer read_replace(const Fields& fields) {
  fields.only({"type", "pattern", "content"});
  const Pattern pattern = read_pattern(fields, "pattern");
  return
      [pattern, content = fields.text("content")](Word& word) { replace(word, pattern, content); };
}

Normalizer read_prepend(const Fields& fields) {
  fields.only({"type", "prepend"});
  return [prefix = fields.text("prepend")](Word& word) {
    if (!word.text.empty()) prepend(word, prefix);
  };
}

Normalizer mapping(CharacterMap* function) {
  return [function](Word& word) { map(word, function); };
}

Normalizer forming(Form form) {
  return [form](Word& word) { normalise(word, form); };
}

/// The ones that have no members but their type.
const std::map<std::string, Normalizer, std::less<>>& plain() {
  static const std::map<std::string, Normalizer, std::less<>> kAll = {
      {"NFC", forming(Form::kNfc)},
      {"NFD", forming(Form::kNfd)},
      {"NFKC", forming(Form::kNfkc)},
      {"NFKD", forming(Form::kNfkd)},
      {"Lowercase", mapping(lowercase)},
      {"ByteLevel", mapping(to_byte_characters)},
      {"StripAccents", [](Word& word) { replace(word, characters(is_mark), ""); }}};
  return kAll;
}

}  // namespace

Normalizer read_normalizer(const Json& json) {
  const Fields fields(json, "normalizer");
  const std::string& type = fields.text("type");
  if (type == "Sequence") return read_sequence(fields);
  if (type == "Strip") return read_strip(fields);
  if (type == "Replace") return read_replace(fields);
  if (type == "Prepend") return read_prepend(fields);
  const auto found = plain().find(type);
  if (found == plain().end()) fields.refuse("type '" + type + "' is not supported");
  fields.only({"type"});
  return found->second;
}

}  // namespace tv::tokenizer
