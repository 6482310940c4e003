#include "csrc/tokenizer/edits.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace tv::tokenizer {
namespace {

/// A character of a normal form, and how many characters of the text it adds to those that it comes
/// from: 0 in place of one, 1 beside the one before, -1 in place of two (the library's changes).
struct Change {
  char32_t character = 0;
  int added = 0;
};

std::string text_of(std::initializer_list<char32_t> characters) {
  std::string text;
  for (const char32_t character : characters) append(text, character);
  return text;
}

/// Marks behind a character that are looked at: no script has as many.
constexpr size_t kMostMarks = 4096;

/// The decomposition of a text as far as it can depend on its first `bytes` bytes: up to the second
/// character behind them that others cannot be moved across.
std::vector<Change> decomposed(std::string_view text, size_t bytes, Form form) {
  std::vector<Change> changes;
  size_t unsorted = 0;
  const auto sort = [&] {
    std::stable_sort(changes.begin() + static_cast<std::ptrdiff_t>(unsorted), changes.end(),
                     [](const Change& a, const Change& b) {
                       return combining_class(a.character) < combining_class(b.character);
                     });
  };
  int fixed = 0;
  for (size_t at = 0; at < std::min(text.size(), bytes + kMostMarks) && fixed < 2;
       at += length_at(text, at)) {
    const std::string parts = normalised(text.substr(at, length_at(text, at)), form);
    for (size_t i = 0; i < parts.size(); i += length_at(parts, i)) {
      const char32_t character = character_at(parts, i);
      if (combining_class(character) == 0) {
        sort();
        if (at >= bytes) ++fixed;
      }
      changes.push_back({character, i > 0 ? 1 : 0});
      if (combining_class(character) == 0) unsorted = changes.size();
    }
  }
  sort();
  return changes;
}

std::optional<char32_t> composed(char32_t a, char32_t b) {
  const std::string text = normalised(text_of({a, b}), Form::kNfc);
  if (length_at(text, 0) != text.size()) return std::nullopt;
  return character_at(text, 0);
}

/// Canonical composition (The Unicode Standard, 3.11, D117).
std::vector<Change> composed(const std::vector<Change>& changes) {
  std::vector<Change> made;
  std::optional<size_t> starter;  // in `made`
  int last_class = 0;             // of what follows it; 0: nothing does
  for (const Change& change : changes) {
    const int own_class = combining_class(change.character);
    if (starter && (last_class == 0 || last_class < own_class)) {
      Change& into = made[*starter];
      if (const auto whole = composed(into.character, change.character)) {
        into = {*whole, into.added + change.added - 1};
        continue;
      }
    }
    made.push_back(change);
    if (own_class == 0) starter = made.size() - 1;
    last_class = own_class;
  }
  return made;
}

}  // namespace

void map(Word& word, CharacterMap* function) {
  word.front = function(std::string_view(word.text).substr(0, word.front)).size();
  word.text = function(word.text);
}

void prepend(Word& word, std::string_view prefix) {
  word.text.insert(0, prefix);
  if (word.front > 0) word.front += prefix.size();
}

void replace(Word& word, const Pattern& pattern, std::string_view content) {
  const auto kept = [&](size_t begin, size_t end) {
    return std::clamp(word.front, begin, end) - begin;
  };
  size_t front = 0, at = 0;
  for (const Span& match : pattern(word.text)) {
    front += kept(at, match.begin);
    // What comes in belongs to the last byte that goes, or is before it.
    const bool in_front = match.end == 0 ? word.starts : match.end <= word.front;
    if (in_front) front += content.size();
    at = match.end;
  }
  front += kept(at, word.text.size());
  word.text = replaced(word.text, pattern, content);
  word.front = front;
}

void normalise(Word& word, Form form) {
  const bool composes = form == Form::kNfc || form == Form::kNfkc;
  std::vector<Change> changes;
  if (word.front > 0) {
    const bool compatible = form == Form::kNfkc || form == Form::kNfkd;
    changes = decomposed(word.text, word.front, compatible ? Form::kNfkd : Form::kNfd);
    if (composes) changes = composed(changes);
  }
  size_t from = 0, front = 0;  // bytes of the text that were taken, and of what they became
  for (const Change& change : changes) {
    const bool beside = change.added > 0;
    if (beside ? from > word.front : from >= word.front) break;
    front += text_of({change.character}).size();
    for (int taken = 1 - change.added; taken > 0 && from < word.text.size(); --taken) {
      from += length_at(word.text, from);
    }
  }
  word.text = normalised(word.text, form);
  word.front = front;
}

}  // namespace tv::tokenizer
