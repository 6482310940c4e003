#pragma once
// UTF-8, and what Unicode says of characters. Texts are valid UTF-8 where not said otherwise.

#include <cstddef>
#include <string>
#include <string_view>

namespace tv::tokenizer {

bool is_utf8(std::string_view bytes);
/// Any bytes as UTF-8: what is none becomes U+FFFD, one for each longest beginning of a character
/// (The Unicode Standard, 3.9, "substitution of maximal subparts").
std::string replaced_faults(std::string_view bytes);

/// Bytes of the character that begins at `at`.
size_t length_at(std::string_view text, size_t at);
char32_t character_at(std::string_view text, size_t at);
/// Where the character that ends before `end` begins.
size_t begin_before(std::string_view text, size_t end);
void append(std::string& text, char32_t character);

bool is_space(char32_t character);        ///< White_Space
bool is_number(char32_t character);       ///< general category N
bool is_mark(char32_t character);         ///< general category M
bool is_punctuation(char32_t character);  ///< ASCII's, or general category P

int combining_class(char32_t character);  ///< Canonical_Combining_Class

/// Each character's full mapping, without looking at those around it.
std::string lowercase(std::string_view text);

enum class Form { kNfc, kNfd, kNfkc, kNfkd };
std::string normalised(std::string_view text, Form form);

}  // namespace tv::tokenizer
