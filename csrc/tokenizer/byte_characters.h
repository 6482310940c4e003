#pragma once
// Bytes as characters that can be seen (GPT-2's table): what vocabularies of bytes are written in.

#include <optional>
#include <string>
#include <string_view>

namespace tv::tokenizer {

/// A character for each byte of `bytes`.
std::string to_byte_characters(std::string_view bytes);
/// The bytes that the characters of `text` stand for; none where one of them stands for none.
std::optional<std::string> from_byte_characters(std::string_view text);

}  // namespace tv::tokenizer
