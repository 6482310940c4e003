#include "runtime/base/expr.h"

#include <algorithm>
#include <compare>

#include "runtime/base/error.h"
#include "runtime/base/expr_internal.h"

namespace tv {

namespace {

using Atom = Expr::Atom;
using AtomRef = Expr::AtomRef;
using Term = Expr::Term;
using Sum = Expr::Sum;
using Kind = Atom::Kind;

std::strong_ordering compare(const Expr& a, const Expr& b);

std::strong_ordering compare(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (auto c = a.kind <=> b.kind; c != 0) return c;
  if (a.kind == Kind::kSymbol) return a.symbol <=> b.symbol;
  if (auto c = compare(a.a, b.a); c != 0) return c;
  return compare(a.b, b.b);
}

std::strong_ordering compare(const Term& a, const Term& b) {
  if (auto c = a.size() <=> b.size(); c != 0) return c;
  for (size_t i = 0; i < a.size(); ++i) {
    if (auto c = compare(*a[i], *b[i]); c != 0) return c;
  }
  return std::strong_ordering::equal;
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) {
    throw Error(ErrorKind::kUser, "[shape] a size passes 2^63; got a sum that overflows");
  }
  return r;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) {
    throw Error(ErrorKind::kUser, "[shape] a size passes 2^63; got a product that overflows");
  }
  return r;
}

int64_t floordiv_int(int64_t a, int64_t b) {
  if (b == 0) throw Error(ErrorKind::kUser, "[shape] division by a dimension of size 0");
  if (b == -1) return checked_mul(a, -1);
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

int64_t mod_int(int64_t a, int64_t b) {
  if (b == -1) return 0;
  return a - floordiv_int(a, b) * b;
}

int64_t apply(Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case Kind::kFloorDiv:
      return floordiv_int(a, b);
    case Kind::kMod:
      return mod_int(a, b);
    case Kind::kMax:
      return std::max(a, b);
    case Kind::kMin:
      return std::min(a, b);
    case Kind::kSymbol:
      break;
  }
  throw Error(ErrorKind::kInternal, "[expr] a symbol is not a function");
}

constexpr int64_t kInf = kUnbounded;
constexpr int64_t kMinusInf = -kUnbounded;

int64_t saturated_add(int64_t a, int64_t b) {
  if (a == kInf || b == kInf) return kInf;
  if (a == kMinusInf || b == kMinusInf) return kMinusInf;
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return a > 0 ? kInf : kMinusInf;
  return std::clamp(r, kMinusInf, kInf);
}

int64_t saturated_mul(int64_t a, int64_t b) {
  int64_t r;
  if (a == 0 || b == 0) return 0;
  const bool infinite = a == kInf || a == kMinusInf || b == kInf || b == kMinusInf;
  if (infinite || __builtin_mul_overflow(a, b, &r)) return (a < 0) == (b < 0) ? kInf : kMinusInf;
  return std::clamp(r, kMinusInf, kInf);
}

using Bounds = std::pair<int64_t, int64_t>;

Bounds multiply(const Bounds& a, const Bounds& b) {
  const int64_t p[4] = {saturated_mul(a.first, b.first), saturated_mul(a.first, b.second),
                        saturated_mul(a.second, b.first), saturated_mul(a.second, b.second)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

int64_t divide_bound(int64_t a, int64_t b) {
  if (a == kInf || a == kMinusInf) return b > 0 ? a : -a;
  if (b == kInf || b == kMinusInf) return (a < 0) != (b < 0) && a != 0 ? -1 : 0;
  return floordiv_int(a, b);
}

Bounds divide(const Bounds& a, const Bounds& b) {
  if (b.first <= 0 && b.second >= 0) return {kMinusInf, kInf};
  const int64_t q[4] = {divide_bound(a.first, b.first), divide_bound(a.first, b.second),
                        divide_bound(a.second, b.first), divide_bound(a.second, b.second)};
  return {*std::min_element(q, q + 4), *std::max_element(q, q + 4)};
}

Bounds remainder(const Bounds& a, const Bounds& b) {
  if (b.first <= 0) return {kMinusInf, kInf};
  if (a.first >= 0 && a.second < b.first) return a;
  return {0, b.second == kInf ? kInf : b.second - 1};
}

}  // namespace

bool Expr::TermLess::operator()(const Term& a, const Term& b) const { return compare(a, b) < 0; }

Expr::Expr(int64_t value) {
  if (value != 0) sum_ = std::make_shared<const Sum>(Sum{{Term{}, value}});
}

Expr::Expr(Sum sum) {
  if (!sum.empty()) sum_ = std::make_shared<const Sum>(std::move(sum));
}

Expr Expr::symbol(int32_t id) {
  auto atom = std::make_shared<Atom>();
  atom->symbol = id;
  return Expr(Sum{{Term{std::move(atom)}, 1}});
}

bool Expr::is_constant() const {
  return !sum_ || (sum_->size() == 1 && sum_->begin()->first.empty());
}

std::optional<int64_t> Expr::constant() const {
  if (!sum_) return 0;
  if (is_constant()) return sum_->begin()->second;
  return std::nullopt;
}

namespace {

std::strong_ordering compare(const Expr& a, const Expr& b) {
  if (ExprAccess::same(a, b)) return std::strong_ordering::equal;
  const Sum& x = ExprAccess::sum(a);
  const Sum& y = ExprAccess::sum(b);
  if (auto c = x.size() <=> y.size(); c != 0) return c;
  for (auto i = x.begin(), j = y.begin(); i != x.end(); ++i, ++j) {
    if (auto c = compare(i->first, j->first); c != 0) return c;
    if (auto c = i->second <=> j->second; c != 0) return c;
  }
  return std::strong_ordering::equal;
}

void add_term(Sum& sum, const Term& term, int64_t coefficient) {
  auto [it, inserted] = sum.try_emplace(term, coefficient);
  if (!inserted) it->second = checked_add(it->second, coefficient);
  if (it->second == 0) sum.erase(it);
}

/// term / divisor as a product of atoms, where the divisor's atoms all occur in it.
std::optional<Term> divide_term(const Term& term, const Term& divisor) {
  Term rest = term;
  for (const AtomRef& d : divisor) {
    auto it = std::find_if(rest.begin(), rest.end(),
                           [&](const AtomRef& t) { return compare(*t, *d) == 0; });
    if (it == rest.end()) return std::nullopt;
    rest.erase(it);
  }
  return rest;
}

/// Splits a = b * quotient + rest, taking into the quotient each term that b divides exactly.
/// Only for b of a single term.
std::pair<Expr, Expr> split_exact(const Expr& a, const Expr& b) {
  const auto& [divisor, coefficient] = *ExprAccess::sum(b).begin();
  Sum quotient, rest;
  for (const auto& [term, c] : ExprAccess::sum(a)) {
    auto divided = divide_term(term, divisor);
    if (divided && mod_int(c, coefficient) == 0) {
      add_term(quotient, *divided, floordiv_int(c, coefficient));
    } else {
      add_term(rest, term, c);
    }
  }
  return {ExprAccess::make(std::move(quotient)), ExprAccess::make(std::move(rest))};
}

}  // namespace

Expr operator+(const Expr& a, const Expr& b) {
  if (!a.sum_) return b;
  if (!b.sum_) return a;
  Sum sum = *a.sum_;
  for (const auto& [term, c] : *b.sum_) add_term(sum, term, c);
  return Expr(std::move(sum));
}

Expr operator*(const Expr& a, const Expr& b) {
  if (!a.sum_ || !b.sum_) return Expr();
  Sum sum;
  for (const auto& [ta, ca] : *a.sum_) {
    for (const auto& [tb, cb] : *b.sum_) {
      Term term;
      std::merge(ta.begin(), ta.end(), tb.begin(), tb.end(), std::back_inserter(term),
                 [](const AtomRef& x, const AtomRef& y) { return compare(*x, *y) < 0; });
      add_term(sum, term, checked_mul(ca, cb));
    }
  }
  return Expr(std::move(sum));
}

Expr operator-(const Expr& a, const Expr& b) { return a + Expr(-1) * b; }

bool operator==(const Expr& a, const Expr& b) { return compare(a, b) == 0; }

Expr floordiv(const Expr& a, const Expr& b) {
  const auto x = a.constant(), y = b.constant();
  if (x && y) return floordiv_int(*x, *y);
  if (y && *y == 0) throw Error(ErrorKind::kUser, "[shape] division by a dimension of size 0");
  if (y && *y == 1) return a;
  if (x && *x == 0) return 0;
  if (ExprAccess::sum(b).size() == 1) {
    auto [quotient, rest] = split_exact(a, b);
    if (auto r = rest.constant()) {
      if (*r == 0) return quotient;
      // floor(q + r/y) = q + floor(r/y) for a constant divisor.
      if (y) return quotient + floordiv_int(*r, *y);
    } else if (y && !quotient.is_constant()) {
      return quotient + floordiv(rest, b);
    }
  } else if (a == b) {
    return 1;
  }
  return ExprAccess::function(Kind::kFloorDiv, a, b);
}

Expr mod(const Expr& a, const Expr& b) {
  const auto x = a.constant(), y = b.constant();
  if (x && y) return mod_int(*x, *y);
  if (y && *y == 0) throw Error(ErrorKind::kUser, "[shape] division by a dimension of size 0");
  if (y && (*y == 1 || *y == -1)) return 0;
  if (ExprAccess::sum(b).size() == 1) {
    auto [quotient, rest] = split_exact(a, b);
    if (auto r = rest.constant(); r && *r == 0) return 0;
    if (rest.is_constant() && y) return mod_int(*rest.constant(), *y);
    if (!(quotient == Expr())) return mod(rest, b);
  } else if (a == b) {
    return 0;
  }
  return ExprAccess::function(Kind::kMod, a, b);
}

Expr max(const Expr& a, const Expr& b) {
  const auto d = (a - b).constant();
  if (d) return *d >= 0 ? a : b;
  const bool ordered = compare(a, b) < 0;
  return ExprAccess::function(Kind::kMax, ordered ? a : b, ordered ? b : a);
}

Expr min(const Expr& a, const Expr& b) {
  const auto d = (a - b).constant();
  if (d) return *d <= 0 ? a : b;
  const bool ordered = compare(a, b) < 0;
  return ExprAccess::function(Kind::kMin, ordered ? a : b, ordered ? b : a);
}

Expr ceil_div(const Expr& a, const Expr& b) { return floordiv(a + b - 1, b); }

Expr round_up(const Expr& a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }

int64_t Expr::eval(std::span<const int64_t> values) const {
  try {
    return ExprAccess::eval(*this, values);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    throw Error(ErrorKind::kUnsupported, error.what());
  }
}

int64_t ExprAccess::eval(const Expr& expr, std::span<const int64_t> values) {
  int64_t total = 0;
  for (const auto& [term, c] : sum(expr)) {
    int64_t p = c;
    for (const AtomRef& atom : term) {
      int64_t v;
      if (atom->kind == Kind::kSymbol) {
        if (atom->symbol < 0 || static_cast<size_t>(atom->symbol) >= values.size()) {
          throw Error(ErrorKind::kInternal, "[expr] no value for symbol s" +
                                                std::to_string(atom->symbol) + " in " + expr.str());
        }
        v = values[atom->symbol];
      } else {
        v = apply(atom->kind, eval(atom->a, values), eval(atom->b, values));
      }
      p = checked_mul(p, v);
    }
    total = checked_add(total, p);
  }
  return total;
}

std::pair<int64_t, int64_t> Expr::bounds(std::span<const Symbol> table) const {
  Bounds total{0, 0};
  for (const auto& [term, c] : ExprAccess::sum(*this)) {
    Bounds p{c, c};
    for (const AtomRef& atom : term) {
      Bounds v{kMinusInf, kInf};
      if (atom->kind == Kind::kSymbol) {
        if (atom->symbol >= 0 && static_cast<size_t>(atom->symbol) < table.size()) {
          v = {table[atom->symbol].min, table[atom->symbol].max};
        }
      } else {
        const Bounds a = atom->a.bounds(table), b = atom->b.bounds(table);
        switch (atom->kind) {
          case Kind::kMax:
            v = {std::max(a.first, b.first), std::max(a.second, b.second)};
            break;
          case Kind::kMin:
            v = {std::min(a.first, b.first), std::min(a.second, b.second)};
            break;
          case Kind::kFloorDiv:
            v = divide(a, b);
            break;
          case Kind::kMod:
            v = remainder(a, b);
            break;
          case Kind::kSymbol:
            break;
        }
      }
      p = multiply(p, v);
    }
    total = {saturated_add(total.first, p.first), saturated_add(total.second, p.second)};
  }
  return total;
}

namespace {

void collect(const Expr& e, std::vector<int32_t>& ids) {
  for (const auto& [term, c] : ExprAccess::sum(e)) {
    for (const AtomRef& atom : term) {
      if (atom->kind == Kind::kSymbol) {
        ids.push_back(atom->symbol);
      } else {
        collect(atom->a, ids);
        collect(atom->b, ids);
      }
    }
  }
}

}  // namespace

std::vector<int32_t> Expr::symbols() const {
  std::vector<int32_t> ids;
  collect(*this, ids);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Expr Expr::substitute(std::span<const Expr> values) const {
  Expr total;
  for (const auto& [term, c] : ExprAccess::sum(*this)) {
    Expr p = c;
    for (const AtomRef& atom : term) {
      if (atom->kind == Kind::kSymbol) {
        if (atom->symbol < 0 || static_cast<size_t>(atom->symbol) >= values.size()) {
          throw Error(ErrorKind::kInternal, "[expr] no replacement for symbol in " + str());
        }
        p *= values[atom->symbol];
        continue;
      }
      const Expr a = atom->a.substitute(values), b = atom->b.substitute(values);
      switch (atom->kind) {
        case Kind::kFloorDiv:
          p *= floordiv(a, b);
          break;
        case Kind::kMod:
          p *= mod(a, b);
          break;
        case Kind::kMax:
          p *= max(a, b);
          break;
        case Kind::kMin:
          p *= min(a, b);
          break;
        case Kind::kSymbol:
          break;
      }
    }
    total += p;
  }
  return total;
}

std::optional<std::pair<int32_t, int64_t>> Expr::solve(int64_t value) const {
  std::optional<int32_t> symbol;
  int64_t slope = 0, constant = 0;
  for (const auto& [term, c] : ExprAccess::sum(*this)) {
    if (term.empty()) {
      constant = c;
    } else if (term.size() == 1 && term[0]->kind == Kind::kSymbol && !symbol) {
      symbol = term[0]->symbol;
      slope = c;
    } else {
      return std::nullopt;
    }
  }
  if (!symbol) return std::nullopt;
  int64_t rest;
  if (__builtin_sub_overflow(value, constant, &rest) || mod_int(rest, slope) != 0)
    return std::nullopt;
  return std::pair{*symbol, floordiv_int(rest, slope)};
}

}  // namespace tv
