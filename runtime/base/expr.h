#pragma once
// Symbolic integers: dimensions, strides, offsets, grids.
//
// An Expr is kept in a normal form - a sum of integer coefficients times products of atoms, where
// an atom is a symbol or an opaque floordiv, mod, max or min - so that equal polynomials compare
// equal and constants fold as they are built. Immutable and cheap to copy; safe across threads.

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tv {

inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

/// A named dimension with its range. max == kUnbounded: no upper bound.
struct Symbol {
  std::string name;
  int64_t min = 1;
  int64_t opt = 1;
  int64_t max = kUnbounded;
  bool operator==(const Symbol&) const = default;
};

class Expr {
 public:
  Expr() = default;                                       // 0
  Expr(int64_t value);                                    // NOLINT: constants convert
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}  // NOLINT
  static Expr symbol(int32_t id);  ///< the id-th entry of the graph's or engine's symbol list

  bool is_constant() const;
  std::optional<int64_t> constant() const;  ///< the value where the expression has no symbol
  /// Throws Error(kUnsupported) if a part of it passes 2^63 or divides by 0 at these values.
  int64_t eval(std::span<const int64_t> symbols) const;
  /// Lower and upper bound over the symbols' ranges (saturating at ±kUnbounded).
  std::pair<int64_t, int64_t> bounds(std::span<const Symbol> symbols) const;
  /// Ids of the symbols that occur, ascending.
  std::vector<int32_t> symbols() const;
  /// Replaces symbol i by values[i].
  Expr substitute(std::span<const Expr> values) const;
  /// If this is c1 * s + c0 for the symbol s alone, the value of s that makes it equal `value`.
  std::optional<std::pair<int32_t, int64_t>> solve(int64_t value) const;

  /// Text with `s<i>` for symbols: "(4*s0 + 3)". `parse` reads what `str` writes.
  std::string str() const;
  static Expr parse(std::string_view text);

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend bool operator==(const Expr& a, const Expr& b);
  friend Expr floordiv(const Expr& a, const Expr& b);  ///< rounds down; exact where it divides
  friend Expr mod(const Expr& a, const Expr& b);       ///< result has b's sign, as Python's %
  friend Expr max(const Expr& a, const Expr& b);
  friend Expr min(const Expr& a, const Expr& b);
  Expr& operator+=(const Expr& o) { return *this = *this + o; }
  Expr& operator*=(const Expr& o) { return *this = *this * o; }

  struct Atom;  // symbol or opaque function
  using AtomRef = std::shared_ptr<const Atom>;
  using Term = std::vector<AtomRef>;  // product, sorted
  struct TermLess {
    bool operator()(const Term& a, const Term& b) const;
  };
  using Sum = std::map<Term, int64_t, TermLess>;  // never holds a 0 coefficient

 private:
  friend struct ExprAccess;
  explicit Expr(Sum sum);
  std::shared_ptr<const Sum> sum_;  // null: 0
};

Expr floordiv(const Expr& a, const Expr& b);
Expr mod(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr ceil_div(const Expr& a, const Expr& b);  ///< floordiv(a + b - 1, b)
Expr round_up(const Expr& a, int64_t multiple);

using Shape = std::vector<Expr>;
Expr product(std::span<const Expr> dims);               ///< 1 for an empty list
Shape contiguous_strides(std::span<const Expr> shape);  ///< in elements, row-major

}  // namespace tv
