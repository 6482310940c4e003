#include "python/bindings/script/sizes.h"

#include <algorithm>

namespace tv::script {
namespace {

constexpr int64_t kMostParts = 64;  // strides and heads that sizes are divided by
constexpr size_t kMostKnown = 48;   // expressions that pairs are made of
constexpr size_t kMostFactors = 8;  // and those that products of three are

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// The factor c with values = c * base.
std::optional<int64_t> factor(const Numbers& values, const Numbers& base) {
  if (base[0] == 0 || values[0] % base[0] != 0) return std::nullopt;
  const int64_t c = values[0] / base[0];
  for (size_t i = 0; i < base.size(); ++i) {
    if (values[i] != c * base[i]) return std::nullopt;
  }
  return c;
}

// The number c with values = base + c.
std::optional<int64_t> rest(const Numbers& values, const Numbers& base) {
  const int64_t c = values[0] - base[0];
  for (size_t i = 0; i < base.size(); ++i) {
    if (values[i] != base[i] + c) return std::nullopt;
  }
  return c;
}

}  // namespace

std::optional<Expr> Sizes::of(const Numbers& values) {
  const Numbers fitted(values.begin(), values.begin() + static_cast<ptrdiff_t>(fitted_));
  const bool same = std::all_of(fitted.begin(), fitted.end(),
                                [&fitted](int64_t value) { return value == fitted[0]; });
  if (same) return Expr(fitted[0]);
  const auto found = found_.find(fitted);
  if (found != found_.end()) return found->second;
  const auto expr = search(fitted);
  found_[fitted] = expr;
  if (expr) known_.push_back({*expr, fitted});
  return expr;
}

Expr Sizes::given(const Numbers& values) {
  if (const auto expr = of(values)) return *expr;
  const Numbers fitted(values.begin(), values.begin() + static_cast<ptrdiff_t>(fitted_));
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const auto id = static_cast<int32_t>(symbols_.size());
  symbols_.push_back({"s" + std::to_string(id), *low, values.at(usual_), *high});
  const Expr made = Expr::symbol(id);
  known_.push_back({made, fitted});
  found_.clear();  // what had no expression may have one of this symbol
  for (const Known& known : known_) found_.emplace(known.values, known.expr);
  return made;
}

const Numbers& Sizes::numbers(const std::string& symbol) const {
  const auto id = std::ranges::find(symbols_, symbol, &Symbol::name) - symbols_.begin();
  return std::ranges::find(known_, Expr::symbol(static_cast<int32_t>(id)), &Known::expr)->values;
}

std::optional<Expr> Sizes::search(const Numbers& values) const {
  for (const Known& base : known_) {
    if (auto expr = of_one(base, values)) return expr;
  }
  const size_t count = std::min(known_.size(), kMostKnown);
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = 0; b <= a; ++b) {
      if (auto expr = of_two(known_[a], known_[b], values)) return expr;
    }
  }
  return of_three(values);
}

// c * a * b * d of the first that are known: numbers of elements.
std::optional<Expr> Sizes::of_three(const Numbers& values) const {
  const size_t count = std::min(known_.size(), kMostFactors);
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = 0; b <= a; ++b) {
      for (size_t d = 0; d <= b; ++d) {
        Numbers product = known_[a].values;
        for (size_t i = 0; i < product.size(); ++i) {
          product[i] *= known_[b].values[i] * known_[d].values[i];
        }
        if (const auto c = factor(values, product)) {
          return Expr(*c) * known_[a].expr * known_[b].expr * known_[d].expr;
        }
      }
    }
  }
  return std::nullopt;
}

// c * base + d, and floor((p * base + r) / q) + d.
std::optional<Expr> Sizes::of_one(const Known& base, const Numbers& values) const {
  const auto [low, high] = std::minmax_element(base.values.begin(), base.values.end());
  const int64_t first = values[low - base.values.begin()];
  const int64_t run = *high - *low, rise = values[high - base.values.begin()] - first;
  if (run == 0 || rise <= 0) return std::nullopt;
  if (rise % run == 0) {
    Numbers scaled = base.values;
    for (int64_t& value : scaled) value *= rise / run;
    if (const auto d = rest(values, scaled)) return Expr(rise / run) * base.expr + Expr(*d);
  }
  for (int64_t q = 2; q <= kMostParts; ++q) {
    for (const int64_t p : {1, 3, 5, 7}) {
      // The slope is p / q, up to what rounding hides.
      if (p % q == 0 || std::abs(rise * q - run * p) > 2 * q) continue;
      for (int64_t r = 0; r < q; ++r) {
        Numbers divided = base.values;
        for (int64_t& value : divided) value = floor_of(p * value + r, q);
        if (const auto d = rest(values, divided)) {
          return floordiv(Expr(p) * base.expr + Expr(r), Expr(q)) + Expr(*d);
        }
      }
    }
  }
  return std::nullopt;
}

// c * a * b, a + b + c, a - b + c, a * b / c.
std::optional<Expr> Sizes::of_two(const Known& a, const Known& b, const Numbers& values) const {
  Numbers product = a.values, sum = a.values, less = a.values, more = b.values;
  for (size_t i = 0; i < values.size(); ++i) {
    product[i] *= b.values[i];
    sum[i] += b.values[i];
    less[i] -= b.values[i];
    more[i] -= a.values[i];
  }
  if (const auto c = factor(values, product)) return Expr(*c) * a.expr * b.expr;
  if (const auto c = factor(product, values); c && *c > 1) {
    return floordiv(a.expr * b.expr, Expr(*c));
  }
  if (const auto c = rest(values, sum)) return a.expr + b.expr + Expr(*c);
  if (const auto c = rest(values, less)) return a.expr - b.expr + Expr(*c);
  if (const auto c = rest(values, more)) return b.expr - a.expr + Expr(*c);
  return std::nullopt;
}

}  // namespace tv::script
