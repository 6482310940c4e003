#include "csrc/tokenizer/bpe.h"

#include <algorithm>
#include <queue>

#include "csrc/tokenizer/unicode.h"

namespace tv::tokenizer {
namespace {

constexpr size_t kMostMark = 64;  // each character of a text gets one

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

/// "<0x0A>", the token of a byte.
std::string byte_token(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4U] + kDigits[byte & 15U] + ">";
}

/// What a file calls a merge: "a b" or ["a", "b"].
std::pair<std::string, std::string> sides_of(const Json& merge, const Fields& fields) {
  if (const auto* text = merge.get<std::string>()) {
    const size_t space = text->find(' ');
    if (space != std::string::npos && text->find(' ', space + 1) == std::string::npos) {
      return {text->substr(0, space), text->substr(space + 1)};
    }
  } else if (const auto* both = merge.get<Json::Array>(); both && both->size() == 2) {
    const auto* left = (*both)[0].get<std::string>();
    const auto* right = (*both)[1].get<std::string>();
    if (left && right) return {*left, *right};
  }
  fields.refuse("'merges': got " + merge.dump() + ", want two tokens");
}

/// A token of a word that is being merged; a list by positions.
struct Link {
  int32_t token = 0, before = -1, after = -1;
  bool gone = false;
};

/// The merge of the tokens at `at` and behind it; the lowest rank, then the leftmost, comes first.
struct Candidate {
  int32_t rank = 0, at = 0, token = 0;
  bool operator<(const Candidate& other) const {
    return std::pair(rank, at) > std::pair(other.rank, other.at);
  }
};

}  // namespace

Bpe::Bpe(const Json& json) {
  const Fields fields(json, "model");
  if (fields.find("type") && fields.text("type") != "BPE") {
    fields.refuse("type '" + fields.text("type") + "' is not supported, want BPE");
  }
  fields.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
               "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const Json* dropout = fields.find("dropout")) {
    const auto* number = dropout->get<double>();
    const auto* whole = dropout->get<int64_t>();
    if (!(number && *number == 0) && !(whole && *whole == 0)) {
      fields.refuse("'dropout' is not supported: the tokens of a text would be random");
    }
  }
  if (fields.find("continuing_subword_prefix")) prefix_ = fields.text("continuing_subword_prefix");
  if (fields.find("end_of_word_suffix")) suffix_ = fields.text("end_of_word_suffix");
  if (std::max(prefix_.size(), suffix_.size()) > kMostMark) {
    fields.refuse("'continuing_subword_prefix' or 'end_of_word_suffix' has more than " +
                  std::to_string(kMostMark) + " bytes");
  }
  joins_unknown_ = fields.flag("fuse_unk", false);
  byte_fallback_ = fields.flag("byte_fallback", false);
  whole_words_ = fields.flag("ignore_merges", false);
  read_vocabulary(fields);
  read_merges(fields);
  if (fields.find("unk_token")) {
    unknown_ = id(fields.text("unk_token"));
    if (!unknown_) fields.refuse("'unk_token' is not in the vocabulary");
  }
}

void Bpe::read_vocabulary(const Fields& fields) {
  const auto* vocabulary = fields.at("vocab").get<Json::Object>();
  if (!vocabulary) fields.refuse("'vocab' is no object");
  for (const auto& [token, json] : *vocabulary) {
    const auto* number = json.get<int64_t>();
    if (!number || *number < 0 || *number >= INT32_MAX) {
      fields.refuse("'vocab': the number of '" + token + "' is no integer from 0 to 2^31 - 2");
    }
    const auto number32 = static_cast<int32_t>(*number);
    if (!tokens_.emplace(number32, token).second) {
      fields.refuse("'vocab': two tokens have the number " + std::to_string(number32));
    }
    ids_.emplace(token, number32);
    largest_id_ = std::max(largest_id_, number32);
  }
}

void Bpe::read_merges(const Fields& fields) {
  int32_t rank = 0;
  for (const Json& json : fields.array("merges")) {
    const auto [left, right] = sides_of(json, fields);
    const auto made =
        right.size() < prefix_.size() ? std::nullopt : id(left + right.substr(prefix_.size()));
    const auto left_id = id(left), right_id = id(right);
    if (!left_id || !right_id || !made) {
      fields.refuse("'merges': '" + left + "' and '" + right +
                    "' and what they make are not all in the vocabulary");
    }
    merges_[pair_of(*left_id, *right_id)] = {rank++, *made};
  }
}

std::optional<int32_t> Bpe::id(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Bpe::token(int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

void Bpe::encode(const std::string& word, std::vector<int32_t>& tokens) const {
  if (whole_words_) {
    if (const auto whole = id(word)) return tokens.push_back(*whole);
  }
  std::vector<int32_t> parts = characters(word);
  merge(parts);
  tokens.insert(tokens.end(), parts.begin(), parts.end());
}

bool Bpe::add_bytes(const std::string& text, std::vector<int32_t>& tokens) const {
  std::vector<int32_t> found;
  for (const char byte : text) {
    const auto token = id(byte_token(static_cast<unsigned char>(byte)));
    if (!token) return false;
    found.push_back(*token);
  }
  tokens.insert(tokens.end(), found.begin(), found.end());
  return true;
}

std::vector<int32_t> Bpe::characters(const std::string& word) const {
  std::vector<int32_t> tokens;
  // A token of unknown characters stands where the next known one comes, behind bytes between them.
  bool pending = false;
  for (size_t at = 0; at < word.size();) {
    const size_t end = at + length_at(word, at);
    std::string text =
        (at > 0 ? prefix_ : "") + word.substr(at, end - at) + (end == word.size() ? suffix_ : "");
    at = end;
    if (const auto token = id(text)) {
      if (pending) tokens.push_back(*unknown_);
      pending = false;
      tokens.push_back(*token);
    } else if ((!byte_fallback_ || !add_bytes(text, tokens)) && unknown_) {
      if (pending && !joins_unknown_) tokens.push_back(*unknown_);
      pending = true;
    }
  }
  if (pending) tokens.push_back(*unknown_);
  return tokens;
}

const Bpe::Merge* Bpe::find_merge(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::merge(std::vector<int32_t>& tokens) const {
  const auto count = static_cast<int32_t>(tokens.size());
  std::vector<Link> links(tokens.size());
  std::priority_queue<Candidate> queue;
  const auto link = [&](int32_t at) -> Link& { return links[static_cast<size_t>(at)]; };
  const auto consider = [&](int32_t at) {
    if (at < 0 || link(at).after < 0) return;
    const Merge* found = find_merge(link(at).token, link(link(at).after).token);
    if (found) queue.push({found->rank, at, found->token});
  };
  for (int32_t i = 0; i < count; ++i) {
    link(i) = {tokens[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1};
  }
  for (int32_t i = 0; i + 1 < count; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Link& left = link(best.at);
    if (left.gone || left.after < 0) continue;
    Link& right = link(left.after);
    const Merge* now = find_merge(left.token, right.token);
    if (!now || now->token != best.token) continue;  // others were merged meanwhile
    left.token = best.token;
    left.after = right.after;
    right.gone = true;
    if (left.after >= 0) link(left.after).before = best.at;
    consider(left.before);
    consider(best.at);
  }
  tokens.clear();
  for (int32_t at = 0; at >= 0 && at < count; at = link(at).after) tokens.push_back(link(at).token);
}

}  // namespace tv::tokenizer
