#include "csrc/tokenizer/tokenizer.h"

#include <algorithm>

#include "csrc/tokenizer/added_tokens.h"
#include "csrc/tokenizer/bpe.h"
#include "csrc/tokenizer/decoder.h"
#include "csrc/tokenizer/fields.h"
#include "csrc/tokenizer/normalizer.h"
#include "csrc/tokenizer/pre_tokenizer.h"
#include "csrc/tokenizer/text_size.h"
#include "csrc/tokenizer/unicode.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace tv::tokenizer {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr size_t kMostAround = 4096;  // tokens around a text

/// Tokens that are put around every text.
struct Frame {
  std::vector<int32_t> before, after;
};

/// A template names the same long list any number of times.
void check_around(const Fields& fields, size_t tokens) {
  if (tokens > kMostAround) {
    fields.refuse("more than " + std::to_string(kMostAround) + " tokens around a text");
  }
}

void add_tokens(const Fields& special, const std::string& name, std::vector<int32_t>& to) {
  const Fields token(special.at(name), "post_processor.special_tokens");
  check_around(token, token.array("ids").size());
  for (const Json& json : token.array("ids")) {
    const auto* id = json.get<int64_t>();
    if (!id || *id < 0 || *id >= INT32_MAX) token.refuse("got a number that is no token's");
    to.push_back(static_cast<int32_t>(*id));
  }
}

Frame read_template(const Fields& fields) {
  fields.only({"type", "single", "pair", "special_tokens"});
  const Fields special(fields.at("special_tokens"), "post_processor.special_tokens");
  Frame frame;
  bool behind = false;
  for (const Json& json : fields.array("single")) {
    const Fields item(json, "post_processor.single");
    item.only({"Sequence", "SpecialToken"});
    if (item.find("Sequence")) {
      if (behind) item.refuse("got the text twice");
      behind = true;
      continue;
    }
    const Fields token(item.at("SpecialToken"), "post_processor.single.SpecialToken");
    std::vector<int32_t>& to = behind ? frame.after : frame.before;
    add_tokens(special, token.text("id"), to);
    check_around(fields, to.size());
  }
  if (!behind) fields.refuse("'single' is without the text");
  return frame;
}

Frame read_post_processor(const Json& json) {
  const Fields fields(json, "post_processor");
  const std::string& type = fields.text("type");
  if (type == "ByteLevel") return {};  // says where tokens come from in a text
  if (type == "TemplateProcessing") return read_template(fields);
  if (type != "Sequence") fields.refuse("type '" + type + "' is not supported");
  fields.only({"type", "processors"});
  Frame frame;
  for (const Json& step : fields.array("processors")) {
    Frame outer = read_post_processor(step);
    frame.before.insert(frame.before.begin(), outer.before.begin(), outer.before.end());
    frame.after.insert(frame.after.end(), outer.after.begin(), outer.after.end());
    check_around(fields, std::max(frame.before.size(), frame.after.size()));
  }
  return frame;
}

template <typename T>
T read_member(const Fields& fields, std::string_view name, T (*read)(const Json&)) {
  const Json* json = fields.find(name);
  if (!json) return T{};
  check_steps(*json, std::string(name));
  return read(*json);
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(const Fields& fields)
      : model(fields.at("model")),
        added(fields.find("added_tokens"), model,
              read_member(fields, "normalizer", read_normalizer)),
        pre_tokenizer(read_member(fields, "pre_tokenizer", read_pre_tokenizer)),
        decoder(read_member(fields, "decoder", read_decoder)),
        frame(read_member(fields, "post_processor", read_post_processor)) {}

  Bpe model;
  AddedTokens added;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  Frame frame;
};

Tokenizer Tokenizer::parse(std::string_view json, const std::string& what) {
  const Json parsed = Json::parse(json, what);
  const Fields fields(parsed, what);
  fields.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
               "post_processor", "decoder", "model"});
  return Tokenizer(std::make_shared<const Parts>(fields));
}

Tokenizer Tokenizer::read(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kMostBytes);
  try {
    return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(error.what()) + " (in " + path + ")");
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  if (!is_utf8(text)) throw Error(ErrorKind::kUser, "[tokenizer] the text is no UTF-8");
  check_text_size(text.size());
  size_t bytes = 0;
  std::vector<int32_t> tokens = parts_->frame.before;
  for (AddedTokens::Part& part : parts_->added.split(text)) {
    if (part.token) {
      tokens.push_back(*part.token);
      continue;
    }
    std::vector<Word> words;
    if (parts_->pre_tokenizer) {
      words = parts_->pre_tokenizer(part.word);
    } else {
      words.push_back(std::move(part.word));
    }
    for (const Word& word : words) {
      check_text_size(bytes += word.text.size());
      parts_->model.encode(word.text, tokens);
    }
  }
  tokens.insert(tokens.end(), parts_->frame.after.begin(), parts_->frame.after.end());
  return tokens;
}

std::string Tokenizer::decode(const std::vector<int32_t>& tokens) const {
  std::vector<std::string> pieces;
  size_t bytes = 0;
  for (const int32_t id : tokens) {
    const std::string* token = parts_->added.token(id);
    if (!token) token = parts_->model.token(id);
    if (!token || parts_->added.is_special(*token)) continue;
    check_text_size(bytes += token->size());
    pieces.push_back(*token);
  }
  const char* between = "";
  if (parts_->decoder) {
    pieces = parts_->decoder(std::move(pieces));
  } else {
    between = " ";
  }
  std::string text;
  for (size_t i = 0; i < pieces.size(); ++i) text += (i ? between : "") + pieces[i];
  return text;
}

std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  const auto added = parts_->added.id(token);
  return added ? added : parts_->model.id(token);
}

int32_t Tokenizer::largest_id() const {
  int32_t largest = std::max(parts_->model.largest_id(), parts_->added.largest_id());
  for (const auto* around : {&parts_->frame.before, &parts_->frame.after}) {
    for (const int32_t id : *around) largest = std::max(largest, id);
  }
  return largest;
}

TextStream::TextStream(Tokenizer tokenizer, std::vector<int32_t> before)
    : tokenizer_(std::move(tokenizer)),
      tokens_(std::move(before)),
      said_(tokenizer_.decode(tokens_)),
      said_tokens_(tokens_.size()) {}

std::string TextStream::push(int32_t token) {
  tokens_.push_back(token);
  const std::string text = tokenizer_.decode(tokens_);
  // U+FFFD at the end may become a character.
  if (text.size() <= said_.size() || text.ends_with("\xEF\xBF\xBD")) return "";
  std::string fresh = text.substr(said_.size());
  // From here on the tokens of `fresh` are what comes before.
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(said_tokens_));
  said_ = tokenizer_.decode(tokens_);
  said_tokens_ = tokens_.size();
  return fresh;
}

std::string TextStream::end() {
  const std::string text = tokenizer_.decode(tokens_);
  return text.size() > said_.size() ? text.substr(said_.size()) : "";
}

}  // namespace tv::tokenizer
