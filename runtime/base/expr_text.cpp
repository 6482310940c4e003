// Text of expressions and its inverse; helpers over shapes.

#include <cctype>
#include <charconv>

#include "runtime/base/error.h"
#include "runtime/base/expr_internal.h"

namespace tv {
namespace {

const char* function_name(Expr::Atom::Kind kind) {
  switch (kind) {
    case Expr::Atom::Kind::kFloorDiv:
      return "floordiv";
    case Expr::Atom::Kind::kMod:
      return "mod";
    case Expr::Atom::Kind::kMax:
      return "max";
    case Expr::Atom::Kind::kMin:
      return "min";
    case Expr::Atom::Kind::kSymbol:
      break;
  }
  return "s";
}

/// Recursive descent over sums of products; depth-limited because files carry such text.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Expr whole() {
    const Expr e = sum(0);
    skip();
    if (at_ != text_.size()) fail("unexpected text");
    return e;
  }

 private:
  static constexpr int kMaxDepth = 64;
  static constexpr size_t kMaxText = 1 << 16;
  static constexpr size_t kMaxTerms = 512;  // brackets multiply out: (s0 + s1)*(s2 + s3)*…
  static constexpr size_t kMaxFactors = 64;

  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorKind::kUser, std::string("[expr] ") + what + " at character " +
                                      std::to_string(at_) + " of '" +
                                      std::string(text_.substr(0, 80)) + "'");
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void want(char c) {
    if (!take(c)) fail("a bracket or comma is missing");
  }
  Expr sum(int depth) {
    if (depth > kMaxDepth || text_.size() > kMaxText) fail("too deep or too long");
    Expr total = product(depth);
    for (;;) {
      if (ExprAccess::sum(total).size() > kMaxTerms) fail("too many terms");
      if (take('+')) {
        total += product(depth);
      } else if (take('-')) {
        total = total - product(depth);
      } else {
        return total;
      }
    }
  }
  Expr product(int depth) {
    Expr p = factor(depth);
    for (size_t factors = 1; take('*'); ++factors) {
      const Expr f = factor(depth);
      const size_t terms = ExprAccess::sum(p).size() * ExprAccess::sum(f).size();
      if (factors == kMaxFactors || terms > kMaxTerms) fail("too many terms");
      p *= f;
    }
    return p;
  }
  Expr factor(int depth) {
    if (take('(')) {
      const Expr e = sum(depth + 1);
      want(')');
      return e;
    }
    skip();
    if (at_ < text_.size() &&
        (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')) {
      return integer<int64_t>();
    }
    size_t end = at_;
    while (end < text_.size() && std::isalpha(static_cast<unsigned char>(text_[end]))) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    if (word == "s") return Expr::symbol(integer<int32_t>());
    return function(word, depth);
  }
  Expr function(std::string_view word, int depth) {
    want('(');
    const Expr a = sum(depth + 1);
    want(',');
    const Expr b = sum(depth + 1);
    want(')');
    if (word == "floordiv") return floordiv(a, b);
    if (word == "mod") return mod(a, b);
    if (word == "max") return max(a, b);
    if (word == "min") return min(a, b);
    fail("unknown function");
  }
  template <typename T>
  T integer() {
    T value{};
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number is missing or too large");
    at_ = end - text_.data();
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string Expr::str() const {
  const Sum& sum = ExprAccess::sum(*this);
  if (sum.empty()) return "0";
  std::string text;
  // The constant comes first in the map and reads better last.
  auto append = [&](const Term& term, int64_t c) {
    if (!text.empty()) text += " + ";
    if (term.empty() || c != 1) text += std::to_string(c);
    bool star = !term.empty() && c != 1;
    for (const AtomRef& atom : term) {
      if (star) text += "*";
      star = true;
      text += function_name(atom->kind);
      if (atom->kind == Atom::Kind::kSymbol) {
        text += std::to_string(atom->symbol);
      } else {
        text += "(" + atom->a.str() + ", " + atom->b.str() + ")";
      }
    }
  };
  for (const auto& [term, c] : sum) {
    if (!term.empty()) append(term, c);
  }
  if (sum.begin()->first.empty()) append({}, sum.begin()->second);
  return sum.size() > 1 ? "(" + text + ")" : text;
}

Expr Expr::parse(std::string_view text) { return Parser(text).whole(); }

Expr product(std::span<const Expr> dims) {
  Expr p = 1;
  for (const Expr& d : dims) p *= d;
  return p;
}

Shape contiguous_strides(std::span<const Expr> shape) {
  Shape strides(shape.size());
  Expr stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

}  // namespace tv
