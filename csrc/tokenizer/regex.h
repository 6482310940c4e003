#pragma once
// Regular expressions of tokenizer files, matched by PCRE2.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tv::tokenizer {

/// Bytes [begin, end) of a text.
struct Span {
  size_t begin = 0, end = 0;
};

/// A compiled expression. Immutable, shared by copies and threads.
class Regex {
 public:
  /// `pattern` in Oniguruma's syntax, as the tokenizers library reads it. Throws Error(kUser) for
  /// what is none, and for what PCRE2 would read differently, naming it.
  explicit Regex(std::string_view pattern);

  /// The matches in `text` from left to right, none within another. Throws Error(kUser) where
  /// matching takes more than some 4096 steps for each byte, or 64 MiB.
  std::vector<Span> find_all(std::string_view text) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

/// Members of \w inside of a class where the library takes Rust's expressions, not a file's.
inline constexpr std::string_view kRustWordMembers =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control})";

/// Where `literal`, which is not empty, stands in `text`, from left to right.
std::vector<Span> find_literal(std::string_view literal, std::string_view text);

}  // namespace tv::tokenizer
