// What registrations say of operators that move elements.

#include <gtest/gtest.h>

#include "csrc/converter.h"

namespace tv {
namespace {

TEST(Moves, EveryViewSaysHow) {
  for (const auto& [op, converter] : Registry::instance().all()) {
    if (!converter.view || !op.starts_with("aten::")) continue;
    EXPECT_NE(converter.moves, Moves::kNothing) << op;
  }
}

TEST(Moves, NothingComputesAndMoves) {
  for (const auto& [op, converter] : Registry::instance().all()) {
    if (converter.pointwise && converter.moves != Moves::kCasts) {
      EXPECT_EQ(converter.moves, Moves::kNothing) << op;
    }
  }
}

TEST(Moves, OperatorsWithoutAConverterMoveNothing) {
  EXPECT_EQ(moves_of("t::nobody"), Moves::kNothing);
}

}  // namespace
}  // namespace tv
