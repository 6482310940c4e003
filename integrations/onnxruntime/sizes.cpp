#include "integrations/onnxruntime/sizes.h"

#include "runtime/base/error.h"

namespace tv::ort {

int64_t count_of(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Known solve(std::span<const Equation> equations, size_t symbols) {
  Known known(symbols);
  std::vector<Expr> by;
  for (size_t s = 0; s < symbols; ++s) by.push_back(Expr::symbol(static_cast<int32_t>(s)));
  std::vector<const Equation*> open;
  for (const Equation& equation : equations) open.push_back(&equation);
  for (bool more = true; more;) {
    more = false;
    std::vector<const Equation*> rest;
    for (const Equation* equation : open) {
      const Expr left =
          equation->expr->is_constant() ? *equation->expr : equation->expr->substitute(by);
      if (const auto number = left.constant()) {
        if (*number == equation->value) continue;
        throw Error(ErrorKind::kUser, equation->where + " is " + std::to_string(equation->value) +
                                          ", want " + std::to_string(*number));
      }
      const auto solved = left.solve(equation->value);
      if (!solved) {
        rest.push_back(equation);
        continue;
      }
      known[static_cast<size_t>(solved->first)] = solved->second;
      by[static_cast<size_t>(solved->first)] = solved->second;
      more = true;
    }
    open = std::move(rest);
  }
  return known;
}

int64_t evaluate(const Expr& expr, const Known& known, std::span<const Symbol> symbols) {
  if (const auto number = expr.constant()) return *number;
  std::vector<int64_t> values;
  for (const auto& value : known) values.push_back(value.value_or(0));
  for (const int32_t symbol : expr.symbols()) {
    if (known[static_cast<size_t>(symbol)]) continue;
    throw Error(ErrorKind::kUnsupported, "the size " + symbols[static_cast<size_t>(symbol)].name +
                                             " does not follow from the node's inputs");
  }
  return expr.eval(values);
}

std::vector<int64_t> evaluated(const std::vector<Expr>& exprs, const Known& known,
                               std::span<const Symbol> symbols) {
  std::vector<int64_t> values;
  for (const Expr& expr : exprs) values.push_back(evaluate(expr, known, symbols));
  return values;
}

}  // namespace tv::ort
