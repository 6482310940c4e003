#pragma once
// Texts to tokens and back, by files of the tokenizers library (tokenizer.json) whose model is byte
// pair encoding: https://github.com/huggingface/tokenizers. What a file asks for that is not known
// here is refused by name.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tv::tokenizer {

/// Immutable, shared by threads.
class Tokenizer {
 public:
  /// Throws Error(kUser) for a file that cannot be read, is none, or asks for what is not known.
  static Tokenizer read(const std::string& path);
  /// The same from its text; `what` names it in messages.
  static Tokenizer parse(std::string_view json, const std::string& what = "tokenizer");

  /// The tokens of a text, with those that the file puts around every text. The file's truncation
  /// and padding are not applied. Throws Error(kUser) for bytes that are not UTF-8,
  /// and for more than 64 MiB of text, as it is or as the file's steps make it.
  std::vector<int32_t> encode(std::string_view text) const;

  /// The text of tokens, always UTF-8; special ones, and numbers that are not tokens, have none.
  /// Throws Error(kUser) where the file's steps make more than 64 MiB of them.
  std::string decode(const std::vector<int32_t>& tokens) const;

  /// The number of a token as the file writes it.
  std::optional<int32_t> id(std::string_view token) const;
  /// No token of `encode` is larger.
  int32_t largest_id() const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

/// Decodes tokens that come one after the other: each gives the text that is sure by then. A
/// character that several tokens make comes with the last of them.
class TextStream {
 public:
  /// `before`: tokens in front of the first, whose text is not repeated.
  TextStream(Tokenizer tokenizer, std::vector<int32_t> before);

  std::string push(int32_t token);
  /// What is left: the beginning of a character that never came is U+FFFD.
  std::string end();

 private:
  Tokenizer tokenizer_;
  std::vector<int32_t> tokens_;  ///< the last ones
  std::string said_;             ///< of the text of these
  size_t said_tokens_ = 0;       ///< those that `said_` is the text of
};

}  // namespace tv::tokenizer
