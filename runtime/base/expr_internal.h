#pragma once
// Representation of Expr, for the files that implement it.

#include "runtime/base/expr.h"

namespace tv {

/// A symbol, or a function of two expressions that the sum form cannot express.
struct Expr::Atom {
  enum class Kind : uint8_t { kSymbol, kFloorDiv, kMod, kMax, kMin };
  Kind kind = Kind::kSymbol;
  int32_t symbol = 0;
  Expr a, b;
};

/// What the friends and helpers of this file may see of an Expr.
struct ExprAccess {
  static const Expr::Sum& sum(const Expr& e) {
    static const Expr::Sum empty;
    return e.sum_ ? *e.sum_ : empty;
  }
  static Expr make(Expr::Sum sum) { return Expr(std::move(sum)); }
  static Expr function(Expr::Atom::Kind kind, const Expr& a, const Expr& b) {
    auto atom = std::make_shared<Expr::Atom>();
    atom->kind = kind;
    atom->a = a;
    atom->b = b;
    return Expr(Expr::Sum{{Expr::Term{std::move(atom)}, 1}});
  }
  static int64_t eval(const Expr& expr, std::span<const int64_t> values);
  static bool same(const Expr& a, const Expr& b) { return a.sum_ == b.sum_; }
};

}  // namespace tv
