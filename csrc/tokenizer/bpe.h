#pragma once
// Byte pair encoding (Sennrich et al., "Neural machine translation of rare words with subword
// units", ACL 2016), as the tokenizers library's model "BPE" has it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "csrc/tokenizer/fields.h"

namespace tv::tokenizer {

class Bpe {
 public:
  /// The member "model" of a file. Throws Error(kUser).
  explicit Bpe(const Json& json);

  /// Appends the tokens of a word: its characters, of which the neighbours that stand first in the
  /// list of merges are joined until none does.
  void encode(const std::string& word, std::vector<int32_t>& tokens) const;

  std::optional<int32_t> id(std::string_view token) const;
  /// Null where no token has this number.
  const std::string* token(int32_t id) const;
  /// Tokens of the vocabulary.
  size_t size() const { return ids_.size(); }
  int32_t largest_id() const { return largest_id_; }

 private:
  struct Merge {
    int32_t rank = 0, token = 0;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  void read_vocabulary(const Fields& fields);
  void read_merges(const Fields& fields);
  std::vector<int32_t> characters(const std::string& word) const;
  bool add_bytes(const std::string& text, std::vector<int32_t>& tokens) const;
  void merge(std::vector<int32_t>& tokens) const;
  const Merge* find_merge(int32_t left, int32_t right) const;

  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<int32_t, std::string> tokens_;
  std::unordered_map<uint64_t, Merge> merges_;
  std::string prefix_, suffix_;  ///< of what continues a word, and of what ends one
  std::optional<int32_t> unknown_;
  bool joins_unknown_ = false, byte_fallback_ = false, whole_words_ = false;
  int32_t largest_id_ = -1;
};

}  // namespace tv::tokenizer
