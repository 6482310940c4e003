#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/base/expr.h"

namespace tv {
namespace {

const Expr s0 = Expr::symbol(0), s1 = Expr::symbol(1);

TEST(Expr, EqualPolynomialsAreEqual) {
  EXPECT_EQ((s0 + 1) * (s1 + 2), s0 * s1 + 2 * s0 + s1 + 2);
  EXPECT_EQ(s0 - s0, Expr(0));
  EXPECT_EQ(max(s0, s1), max(s1, s0));
  EXPECT_FALSE(s0 * s1 == s0 + s1);
}

TEST(Expr, DivisionIsExactWhereItDivides) {
  EXPECT_EQ(floordiv(s0 * 12, 4), s0 * 3);
  EXPECT_EQ(floordiv(s0 * s1 * 6, s1 * 2), s0 * 3);
  EXPECT_EQ(floordiv(s0 * 4 + 7, 4), s0 + 1);
  EXPECT_EQ(mod(s0 * 4 + 7, 4), Expr(3));
  EXPECT_EQ(floordiv(s0 + s1, s0 + s1), Expr(1));
  EXPECT_EQ(max(s0 + 3, s0), s0 + 3);
}

TEST(Expr, EvaluatesLikePython) {
  const int64_t values[] = {7, 3};
  EXPECT_EQ(floordiv(Expr(0) - s0, s1).eval(values), -3);
  EXPECT_EQ(mod(Expr(0) - s0, s1).eval(values), 2);
  EXPECT_EQ(ceil_div(s0, s1).eval(values), 3);
  EXPECT_EQ(min(s0, s1 * 2).eval(values), 6);
  EXPECT_EQ(round_up(s0, 4).eval(values), 8);
}

TEST(Expr, ValuesOfRandomExpressionsSurviveTextAndSubstitution) {
  uint32_t state = 1;
  auto next = [&](int n) {
    return static_cast<int>((state = state * 1664525u + 1013904223u) >> 16) % n;
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<Expr> pool = {s0, s1, 1, 2, 5};
    int64_t values[] = {1 + next(9), 1 + next(9)};
    std::vector<int64_t> truth = {values[0], values[1], 1, 2, 5};
    for (int k = 0; k < 8; ++k) {
      const int i = next(static_cast<int>(pool.size())), j = next(static_cast<int>(pool.size()));
      const int64_t a = truth[i], b = truth[j];
      if (std::abs(a) > 10000 || std::abs(b) > 10000) continue;
      auto floordiv_ref = [](int64_t x, int64_t y) {
        return x / y - ((x % y != 0) && ((x < 0) != (y < 0)));
      };
      // A denominator that may be 0 for some shape is never asked for.
      const int op = b > 0 ? next(7) : next(5);
      switch (op) {
        case 0:
          pool.push_back(pool[i] + pool[j]);
          truth.push_back(a + b);
          break;
        case 1:
          pool.push_back(pool[i] - pool[j]);
          truth.push_back(a - b);
          break;
        case 2:
          pool.push_back(pool[i] * pool[j]);
          truth.push_back(a * b);
          break;
        case 3:
          pool.push_back(max(pool[i], pool[j]));
          truth.push_back(std::max(a, b));
          break;
        case 4:
          pool.push_back(min(pool[i], pool[j]));
          truth.push_back(std::min(a, b));
          break;
        case 5:
          pool.push_back(floordiv(pool[i], pool[j]));
          truth.push_back(floordiv_ref(a, b));
          break;
        case 6:
          pool.push_back(mod(pool[i], pool[j]));
          truth.push_back(a - b * floordiv_ref(a, b));
          break;
      }
      const Expr& e = pool.back();
      ASSERT_EQ(e.eval(values), truth.back()) << e.str();
      ASSERT_EQ(Expr::parse(e.str()), e) << e.str();
      const Expr swapped[] = {s1, s0};
      const int64_t reversed[] = {values[1], values[0]};
      ASSERT_EQ(e.substitute(swapped).eval(reversed), truth.back()) << e.str();
      const Symbol range[] = {{"a", 1, 1, 9}, {"b", 1, 1, 9}};
      const auto [lo, hi] = e.bounds(range);
      ASSERT_LE(lo, truth.back()) << e.str();
      ASSERT_GE(hi, truth.back()) << e.str();
    }
  }
}

TEST(Expr, BoundsSaturate) {
  const Symbol range[] = {{"batch", 2, 4, kUnbounded}};
  EXPECT_EQ((s0 * 3 + 1).bounds(range), (std::pair<int64_t, int64_t>{7, kUnbounded}));
  EXPECT_EQ((Expr(10) - s0).bounds(range).second, 8);
}

TEST(Expr, SolvesForASymbol) {
  EXPECT_EQ((s1 * 12 + 4).solve(40), (std::pair<int32_t, int64_t>{1, 3}));
  EXPECT_FALSE((s1 * 12).solve(13));
  EXPECT_FALSE((s0 * s1).solve(4));
}

TEST(Expr, BadTextIsRefused) {
  for (const char* text : {"", "(", "s", "s0 +", "foo(1, 2)", "floordiv(1)", "99999999999999999999",
                           "floordiv(s0, 0)", "1 2"}) {
    EXPECT_THROW(Expr::parse(text), Error) << text;
  }
  EXPECT_THROW(Expr::parse(std::string(1000, '(')), Error);
}

TEST(Expr, ValuesThatCannotBeComputedAreUnsupported) {
  const Expr n = Expr::symbol(0);
  const std::pair<Expr, int64_t> cases[] = {{n * n, int64_t{1} << 32},
                                            {n + (int64_t{1} << 62), int64_t{1} << 62},
                                            {floordiv(Expr(7), n), 0},
                                            {mod(Expr(7), n), 0},
                                            {min(n * n * n, 5), int64_t{1} << 22}};
  for (const auto& [expr, value] : cases) {
    try {
      ADD_FAILURE() << expr.str() << " is " << expr.eval(std::span(&value, 1));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << error.what();
    }
  }
}

TEST(Expr, OverflowIsAnError) { EXPECT_THROW(Expr(int64_t{1} << 62) * Expr(4), Error); }

}  // namespace
}  // namespace tv
