#include "csrc/lowering/size_buckets.h"

#include <algorithm>
#include <cmath>

namespace tv {

namespace {

constexpr int64_t kFar = 4;              // sizes this many times apart may want other tactics
constexpr int64_t kUnboundedFactor = 8;  // where a symbol has no upper bound

int64_t between(int64_t a, int64_t b) {
  return std::llround(std::sqrt(static_cast<double>(a) * static_cast<double>(b)));
}

/// The sizes that a symbol is expected to have.
struct Range {
  int64_t min, opt, max;
  explicit Range(const Symbol& s)
      : min(std::max<int64_t>(s.min, 1)),
        opt(std::max(s.opt, min)),
        max(s.max == kUnbounded ? opt * kUnboundedFactor : std::max(s.max, opt)) {}
  double width() const { return static_cast<double>(max) / static_cast<double>(min); }
};

}  // namespace

Expr SizeBucket::contains(const std::vector<Symbol>& of) const {
  if (symbol < 0) return 1;
  const Symbol& s = of.at(static_cast<size_t>(symbol));
  const Expr value = Expr::symbol(symbol);
  Expr inside = 1;
  if (first > s.min) inside *= min(max(value - (first - 1), 0), 1);
  if (last < s.max) inside *= min(max(Expr(last + 1) - value, 0), 1);
  return inside;
}

std::string SizeBucket::str(const std::vector<Symbol>& of) const {
  return of.at(static_cast<size_t>(symbol)).name + " " + std::to_string(first) + ".." +
         (last == kUnbounded ? "" : std::to_string(last));
}

std::vector<SizeBucket> size_buckets(const std::vector<Symbol>& symbols,
                                     const std::vector<int32_t>& used) {
  SizeBucket typical;
  double widest = 0;
  for (const int32_t id : used) {
    if (symbols.at(static_cast<size_t>(id)).min < 0) continue;  // a number, no size
    const Range range(symbols.at(static_cast<size_t>(id)));
    if (range.max < range.opt * kFar && range.opt < range.min * kFar) continue;
    if (range.width() <= widest) continue;
    widest = range.width();
    typical.symbol = id;
  }
  if (typical.symbol < 0) return {typical};
  const Symbol& s = symbols.at(static_cast<size_t>(typical.symbol));
  const Range range(s);
  typical.first = s.min;
  typical.last = s.max;
  typical.point = range.opt;
  std::vector<SizeBucket> all = {typical};
  if (range.opt >= range.min * kFar) {
    SizeBucket small = typical;
    small.point = between(range.min, range.opt);
    small.last = between(small.point, range.opt);
    all[0].first = small.last + 1;
    all.push_back(small);
  }
  if (range.max >= range.opt * kFar) {
    SizeBucket large = typical;
    large.point = between(range.opt, range.max);
    large.first = between(range.opt, large.point) + 1;
    all[0].last = large.first - 1;
    all.push_back(large);
  }
  return all;
}

TacticProblem in_bucket(TacticProblem problem, const SizeBucket& bucket) {
  Symbol& s = problem.symbols.at(static_cast<size_t>(bucket.symbol));
  problem.text += "; s" + std::to_string(bucket.symbol) + " in " + std::to_string(bucket.first) +
                  ".." + (bucket.last == kUnbounded ? "" : std::to_string(bucket.last)) + " at " +
                  std::to_string(bucket.point);
  s.min = bucket.first;
  s.max = bucket.last;
  s.opt = bucket.point;
  return problem;
}

}  // namespace tv
