#include "csrc/tokenizer/decoder.h"

#include <charconv>
#include <optional>

#include "csrc/tokenizer/byte_characters.h"
#include "csrc/tokenizer/fields.h"
#include "csrc/tokenizer/pattern.h"
#include "csrc/tokenizer/text_size.h"
#include "csrc/tokenizer/unicode.h"

namespace tv::tokenizer {
namespace {

using Pieces = std::vector<std::string>;

size_t bytes_of(const Pieces& pieces) {
  size_t bytes = 0;
  for (const std::string& piece : pieces) bytes += piece.size();
  return bytes;
}

Decoder read_sequence(const Fields& fields) {
  fields.only({"type", "decoders"});
  std::vector<Decoder> steps;
  for (const Json& json : fields.array("decoders")) steps.push_back(read_decoder(json));
  return [steps](Pieces pieces) {
    const size_t given = bytes_of(pieces);
    for (const Decoder& step : steps) {
      pieces = step(std::move(pieces));
      check_growth(bytes_of(pieces), given);
    }
    return pieces;
  };
}

Decoder each(std::function<std::string(const std::string&)> change) {
  return [change = std::move(change)](Pieces pieces) {
    size_t bytes = 0;
    for (std::string& piece : pieces) {
      piece = change(piece);
      check_text_size(bytes += piece.size());
    }
    return pieces;
  };
}

Pieces decode_bytes(const Pieces& pieces) {
  std::string bytes;
  for (const std::string& piece : pieces) bytes += from_byte_characters(piece).value_or(piece);
  return {replaced_faults(bytes)};
}

/// The byte that "<0x0A>" names.
std::optional<char> byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

/// Tokens of bytes in a row are characters, or U+FFFD for each byte.
Pieces join_bytes(const Pieces& pieces) {
  Pieces out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_utf8(bytes)) {
      out.push_back(bytes);
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) out.emplace_back("\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (const std::string& piece : pieces) {
    if (const auto byte = byte_of(piece)) {
      bytes += *byte;
    } else {
      flush();
      out.push_back(piece);
    }
  }
  flush();
  return out;
}

Pieces fuse(const Pieces& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return {text};
}

Decoder read_replace(const Fields& fields) {
  fields.only({"type", "pattern", "content"});
  return each([pattern = read_pattern(fields, "pattern"), content = fields.text("content")](
                  const std::string& piece) { return replaced(piece, pattern, content); });
}

Decoder read_strip(const Fields& fields) {
  fields.only({"type", "content", "start", "stop"});
  std::string content;
  append(content, fields.character("content"));
  const int64_t most_front = fields.whole("start"), most_back = fields.whole("stop");
  return each([=](const std::string& piece) {
    std::string_view left = piece;
    for (int64_t i = 0; i < most_front && left.starts_with(content); ++i) {
      left.remove_prefix(content.size());
    }
    for (int64_t i = 0; i < most_back && left.ends_with(content); ++i) {
      left.remove_suffix(content.size());
    }
    return std::string(left);
  });
}

Decoder read_metaspace(const Fields& fields) {
  fields.only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  std::string mark;
  append(mark, fields.character("replacement"));
  const bool never = fields.find("prepend_scheme") ? fields.text("prepend_scheme") == "never"
                                                   : !fields.flag("add_prefix_space", true);
  return [=](Pieces pieces) {
    const Pattern marks = [&](std::string_view text) { return find_literal(mark, text); };
    for (size_t i = 0; i < pieces.size(); ++i) {
      pieces[i] = replaced(pieces[i], marks, i == 0 && !never ? "" : " ");
    }
    return pieces;
  };
}

}  // namespace

Decoder read_decoder(const Json& json) {
  const Fields fields(json, "decoder");
  const std::string& type = fields.text("type");
  if (type == "Sequence") return read_sequence(fields);
  if (type == "Replace") return read_replace(fields);
  if (type == "Strip") return read_strip(fields);
  if (type == "Metaspace") return read_metaspace(fields);
  if (type == "ByteLevel") {
    fields.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return decode_bytes;
  }
  if (type == "ByteFallback") {
    fields.only({"type"});
    return join_bytes;
  }
  if (type == "Fuse") {
    fields.only({"type"});
    return fuse;
  }
  fields.refuse("type '" + type + "' is not supported");
}

}  // namespace tv::tokenizer
