// Symbols from shapes, and what is said where they do not fit.

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/spec/bind_shapes.h"

namespace tv {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;

EngineSpec two_inputs() {
  const Expr n = Expr::symbol(0), s = Expr::symbol(1);
  EngineSpec spec;
  spec.name = "net";
  spec.symbols = {{"batch", 1, 4, 16}, {"seq", 2, 128, kUnbounded}};
  spec.inputs = {{"ids", DType::kI64, {n, s}, {}}, {"mask", DType::kF32, {n, 2 * s + 1, 7}, {}}};
  return spec;
}

std::string error_of(const Shapes& shapes) {
  try {
    bind_shapes(two_inputs(), shapes);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUser);
    return e.what();
  }
  return "no error";
}

TEST(RuntimeBindShapes, FindsTheSymbols) {
  EXPECT_EQ(bind_shapes(two_inputs(), Shapes{{3, 11}, {3, 23, 7}}), (std::vector<int64_t>{3, 11}));
}

TEST(RuntimeBindShapes, SolvesWhatOnlyASumDetermines) {
  EngineSpec spec = two_inputs();
  spec.inputs[0].shape[1] = 5;
  EXPECT_EQ(bind_shapes(spec, Shapes{{3, 5}, {3, 23, 7}}), (std::vector<int64_t>{3, 11}));
}

TEST(RuntimeBindShapes, SaysWhichValuesAnExpressionTakes) {
  EngineSpec spec = two_inputs();
  spec.inputs[0].shape[1] = 5;
  try {
    bind_shapes(spec, Shapes{{3, 5}, {3, 24, 7}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[net] input \"mask\" dimension 1: got 24, want a value of (2*s1 + 1)");
  }
}

TEST(RuntimeBindShapes, NamesTheDimensionsThatBreakACondition) {
  EngineSpec spec = two_inputs();
  const Expr n = Expr::symbol(0), s = Expr::symbol(1);
  spec.conditions = {{Relation::kMultiple, n * s, 4, "[Reshape \"rows\"]"}};
  EXPECT_EQ(bind_shapes(spec, Shapes{{4, 11}, {4, 23, 7}}), (std::vector<int64_t>{4, 11}));
  try {
    bind_shapes(spec, Shapes{{3, 11}, {3, 23, 7}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUser);
    EXPECT_STREQ(e.what(),
                 "[net] input \"ids\" dimension 0: got 3; input \"ids\" dimension 1: got 11; "
                 "[Reshape \"rows\"] wants batch*seq to be a multiple of 4, got 33");
  }
}

TEST(RuntimeBindShapes, NamesInputDimensionAndRange) {
  EXPECT_EQ(error_of({{17, 11}, {17, 23, 7}}),
            "[net] input \"ids\" dimension 0: got 17, want 1 to 16");
  EXPECT_EQ(error_of({{3, 1}, {3, 3, 7}}),
            "[net] input \"ids\" dimension 1: got 1, want 2 or more");
  EXPECT_EQ(error_of({{3, 11}, {3, 23, 8}}), "[net] input \"mask\" dimension 2: got 8, want 7");
  EXPECT_EQ(error_of({{3, 11}, {3, 25, 7}}),
            "[net] input \"mask\" dimension 1: got 25, want 23, as other inputs' dimensions say");
  EXPECT_EQ(error_of({{3, 11}, {4, 23, 7}}),
            "[net] input \"mask\" dimension 0: got 4, want 3, as other inputs' dimensions say");
  EXPECT_EQ(error_of({{3, 11}, {3, 23}}), "[net] input \"mask\": got 2 dimensions, want 3");
  EXPECT_EQ(error_of({{3, 11}}), "[net] got 1 inputs, want 2");
  EXPECT_EQ(error_of({{3, 11}, {3, 24, 7}}),
            "[net] input \"mask\" dimension 1: got 24, want 23, as other inputs' dimensions say");
}

}  // namespace
}  // namespace tv
