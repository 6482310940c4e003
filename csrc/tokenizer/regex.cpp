#include "csrc/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <new>

#include "csrc/tokenizer/unicode.h"
#include "runtime/base/error.h"

namespace tv::tokenizer {
namespace {

[[noreturn]] void refuse(std::string_view pattern, const std::string& why) {
  throw Error(ErrorKind::kUser,
              "[tokenizer] regular expression '" + std::string(pattern) + "': " + why);
}

/// Members of \w inside of a class, as Oniguruma has them.
constexpr std::string_view kWordMembers = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
/// Outside of one it reads a table of ISO 8859-1, too, in which superscripts and fractions are.
constexpr std::string_view kWordOfLatin1 = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

/// Whether PCRE2 knows a script of this name, and that its characters may be asked for.
bool is_script(std::string_view name) {
  const std::string pattern = R"(\p{sc:)" + std::string(name) + "}";
  int error = 0;
  size_t where = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF, &error, &where, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

/// Oniguruma's syntax as PCRE2's: what both read in the same way stays, what has another spelling
/// gets it, and everything else is refused.
class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  std::string made() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        member(c);
      } else {
        outside(c);
      }
    }
    return std::move(out_);
  }

 private:
  char peek(size_t ahead) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void take(size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }
  void put(std::string_view text, size_t for_count) {
    out_ += text;
    at_ += for_count;
  }

  static std::string word(const std::string& begin) {
    return begin + std::string(kWordMembers) + std::string(kWordOfLatin1) + "]";
  }

  void escape() {
    const char c = peek(1);
    switch (c) {
      case 's':  // PCRE2's has U+180E, too
        return put(R"(\p{White_Space})", 2);
      case 'S':
        return put(R"(\P{White_Space})", 2);
      case 'w':
        return put(in_class_ ? std::string(kWordMembers) : word("["), 2);
      case 'W':
        if (in_class_) refuse(pattern_, R"(got \W in a class, which is not supported)");
        return put(word("[^"), 2);
      case 'v':  // one character there, a set here
        return put(R"(\x0b)", 2);
      case 'p':
      case 'P':
        return property();
      case 'x':
      case 'u':
        return number();
      default:
        if (std::string_view("dDnrtf").find(c) == std::string_view::npos &&
            (c == '\0' || !std::ispunct(static_cast<unsigned char>(c)))) {
          refuse(pattern_, std::string("got \\") + c + ", which is not supported");
        }
        take(2);
    }
  }

  void property() {
    const size_t end = pattern_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos) {
      refuse(pattern_, R"(got \p without {…})");
    }
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    const bool inverted = name.starts_with('^');
    if (inverted) name.remove_prefix(1);
    if (name.find_first_of(":=") != std::string_view::npos) {
      refuse(pattern_, "got " + std::string(pattern_.substr(at_, end + 1 - at_)) +
                           ", which is not supported");
    }
    // A script's name means its own characters; PCRE2's has those that it shares with others, too.
    take(3);
    put(inverted ? "^" : "", inverted ? 1 : 0);
    if (is_script(name)) out_ += "sc:";
    take(name.size() + 1);
  }

  void number() {
    if (peek(1) == 'x' && peek(2) == '{') {
      const size_t end = pattern_.find('}', at_);
      if (end == std::string_view::npos) refuse(pattern_, R"(got \x{ without })");
      return take(end + 1 - at_);
    }
    const size_t digits = peek(1) == 'u' ? 4 : 2;
    for (size_t i = 0; i < digits; ++i) {
      if (!std::isxdigit(static_cast<unsigned char>(peek(2 + i)))) {
        refuse(pattern_, std::string("got \\") + peek(1) + " without " + std::to_string(digits) +
                             " hexadecimal digits");
      }
    }
    if (digits == 2 && peek(2) > '7') refuse(pattern_, R"(got a byte that is no character)");
    out_ += "\\x{" + std::string(pattern_.substr(at_ + 2, digits)) + "}";
    at_ += 2 + digits;
  }

  void member(char c) {
    if (c == '[') refuse(pattern_, "got a class in a class, which is not supported");
    if (c == '&' && peek(1) == '&') refuse(pattern_, "got &&, which is not supported");
    if (c == ']' && at_ > first_member_) in_class_ = false;
    take(1);
  }

  void outside(char c) {
    if (c == '[') {
      in_class_ = true;
      take(peek(1) == '^' ? 2 : 1);
      first_member_ = at_;
      return;
    }
    if (c == '(' && (peek(1) == '?' || peek(1) == '*')) group();
    // Oniguruma repeats what is repeated, PCRE2 makes it possessive.
    if (c == '}' && peek(1) == '+') refuse(pattern_, "got }+, which is not supported");
    if (c == '{') return interval();
    take(1);
  }

  void interval() {
    size_t digits = 0;
    const auto is_digit = [&](size_t at) {
      return std::isdigit(static_cast<unsigned char>(peek(at)));
    };
    while (is_digit(1 + digits)) ++digits;
    // There it is (a{n})?, and here a{n}.
    if (digits > 0 && peek(1 + digits) == '}' && peek(2 + digits) == '?') {
      refuse(pattern_, "got {n}?, which is not supported");
    }
    size_t end = 2;
    while (is_digit(end)) ++end;
    const bool from_none = peek(1) == ',' && end > 2 && peek(end) == '}';
    put(from_none ? "{0" : "{", 1);  // {,n} would be these characters
  }

  void group() const {
    const std::string_view rest = pattern_.substr(at_);
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"}) {
      if (rest.starts_with(known)) return;
    }
    refuse(pattern_, "got " + std::string(rest.substr(0, 4)) + ", which is not supported");
  }

  std::string_view pattern_;
  std::string out_;
  size_t at_ = 0, first_member_ = 0;
  bool in_class_ = false;
};

std::string message_of(int code) {
  unsigned char text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

/// Steps that a search may take from each character before it goes on from there by itself, and
/// bytes of a text's matching. PCRE2 counts a limit anew at each character.
constexpr uint32_t kQuickSteps = 1000, kHeapKibibytes = 65536;

/// What a text may take beside the quick searches: those alone stay in proportion to its length.
uint64_t most_steps(size_t bytes) {
  const uint64_t length = bytes + 16;
  return std::min(4096 * length, (uint64_t{1} << 26) + 16 * length);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct Free {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

/// One text's matches, within the limits.
class Search {
 public:
  Search(const pcre2_code* code, std::string_view text)
      : code_(code),
        text_(text),
        left_(most_steps(text.size())),
        data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    if (!data_ || !context_) throw std::bad_alloc();
    pcre2_set_heap_limit(context_.get(), kHeapKibibytes);
  }

  /// The first match from `at` on: 1, or PCRE2's error.
  int find(size_t at) {
    int found = match(at, 0, kQuickSteps);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(at, PCRE2_NO_JIT, kQuickSteps);
    return found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_DEPTHLIMIT ? find_slowly(at)
                                                                              : found;
  }
  Span last() const {
    const size_t* ends = pcre2_get_ovector_pointer(data_.get());
    return {ends[0], ends[1]};
  }

 private:
  int match(size_t at, uint32_t options, uint32_t limit) {
    pcre2_set_match_limit(context_.get(), limit);
    pcre2_set_depth_limit(context_.get(), limit);
    return pcre2_match(code_, units(text_), text_.size(), at, PCRE2_NO_UTF_CHECK | options,
                       data_.get(), context_.get());
  }

  /// One character after the other, each with more and more steps, which are counted.
  int find_slowly(size_t at) {
    while (true) {
      int found = PCRE2_ERROR_MATCHLIMIT;
      for (uint64_t steps = kQuickSteps;
           found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_DEPTHLIMIT; steps *= 2) {
        if (steps > left_) return PCRE2_ERROR_MATCHLIMIT;
        found = match(at, PCRE2_ANCHORED | PCRE2_NO_JIT, static_cast<uint32_t>(steps));
        if (steps > kQuickSteps) left_ -= steps;
      }
      if (found != PCRE2_ERROR_NOMATCH || at >= text_.size()) return found;
      at += length_at(text_, at);
    }
  }

  const pcre2_code* code_;
  std::string_view text_;
  uint64_t left_;
  std::unique_ptr<pcre2_match_data, Free> data_;
  std::unique_ptr<pcre2_match_context, Free> context_;
};

}  // namespace

struct Regex::Code {
  explicit Code(std::string_view pattern) : text(pattern) {
    const std::string translated = Translation(pattern).made();
    int error = 0;
    size_t where = 0;
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    code = pcre2_compile(units(translated), translated.size(), options, &error, &where, nullptr);
    if (!code) refuse(pattern, message_of(error));
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it matching takes longer
  }
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;

  std::string text;
  pcre2_code* code = nullptr;
};

Regex::Regex(std::string_view pattern) : code_(std::make_shared<const Code>(pattern)) {}

std::vector<Span> Regex::find_all(std::string_view text) const {
  Search search(code_->code, text);
  std::vector<Span> found;
  for (size_t at = 0; at <= text.size();) {
    const int count = search.find(at);
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count == PCRE2_ERROR_MATCHLIMIT || count == PCRE2_ERROR_HEAPLIMIT) {
      refuse(code_->text, "it takes too many steps, or too much memory, on a text of " +
                              std::to_string(text.size()) +
                              " bytes; split the text, or mend the expression in the file");
    }
    if (count < 0) refuse(code_->text, message_of(count));
    const Span match = search.last();
    if (match.begin == match.end && !found.empty() && found.back().end == match.end) {
      at = match.end < text.size() ? match.end + length_at(text, match.end) : text.size() + 1;
      continue;  // nothing, directly behind a match, is none
    }
    found.push_back(match);
    at = match.end;
  }
  return found;
}

std::vector<Span> find_literal(std::string_view literal, std::string_view text) {
  std::vector<Span> found;
  for (size_t at = text.find(literal); at != std::string_view::npos;
       at = text.find(literal, at + literal.size())) {
    found.push_back({at, at + literal.size()});
  }
  return found;
}

}  // namespace tv::tokenizer
