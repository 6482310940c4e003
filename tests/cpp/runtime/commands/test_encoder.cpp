// Barriers, grids and parameters: decided without a device. Each case is also put before the hazard
// check, which shares no code with the encoder.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/commands/encoder.h"
#include "runtime/commands/hazard_check.h"
#include "runtime/commands/recorder.h"

namespace tv {
namespace {

constexpr std::array<uint32_t, 3> kMaxGrid = {65535, 65535, 65535};

struct Range {
  uint32_t buffer;
  int64_t offset, size;
  char access;  // 'r', 'w' or 'b' (both)
};

/// A program over buffers placed in one address space.
class Program {
 public:
  explicit Program(std::vector<int64_t> offsets) {
    for (const int64_t offset : offsets) {
      placements.push_back({0, offset});
      addresses.push_back(0x10000 + static_cast<uint64_t>(offset));
      spec.buffers.push_back({BufferKind::kArena, 0, 64, ""});
    }
    spec.pipelines.resize(1);
  }
  Program& step(const std::vector<Range>& ranges) {
    Dispatch d;
    d.name = "step" + std::to_string(spec.dispatches.size());
    for (const Range& r : ranges) {
      d.operands.push_back({r.buffer, r.offset, r.size, r.access != 'w', r.access != 'r'});
    }
    spec.dispatches.push_back(d);
    return *this;
  }
  EncodedProgram encode(const DebugModes& modes = {}) const {
    EncodedProgram e = tv::encode({spec, spec.dispatches, {}, placements, kMaxGrid, modes});
    patch_addresses(e, addresses);
    return e;
  }
  std::vector<bool> barriers(const DebugModes& modes = {}) const {
    std::vector<bool> before;
    for (const auto& d : encode(modes).dispatches) before.push_back(d.barrier_before);
    return before;
  }
  std::vector<std::string> faults(const EncodedProgram& encoded) const {
    return find_faults({spec, spec.dispatches, {}, addresses, encoded});
  }
  /// The encoder's barriers satisfy the check, and leaving out any one of them does not.
  void expect_sound_and_minimal() const {
    const EncodedProgram whole = encode();
    EXPECT_EQ(faults(whole), std::vector<std::string>());
    for (int64_t k = 0; k < whole.barriers; ++k) {
      EXPECT_NE(faults(encode({.remove_barrier = k})), std::vector<std::string>())
          << "barrier " << k;
    }
  }

  EngineSpec spec;
  std::vector<Placement> placements;
  std::vector<uint64_t> addresses;
};

using Flags = std::vector<bool>;

TEST(RuntimeEncoder, OrdersReadAfterWrite) {
  Program p({0, 64});
  p.step({{0, 0, 64, 'w'}}).step({{0, 0, 64, 'r'}, {1, 0, 64, 'w'}});
  EXPECT_EQ(p.barriers(), (Flags{false, true}));
  p.expect_sound_and_minimal();
}

TEST(RuntimeEncoder, OrdersWriteAfterRead) {
  Program p({0, 64, 128});
  p.step({{0, 0, 64, 'r'}, {1, 0, 64, 'w'}}).step({{2, 0, 64, 'r'}, {0, 0, 64, 'w'}});
  EXPECT_EQ(p.barriers(), (Flags{false, true}));
  p.expect_sound_and_minimal();
}

TEST(RuntimeEncoder, OrdersWriteAfterWrite) {
  Program p({0});
  p.step({{0, 0, 64, 'w'}}).step({{0, 0, 64, 'w'}});
  EXPECT_EQ(p.barriers(), (Flags{false, true}));
  p.expect_sound_and_minimal();
}

TEST(RuntimeEncoder, LetsIndependentDispatchesOverlap) {
  Program p({0, 64, 128});
  p.step({{0, 0, 64, 'r'}, {1, 0, 64, 'w'}})     // two readers of one buffer
      .step({{0, 0, 64, 'r'}, {2, 0, 32, 'w'}})  // halves of one buffer
      .step({{0, 0, 64, 'r'}, {2, 32, 32, 'w'}});
  EXPECT_EQ(p.barriers(), (Flags{false, false, false}));
  p.expect_sound_and_minimal();
}

TEST(RuntimeEncoder, CountsBytesNotBuffers) {
  Program p({0});
  p.step({{0, 0, 33, 'w'}}).step({{0, 32, 32, 'r'}});
  EXPECT_EQ(p.barriers(), (Flags{false, true}));
  p.expect_sound_and_minimal();
}

TEST(RuntimeEncoder, SeesArenaAliasing) {
  Program p({0, 32});  // buffer 1 lies over the second half of buffer 0
  p.step({{0, 0, 64, 'r'}}).step({{1, 0, 64, 'w'}});
  EXPECT_EQ(p.barriers(), (Flags{false, true}));
  p.expect_sound_and_minimal();
}

TEST(RuntimeEncoder, OneBarrierCoversSeveralHazards) {
  Program p({0, 64, 128, 192});
  p.step({{0, 0, 64, 'w'}})
      .step({{1, 0, 64, 'w'}})
      .step({{0, 0, 64, 'r'}, {2, 0, 64, 'w'}})
      .step({{1, 0, 64, 'r'}, {3, 0, 64, 'w'}});
  EXPECT_EQ(p.barriers(), (Flags{false, false, true, false}));
  p.expect_sound_and_minimal();
}

TEST(RuntimeEncoder, HandlesUpdatesInPlaceAndEmptyRanges) {
  Program p({0});
  p.step({{0, 0, 64, 'b'}}).step({{0, 0, 64, 'b'}}).step({{0, 0, 0, 'b'}});
  EXPECT_EQ(p.barriers(), (Flags{false, true, false}));
  p.expect_sound_and_minimal();
}

TEST(RuntimeEncoder, SpacesNeverOverlap) {
  Program p({0, 0});
  p.placements[1].space = 1;
  p.addresses[1] = 0x90000;
  p.step({{0, 0, 64, 'w'}}).step({{1, 0, 64, 'w'}});
  EXPECT_EQ(p.barriers(), (Flags{false, false}));
  p.expect_sound_and_minimal();
}

TEST(RuntimeEncoder, RandomProgramsAreSoundAndMinimal) {
  uint32_t state = 1;
  const auto next = [&](uint32_t below) {
    state = state * 1664525U + 1013904223U;
    return (state >> 8) % below;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> offsets;
    for (int b = 0; b < 6; ++b) offsets.push_back(16 * next(16));
    Program p(offsets);
    for (int d = 0; d < 12; ++d) {
      std::vector<Range> ranges;
      for (uint32_t o = 0; o <= next(3); ++o) {
        const int64_t begin = next(48);
        ranges.push_back(
            {next(6), begin, next(static_cast<uint32_t>(64 - begin)), "rrwb"[next(4)]});
      }
      p.step(ranges);
    }
    p.expect_sound_and_minimal();
  }
}

TEST(RuntimeEncoder, FullBarriersAreBeforeEveryDispatch) {
  Program p({0, 64});
  p.step({{0, 0, 64, 'w'}}).step({{1, 0, 64, 'w'}}).step({{1, 0, 64, 'r'}});
  EXPECT_EQ(p.barriers({.full_barriers = true}), (Flags{false, true, true}));
}

TEST(RuntimeEncoder, SkipsEmptyGrids) {
  Program p({0});
  p.step({{0, 0, 64, 'w'}}).step({{0, 0, 64, 'w'}}).step({{0, 0, 64, 'r'}});
  p.spec.dispatches[1].grid = {4, 0, 1};
  const EncodedProgram e = p.encode();
  ASSERT_EQ(e.dispatches.size(), 2U);
  EXPECT_EQ(e.dispatches[1].dispatch, 2U);
  EXPECT_EQ(e.barriers, 1);
  p.expect_sound_and_minimal();
}

TEST(RuntimeHazardCheck, SeesAMissingDispatchAndAWrongAddress) {
  Program p({0, 64});
  p.step({{0, 0, 64, 'w'}}).step({{0, 0, 64, 'r'}, {1, 0, 64, 'w'}});
  EncodedProgram missing = p.encode();
  missing.dispatches.pop_back();
  EXPECT_EQ(p.faults(missing).size(), 1U);
  EncodedProgram wrong = p.encode();
  wrong.params[wrong.dispatches[1].params_at] ^= 0x40;
  ASSERT_EQ(p.faults(wrong).size(), 1U);
  EXPECT_NE(p.faults(wrong)[0].find("[step1] operand 0"), std::string::npos);
}

TEST(RuntimeEncoder, WritesAddressesThenWords) {
  EngineSpec spec;
  spec.symbols = {{"n", 1, 1, 100}};
  spec.pipelines.resize(1);
  spec.buffers = {{BufferKind::kArena, 0, 64, ""}, {BufferKind::kArena, 0, 64, ""}};
  Dispatch d;
  d.operands = {{1, 4 * Expr::symbol(0), 4, true, false}, {0, 0, 4, false, true}};
  d.words = {Expr::symbol(0) * -3, 1.5F};
  spec.dispatches = {d};
  const int64_t symbols[] = {7};
  const Placement places[2] = {{0, 0}, {0, 64}};
  EncodedProgram e = encode({spec, spec.dispatches, symbols, places, kMaxGrid, {}});
  const uint64_t bases[] = {0x1000, 0x2000000000};
  patch_addresses(e, bases);
  ASSERT_EQ(e.dispatches[0].params_bytes, 24U);
  uint64_t address[2];
  int32_t integer = 0;
  float real = 0;
  std::memcpy(address, e.params.data(), 16);
  std::memcpy(&integer, e.params.data() + 16, 4);
  std::memcpy(&real, e.params.data() + 20, 4);
  EXPECT_EQ(address[0], 0x2000000000U + 28);
  EXPECT_EQ(address[1], 0x1000U);
  EXPECT_EQ(integer, -21);
  EXPECT_EQ(real, 1.5F);
}

TEST(RuntimeEncoder, WritesNumbersInTheirType) {
  const Expr n = Expr::symbol(0);
  const auto word = [](const ParamWord& w, int64_t value) {
    return word_at(w, std::span(&value, 1));
  };
  const int64_t large = (int64_t{1} << 53) + 1;
  EXPECT_EQ(word(NumberWord{n, DType::kI32}, -5), static_cast<uint32_t>(-5));
  EXPECT_EQ(word(NumberWord{n * n, DType::kI64}, 50000), 2500000000U);
  EXPECT_EQ(word(NumberWord{n, DType::kI64}, -2), 0xFFFFFFFEU);
  EXPECT_EQ(word(NumberWord{n, DType::kI64, true}, -2), 0xFFFFFFFFU);
  EXPECT_EQ(word(NumberWord{n, DType::kI64, true}, int64_t{7} << 32), 7U);
  EXPECT_EQ(word(NumberWord{n, DType::kF32}, large),
            std::bit_cast<uint32_t>(static_cast<float>(large)));
  EXPECT_EQ(word(NumberWord{n, DType::kBool}, int64_t{1} << 32), 1U);
  EXPECT_EQ(word(n, (int64_t{1} << 32) - 1), 0xFFFFFFFFU);
  const std::pair<ParamWord, int64_t> unfit[] = {{n, int64_t{1} << 32},
                                                 {n, -(int64_t{1} << 31) - 1},
                                                 {n * n, int64_t{1} << 31},
                                                 {NumberWord{n, DType::kI32}, int64_t{1} << 31},
                                                 {NumberWord{n, DType::kU8}, 256},
                                                 {NumberWord{n, DType::kI8}, -129},
                                                 {NumberWord{n, DType::kF16}, 65505},
                                                 {NumberWord{n * n, DType::kI64}, int64_t{1} << 32},
                                                 {floordiv(Expr(1), n), 0}};
  for (const auto& [w, value] : unfit) {
    try {
      word_at(w, std::span(&value, 1));
      ADD_FAILURE() << value << " is passed as " << expr_of(w)->str();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << error.what();
    }
  }
}

TEST(RuntimeEncoder, RefusesParametersThatDoNotFit) {
  Program p({0});
  p.step({{0, 0, 64, 'w'}});
  p.spec.dispatches[0].words.assign(30, Expr(1));
  EXPECT_EQ(p.encode().dispatches[0].params_bytes, 128U);
  p.spec.dispatches[0].words.push_back(Expr(1));
  EXPECT_THROW(p.encode(), Error);
  p.spec.pipelines[0].param_block = true;
  EXPECT_EQ(p.encode().dispatches[0].params_bytes, 132U);
}

TEST(RuntimeEncoder, FoldsFlatGrids) {
  for (const int64_t count : {1L, 65535L, 65536L, 70001L, 65535L * 65535L, 65535L * 65535L + 1}) {
    const auto g = fold_grid(count, kMaxGrid);
    const int64_t product = int64_t{g[0]} * g[1] * g[2];
    EXPECT_GE(product, count);
    EXPECT_LT(product - count, int64_t{g[1]} * g[2]) << "less than one row of surplus";
    for (const uint32_t n : g) EXPECT_LE(n, 65535U);
  }
  EXPECT_THROW(fold_grid(9, {2, 2, 2}), Error);
  Program p({0});
  p.step({{0, 0, 64, 'w'}});
  p.spec.dispatches[0].grid = {70000, 1, 1};
  try {
    p.encode();
    ADD_FAILURE() << "only a flat grid may be folded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported)
        << error.what();  // the caller runs it natively
  }
  p.spec.dispatches[0].flat_grid = true;
  EXPECT_EQ(p.encode().dispatches[0].grid[1], 2U);
}

}  // namespace
}  // namespace tv
