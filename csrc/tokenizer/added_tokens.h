#pragma once
// Tokens beside the model's: found in a text before anything else is done to it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "csrc/tokenizer/bpe.h"
#include "csrc/tokenizer/normalizer.h"
#include "csrc/tokenizer/regex.h"

namespace tv::tokenizer {

class AddedTokens {
 public:
  /// The member "added_tokens" of a file; null: there are none. Throws Error(kUser).
  AddedTokens(const Json* json, const Bpe& model, const Normalizer& normalizer);

  /// A part of a text: a token, or words to encode.
  struct Part {
    Word word;
    std::optional<int32_t> token;
  };
  /// The text in order: tokens that are looked for in it as it is, then, in what is left of it
  /// normalised, the others.
  std::vector<Part> split(std::string_view text) const;

  /// The text of a token, normalised where it is looked for so; null where there is none.
  const std::string* token(int32_t id) const;
  std::optional<int32_t> id(std::string_view token) const;
  /// Of a token's text: one that normalising changes is not, as in the library.
  bool is_special(const std::string& text) const { return special_.contains(text); }
  int32_t largest_id() const { return largest_id_; }

 private:
  struct Token {
    int32_t id = 0;
    std::string content, sought;
    bool single_word = false, strips_left = false, strips_right = false;
  };
  /// By first byte; the longest first.
  using Sought = std::unordered_map<char, std::vector<Token>>;

  void add(const Json& json, const Normalizer& normalizer);
  /// `emptied`: found wherever no other token is; null: there is none.
  std::vector<Part> split_at(const Word& word, const Sought& sought, const Token* emptied) const;
  static const Token* find(std::string_view text, size_t at, const Sought& sought);
  /// Whether no letter, digit or the like is beside [begin, end).
  bool is_apart(std::string_view text, size_t begin, size_t end) const;

  Sought in_raw_, in_normalised_;
  /// The first that normalising leaves nothing of. As in the library it is found between all
  /// characters, where it is a token only of the spaces that it strips.
  std::optional<Token> emptied_;
  Normalizer normalizer_;
  std::unordered_map<int32_t, std::string> texts_;  ///< as they stand in a text that is normalised
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_set<std::string> special_;
  Regex in_word_{"[" + std::string(kRustWordMembers) + "]"};
  size_t sought_bytes_ = 0;  ///< of tokens as the normaliser makes them
  int32_t largest_id_ = -1;
};

}  // namespace tv::tokenizer
