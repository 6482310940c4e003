#include "csrc/tokenizer/byte_characters.h"

#include <array>
#include <unordered_map>

#include "csrc/tokenizer/unicode.h"

namespace tv::tokenizer {
namespace {

/// Printable characters of Latin-1 are themselves; the other bytes, in order, are those from
/// U+0100.
std::array<char32_t, 256> make_table() {
  std::array<char32_t, 256> table{};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    table[byte] = seen ? byte : next++;
  }
  return table;
}

const std::array<char32_t, 256>& table() {
  static const std::array<char32_t, 256> kTable = make_table();
  return kTable;
}

}  // namespace

std::string to_byte_characters(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append(text, table()[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> from_byte_characters(std::string_view text) {
  static const std::unordered_map<char32_t, char> kBytes = [] {
    std::unordered_map<char32_t, char> bytes;
    for (size_t byte = 0; byte < 256; ++byte) bytes[table()[byte]] = static_cast<char>(byte);
    return bytes;
  }();
  std::string bytes;
  for (size_t at = 0; at < text.size(); at += length_at(text, at)) {
    const auto found = kBytes.find(character_at(text, at));
    if (found == kBytes.end()) return std::nullopt;
    bytes += found->second;
  }
  return bytes;
}

}  // namespace tv::tokenizer
