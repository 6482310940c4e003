#include "csrc/tokenizer/added_tokens.h"

#include <algorithm>

#include "csrc/tokenizer/fields.h"
#include "csrc/tokenizer/text_size.h"
#include "csrc/tokenizer/unicode.h"
#include "runtime/base/error.h"

namespace tv::tokenizer {
namespace {

size_t space_end(std::string_view text, size_t at) {
  while (at < text.size() && is_space(character_at(text, at))) at += length_at(text, at);
  return at;
}

/// Not before `least`.
size_t space_begin(std::string_view text, size_t end, size_t least) {
  while (end > least && is_space(character_at(text, begin_before(text, end)))) {
    end = begin_before(text, end);
  }
  return end;
}

/// The library gives tokens that the vocabulary lacks the next free numbers, in the file's order,
/// whatever the file says.
void check_numbers(const Json::Array& tokens, const Bpe& model) {
  std::unordered_map<std::string, int64_t> numbers;
  auto next = static_cast<int64_t>(model.size());
  for (const Json& json : tokens) {
    const Fields fields(json, "added_tokens");
    const std::string& content = fields.text("content");
    if (content.empty()) continue;
    const int64_t id = fields.whole("id");
    const std::string given = "'" + content + "' has the number " + std::to_string(id);
    const auto known = model.id(content);
    if (known && *known != id) {
      fields.refuse(given + ", and in the model's vocabulary " + std::to_string(*known));
    }
    const int64_t want = known ? *known : numbers.try_emplace(content, next).first->second;
    if (want != id) {
      fields.refuse(given + ", and the library gives it " + std::to_string(want) +
                    ", the next that is free");
    }
    next = std::max(next, id + 1);
  }
}

}  // namespace

AddedTokens::AddedTokens(const Json* json, const Bpe& model, const Normalizer& normalizer)
    : normalizer_(normalizer) {
  if (!json || json->is_null()) return;
  const auto* tokens = json->get<Json::Array>();
  if (!tokens) throw Error(ErrorKind::kUser, "[tokenizer] 'added_tokens' is no array");
  check_numbers(*tokens, model);
  // Of two that are written alike, a special one comes first.
  for (const bool special : {true, false}) {
    for (const Json& token : *tokens) {
      if (Fields(token, "added_tokens").flag("special", false) == special) {
        add(token, normalizer);
      }
    }
  }
  for (Sought* all : {&in_raw_, &in_normalised_}) {
    for (auto& [first, list] : *all) {
      std::stable_sort(list.begin(), list.end(), [](const Token& a, const Token& b) {
        return a.sought.size() > b.sought.size();
      });
    }
  }
}

void AddedTokens::add(const Json& json, const Normalizer& normalizer) {
  const Fields fields(json, "added_tokens");
  fields.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  Token token{.id = static_cast<int32_t>(fields.whole("id")),
              .content = fields.text("content"),
              .single_word = fields.flag("single_word", false),
              .strips_left = fields.flag("lstrip", false),
              .strips_right = fields.flag("rstrip", false)};
  if (token.content.empty()) return;
  const bool special = fields.flag("special", false);
  const bool normalised = fields.flag("normalized", !special);
  token.sought = token.content;
  if (normalised && normalizer) {
    Word word{token.content};
    normalizer(word);
    token.sought = word.text;
    check_text_size(sought_bytes_ += token.sought.size());
  }
  texts_[token.id] = token.sought;
  ids_[token.content] = token.id;
  if (special) special_.insert(token.content);
  largest_id_ = std::max(largest_id_, token.id);
  if (token.sought.empty()) {
    if (!emptied_) emptied_ = std::move(token);
    return;
  }
  (normalised ? in_normalised_ : in_raw_)[token.sought[0]].push_back(std::move(token));
}

const std::string* AddedTokens::token(int32_t id) const {
  const auto found = texts_.find(id);
  return found == texts_.end() ? nullptr : &found->second;
}

std::optional<int32_t> AddedTokens::id(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const AddedTokens::Token* AddedTokens::find(std::string_view text, size_t at,
                                            const Sought& sought) {
  const auto found = sought.find(text[at]);
  if (found == sought.end()) return nullptr;
  for (const Token& token : found->second) {
    if (text.substr(at).starts_with(token.sought)) return &token;
  }
  return nullptr;
}

bool AddedTokens::is_apart(std::string_view text, size_t begin, size_t end) const {
  const auto in_word = [&](size_t from, size_t to) {
    return !in_word_.find_all(text.substr(from, to - from)).empty();
  };
  return !(begin > 0 && in_word(begin_before(text, begin), begin)) &&
         !(end < text.size() && in_word(end, end + length_at(text, end)));
}

std::vector<AddedTokens::Part> AddedTokens::split_at(const Word& word, const Sought& sought,
                                                     const Token* emptied) const {
  const std::string_view text = word.text;
  std::vector<Part> parts;
  size_t done = 0, spaces_end = 0;  // where the spaces end that were last removed
  std::optional<size_t> found_end;
  const auto add_word = [&](size_t end) {
    if (end > done) parts.push_back({word.part(done, end), {}});
  };
  for (size_t at = 0; !text.empty() && at <= text.size();) {
    const Token* token = at < text.size() ? find(text, at, sought) : nullptr;
    if (!token && found_end != at) token = emptied;
    const size_t next = at + (at < text.size() ? length_at(text, at) : 1);
    if (!token) {
      at = next;
      continue;
    }
    size_t begin = at, end = at + token->sought.size();
    at = end > begin ? end : next;
    found_end = end;
    if (token->single_word && !is_apart(text, begin, end)) continue;
    if (token->strips_left) begin = std::max(space_begin(text, begin, done), done);
    if (token->strips_right) {
      if (end >= spaces_end) spaces_end = space_end(text, end);
      end = spaces_end;
    }
    add_word(begin);
    if (begin < end) parts.push_back({{}, token->id});
    done = end;
  }
  add_word(text.size());
  return parts;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text) const {
  std::vector<Part> all;
  size_t bytes = 0;
  const Word whole{std::string(text), text.empty() ? 0 : length_at(text, 0), true};
  for (Part& part : split_at(whole, in_raw_, nullptr)) {
    if (part.token) {
      all.push_back(std::move(part));
      continue;
    }
    if (normalizer_) normalizer_(part.word);
    check_text_size(bytes += part.word.text.size());
    for (Part& inner : split_at(part.word, in_normalised_, emptied_ ? &*emptied_ : nullptr))
      all.push_back(std::move(inner));
  }
  return all;
}

}  // namespace tv::tokenizer
