#pragma once
// Symbols from the sizes that a call brings.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/expr.h"

namespace tv::ort {

/// Elements of a tensor of this shape.
int64_t count_of(std::span<const int64_t> shape);

/// What an expression is in a call, and where that was seen, for messages.
struct Equation {
  const Expr* expr = nullptr;
  int64_t value = 0;
  std::string where;
};

using Known = std::vector<std::optional<int64_t>>;

/// Values of symbols that follow, one after the other. Throws Error(kUser) where two differ.
Known solve(std::span<const Equation> equations, size_t symbols);

/// Throws Error(kUnsupported) if a symbol of it is not known.
int64_t evaluate(const Expr& expr, const Known& known, std::span<const Symbol> symbols);
std::vector<int64_t> evaluated(const std::vector<Expr>& exprs, const Known& known,
                               std::span<const Symbol> symbols);

}  // namespace tv::ort
