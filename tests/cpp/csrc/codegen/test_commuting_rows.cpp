// Rows of the pointwise table whose operands may change places.

#include <gtest/gtest.h>

#include <regex>

#include "csrc/codegen/pointwise_table.h"

namespace tv {
namespace {

/// An operator of GLSL between the two operands that gives the same bits whatever their order. (On
/// bool it is ||, && or !=, in place of +, * and ^.)
bool has_no_order(const char* form) {
  static const std::regex symmetric(R"(\$0 (\+|\*|==|!=|&|\||\^|&&|\|\|) \$1)");
  return form == nullptr || std::regex_match(form, symmetric);
}

TEST(CommutingRows, AreThoseWithoutAnOrder) {
  for (const PointwiseRow& row : pointwise_rows()) {
    if (row.arity != 2) {
      EXPECT_FALSE(row.commutes) << row.name;
      continue;
    }
    const bool symmetric = has_no_order(row.on_float) && has_no_order(row.on_int) &&
                           has_no_order(row.on_int64) && has_no_order(row.on_bool) &&
                           row.bool_operands == 0;
    EXPECT_EQ(row.commutes, symmetric) << row.name;
  }
}

}  // namespace
}  // namespace tv
