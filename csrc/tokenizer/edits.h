#pragma once
// What normalizers and pre-tokenizers do to a word, which keeps what comes from its front.

#include <string>
#include <string_view>

#include "csrc/tokenizer/pattern.h"
#include "csrc/tokenizer/unicode.h"
#include "csrc/tokenizer/word.h"

namespace tv::tokenizer {

/// Maps a text character by character.
using CharacterMap = std::string(std::string_view);

void map(Word& word, CharacterMap* function);
void prepend(Word& word, std::string_view prefix);
/// Throws as `replaced`.
void replace(Word& word, const Pattern& pattern, std::string_view content);
void normalise(Word& word, Form form);

}  // namespace tv::tokenizer
