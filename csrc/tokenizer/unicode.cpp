#include "csrc/tokenizer/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "runtime/base/error.h"

namespace tv::tokenizer {
namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

bool continues(std::string_view bytes, size_t at) {
  return at < bytes.size() && (static_cast<unsigned char>(bytes[at]) & 0xC0U) == 0x80U;
}

/// Bytes of the character at `at`; 0 where there is none.
size_t valid_length(std::string_view bytes, size_t at) {
  utf8proc_int32_t character = 0;
  const auto length = utf8proc_iterate(
      bytes_of(bytes) + at, static_cast<utf8proc_ssize_t>(bytes.size() - at), &character);
  return length > 0 ? static_cast<size_t>(length) : 0;
}

/// Bytes of what is no character at `at`: the longest beginning of one, or one byte.
size_t fault_length(std::string_view bytes, size_t at) {
  const auto first = static_cast<unsigned char>(bytes[at]);
  const auto second = at + 1 < bytes.size() ? static_cast<unsigned char>(bytes[at + 1])
                                            : static_cast<unsigned char>(0);
  if (!continues(bytes, at + 1)) return 1;
  const bool three = first >= 0xE0 && first <= 0xEF && (first != 0xE0 || second >= 0xA0) &&
                     (first != 0xED || second <= 0x9F);
  const bool four = first >= 0xF0 && first <= 0xF4 && (first != 0xF0 || second >= 0x90) &&
                    (first != 0xF4 || second <= 0x8F);
  if (three) return 2;
  if (four) return continues(bytes, at + 2) ? 3 : 2;
  return 1;
}

utf8proc_category_t category(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = valid_length(bytes, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string replaced_faults(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    if (const size_t length = valid_length(bytes, at)) {
      text += bytes.substr(at, length);
      at += length;
    } else {
      text += "\xEF\xBF\xBD";
      at += fault_length(bytes, at);
    }
  }
  return text;
}

size_t length_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

char32_t character_at(std::string_view text, size_t at) {
  utf8proc_int32_t character = 0;
  utf8proc_iterate(bytes_of(text) + at, static_cast<utf8proc_ssize_t>(text.size() - at),
                   &character);
  return static_cast<char32_t>(character);
}

size_t begin_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && continues(text, at)) --at;
  return at;
}

void append(std::string& text, char32_t character) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

bool is_space(char32_t character) {
  if (character >= 0x9 && character <= 0xD) return true;
  if (character == 0x85) return true;
  const auto c = category(character);
  return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

bool is_number(char32_t character) {
  const auto c = category(character);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_mark(char32_t character) {
  const auto c = category(character);
  return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

bool is_punctuation(char32_t character) {
  if (character < 0x80) {
    return (character >= '!' && character <= '/') || (character >= ':' && character <= '@') ||
           (character >= '[' && character <= '`') || (character >= '{' && character <= '~');
  }
  const auto c = category(character);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

int combining_class(char32_t character) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(character))->combining_class;
}

std::string lowercase(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += length_at(text, at)) {
    const char32_t character = character_at(text, at);
    append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
    // The only character whose lower case is two: I with a dot above.
    if (character == 0x130) append(out, 0x307);
  }
  return out;
}

std::string normalised(std::string_view text, Form form) {
  const bool composes = form == Form::kNfc || form == Form::kNfkc;
  const bool compatible = form == Form::kNfkc || form == Form::kNfkd;
  const int options = UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                      (compatible ? UTF8PROC_COMPAT : 0);
  utf8proc_uint8_t* made = nullptr;
  const auto length = utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()),
                                   &made, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (length < 0) {
    throw Error(ErrorKind::kUser,
                std::string("[tokenizer] the text is not normalised: ") + utf8proc_errmsg(length));
  }
  return {reinterpret_cast<const char*>(made), static_cast<size_t>(length)};
}

}  // namespace tv::tokenizer
