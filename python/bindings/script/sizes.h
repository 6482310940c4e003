#pragma once
// Sizes of several executions as expressions over symbols.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/expr.h"

namespace tv::script {

/// One number of the program in each of several executions.
using Numbers = std::vector<int64_t>;

/// Finds expressions by trying: sums, products and quotients of what was found before. What it
/// finds holds in the executions that were looked at, no more: whoever uses it checks other sizes.
class Sizes {
 public:
  /// `fitted`: the first so many executions decide; the rest only widen the ranges of symbols.
  /// `usual`: the execution whose sizes are the usual ones.
  Sizes(size_t fitted, size_t usual) : fitted_(fitted), usual_(usual) {}

  /// Nothing where none is found.
  std::optional<Expr> of(const Numbers& values);
  /// Of a size that is given from outside: a new symbol where there is no expression.
  Expr given(const Numbers& values);

  const std::vector<Symbol>& symbols() const { return symbols_; }
  /// What a symbol is in the executions that decide, by its name.
  const Numbers& numbers(const std::string& symbol) const;
  size_t fitted() const { return fitted_; }

 private:
  struct Known {
    Expr expr;
    Numbers values;
  };
  std::optional<Expr> search(const Numbers& values) const;
  std::optional<Expr> of_one(const Known& base, const Numbers& values) const;
  std::optional<Expr> of_two(const Known& a, const Known& b, const Numbers& values) const;

  std::optional<Expr> of_three(const Numbers& values) const;

  const size_t fitted_, usual_;
  std::vector<Symbol> symbols_;
  std::vector<Known> known_;
  std::map<Numbers, std::optional<Expr>> found_;  ///< by the fitted executions
};

}  // namespace tv::script
