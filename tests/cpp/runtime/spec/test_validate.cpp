#include <gtest/gtest.h>

#include <functional>

#include "runtime/base/error.h"
#include "runtime/spec/bind_shapes.h"
#include "tests/cpp/kit/sample_engine.h"

namespace tv {
namespace {

using test::sample_engine;

struct BadCase {
  const char* name;
  std::function<void(EngineSpec&)> damage;
  const char* message;  // part of it
};

void PrintTo(const BadCase& c, std::ostream* os) { *os << c.name; }

class Refused : public ::testing::TestWithParam<BadCase> {};

TEST_P(Refused, WithItsMessage) {
  EngineSpec spec = sample_engine();
  GetParam().damage(spec);
  try {
    validate(spec);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos)
        << error.what();
  }
}

const Expr n = Expr::symbol(0);

INSTANTIATE_TEST_SUITE_P(
    Engines, Refused,
    ::testing::Values(
        BadCase{"OtherDtype", [](EngineSpec& s) { s.inputs[0].dtype = DType::kOther; }, "dtype"},
        BadCase{"MissingStride", [](EngineSpec& s) { s.inputs[0].strides.pop_back(); }, "strides"},
        BadCase{"NotDense", [](EngineSpec& s) { s.outputs[0].strides = {9, 1}; }, "not dense"},
        BadCase{"OverlappingStrides", [](EngineSpec& s) { s.outputs[0].strides = {0, 1}; },
                "dense"},
        BadCase{"NegativeStride", [](EngineSpec& s) { s.inputs[0].strides = {8, -1}; },
                "not dense"},
        BadCase{"NegativeDim", [](EngineSpec& s) { s.inputs[0].shape[1] = -8; }, "size -8"},
        BadCase{"SymbolicWeight", [](EngineSpec& s) { s.weights[0].shape[0] = n; }, "not constant"},
        BadCase{"SymbolUnknown", [](EngineSpec& s) { s.dispatches[0].grid[0] = Expr::symbol(1); },
                "symbol 1"},
        BadCase{"SymbolNegative", [](EngineSpec& s) { s.buffers[3].size_bytes = Expr::symbol(-1); },
                "symbol -1"},
        BadCase{"SymbolRange", [](EngineSpec& s) { s.symbols[0].opt = 65; }, "range 1 to 64"},
        BadCase{"SymbolUndetermined", [](EngineSpec& s) { s.inputs[0].shape[0] = n * n; },
                "determined by no input"},
        BadCase{"InputIndex", [](EngineSpec& s) { s.buffers[0].index = 1; }, "input 1"},
        BadCase{"OutputIndex", [](EngineSpec& s) { s.buffers[4].index = 9; }, "output 9"},
        BadCase{"WeightIndex", [](EngineSpec& s) { s.buffers[1].index = 2; }, "weight 2"},
        BadCase{"BufferKind", [](EngineSpec& s) { s.buffers[3].kind = static_cast<BufferKind>(9); },
                "kind"},
        BadCase{"PersistentNotConstant", [](EngineSpec& s) { s.buffers[2].size_bytes = n; },
                "not constant"},
        BadCase{"BufferLargerThanInput",
                [](EngineSpec& s) { s.buffers[0].size_bytes = 32 * n + 4; }, "want 0 to"},
        BadCase{"BufferNegative", [](EngineSpec& s) { s.buffers[3].size_bytes = 0 - n; }, "bytes"},
        BadCase{"NoSpirv", [](EngineSpec& s) { s.modules[1][0] ^= 1; }, "module 1 is not SPIR-V"},
        BadCase{"ShortSpirv", [](EngineSpec& s) { s.modules[0].resize(4); }, "not SPIR-V"},
        BadCase{"ModuleIndex", [](EngineSpec& s) { s.pipelines[0].module = 2; }, "module 2"},
        BadCase{"SubgroupSize", [](EngineSpec& s) { s.pipelines[0].subgroup_size = 24; },
                "subgroup"},
        BadCase{"PipelineIndex", [](EngineSpec& s) { s.dispatches[1].pipeline = 2; }, "pipeline 2"},
        BadCase{"OperandIndex", [](EngineSpec& s) { s.dispatches[1].operands[0].buffer = 5; },
                "buffer 5"},
        BadCase{"TooManyWords", [](EngineSpec& s) { s.dispatches[1].words.assign(29, Expr(1)); },
                "parameters"},
        BadCase{"FlatGrid", [](EngineSpec& s) { s.dispatches[1].grid[1] = 2; }, "flat grid"},
        BadCase{"HugeGrid", [](EngineSpec& s) { s.dispatches[0].grid[1] = Expr(int64_t{1} << 32); },
                "workgroups"},
        BadCase{"WritesInput", [](EngineSpec& s) { s.dispatches[0].operands[0].write = true; },
                "read only"},
        BadCase{"WritesPacked", [](EngineSpec& s) { s.dispatches[0].operands[1].write = true; },
                "read only"},
        BadCase{"WritesWeight", [](EngineSpec& s) { s.weight_program[0].operands[0].write = true; },
                "read only"},
        BadCase{"WeightProgramTouchesArena",
                [](EngineSpec& s) { s.weight_program[0].operands[0].buffer = 3; }, "neither"},
        BadCase{"SymbolInWeightProgram", [](EngineSpec& s) { s.weight_program[0].words[0] = n; },
                "depends on a symbol"},
        BadCase{"BuffersTooLargeTogether",
                [](EngineSpec& s) {
                  for (int i = 0; i < 3; ++i)
                    s.buffers.push_back({BufferKind::kArena, 0, Expr(int64_t{1} << 46), "big"});
                },
                "more bytes than"},
        BadCase{"ReadBeforeWrite",
                [](EngineSpec& s) { std::swap(s.dispatches[0], s.dispatches[1]); },
                "nothing has written"},
        BadCase{"NoWeightProgram", [](EngineSpec& s) { s.weight_program.clear(); },
                "nothing has written"},
        BadCase{"OutputNotWritten", [](EngineSpec& s) { s.dispatches.pop_back(); },
                "never written"},
        BadCase{"PastTheEnd", [](EngineSpec& s) { s.dispatches[1].operands[0].offset_bytes = 40; },
                "touches"},
        // 2240 is more than the arena buffer only at the largest batch.
        BadCase{"PastTheEndAtMaximum",
                [](EngineSpec& s) {
                  s.dispatches[0].operands[2].size_bytes = max(32 * n, 36 * n - 64);
                },
                "touches"},
        BadCase{"PastTheEndAtMinimum",
                [](EngineSpec& s) { s.dispatches[0].operands[2].size_bytes = 80; }, "touches"},
        BadCase{"NegativeOffset",
                [](EngineSpec& s) { s.dispatches[0].operands[2].offset_bytes = -4; }, "touches"},
        BadCase{"OffsetPlusSizeOverflows",
                [](EngineSpec& s) {
                  s.dispatches[0].operands[2].offset_bytes = 8;
                  s.dispatches[0].operands[2].size_bytes = Expr(kUnbounded);
                },
                "touches"}),
    [](const auto& info) { return info.param.name; });

TEST(Validate, AcceptsTheSample) { EXPECT_NO_THROW(validate(sample_engine())); }

TEST(Validate, AcceptsAnUnboundedSymbolAndAGenerousRange) {
  EngineSpec spec = sample_engine();
  spec.symbols[0].max = kUnbounded;
  EXPECT_NO_THROW(validate(spec));
  spec.symbols[0].max = kUnbounded / 8;  // bytes pass 2^63 there
  EXPECT_NO_THROW(validate(spec));
}

TEST(Validate, AtAConcreteShape) {
  EngineSpec spec = sample_engine();
  // In range at 1, 4 and 64, where validate looks, but not at 7.
  const Expr bump = max(n - 6, 0) * max(8 - n, 0);
  spec.dispatches[0].operands[2].size_bytes = 32 * n + 512 * bump;
  EXPECT_NO_THROW(validate(spec));
  const int64_t good[] = {5}, bad[] = {7}, two[] = {1, 2};
  EXPECT_NO_THROW(validate_at(spec, good));
  EXPECT_THROW(validate_at(spec, bad), Error);
  EXPECT_THROW(validate_at(spec, two), Error);
}

TEST(Validate, TooManyElementsAreUnsupported) {
  EngineSpec spec = sample_engine();
  spec.symbols[0].max = kUnbounded;
  const int64_t largest[] = {(int64_t{1} << 28) - 1}, larger[] = {int64_t{1} << 28};
  EXPECT_NO_THROW(validate_at(spec, largest));
  const auto kind_of = [](const EngineSpec& engine, std::span<const int64_t> symbols) {
    try {
      validate_at(engine, symbols);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kInternal;
  };
  EXPECT_EQ(kind_of(spec, larger), ErrorKind::kUnsupported);
  // A parameter that wraps, where no tensor is too large.
  spec.dispatches[0].words[0] = n * 64;
  const int64_t wraps[] = {int64_t{1} << 26};
  EXPECT_EQ(kind_of(spec, wraps), ErrorKind::kUnsupported);
  EXPECT_NO_THROW(validate(spec));
  // A scratch that is, where no tensor is.
  EngineSpec roomy = sample_engine();
  roomy.symbols[0].max = kUnbounded;
  roomy.buffers[3].size_bytes = 128 * n;
  roomy.dispatches[1].operands[0].size_bytes = 128 * n;
  const int64_t fits[] = {(int64_t{1} << 26) - 1}, passes[] = {int64_t{1} << 26};
  EXPECT_NO_THROW(validate_at(roomy, fits));
  EXPECT_EQ(kind_of(roomy, passes), ErrorKind::kUnsupported);
  EXPECT_NO_THROW(validate(roomy));
}

TEST(Validate, NumbersMayBeNegative) {
  EngineSpec spec = sample_engine();
  const Expr number = Expr::symbol(1);
  spec.symbols.push_back({"number", -kUnbounded, -3, kUnbounded});
  spec.inputs.push_back({"carrier", DType::kU8, {number + (int64_t{1} << 62), 0}, {1, 1}});
  spec.buffers.push_back({BufferKind::kInput, 1, 0, "carrier"});
  spec.dispatches[0].words = {n, NumberWord{number, DType::kI32},
                              NumberWord{n * number, DType::kI64}};
  EXPECT_NO_THROW(validate(spec));
  const int64_t small[] = {4, -9}, large[] = {4, int64_t{1} << 31}, negative[] = {-9, 1};
  EXPECT_NO_THROW(validate_at(spec, small));
  EXPECT_THROW(validate_at(spec, large), Error);
  EXPECT_THROW(validate_at(spec, negative), Error);
  EXPECT_EQ(
      bind_shapes(spec, std::vector<std::vector<int64_t>>{{4, 8}, {(int64_t{1} << 62) - 9, 0}}),
      (std::vector<int64_t>{4, -9}));
}

TEST(Validate, EmptyGridIsNotRun) {
  EngineSpec spec = sample_engine();
  spec.symbols[0].min = 0;
  EXPECT_NO_THROW(validate(spec));
}

}  // namespace
}  // namespace tv
