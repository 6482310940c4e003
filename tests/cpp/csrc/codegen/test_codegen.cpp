// Kernel text from steps: every dtype, view, prologue and epilogue compiles and is valid SPIR-V.

#include <gtest/gtest.h>

#include <spirv-tools/libspirv.hpp>

#include "csrc/codegen/bfloat16.h"
#include "csrc/codegen/cooperative_matrix.h"
#include "csrc/codegen/glsl_compiler.h"
#include "csrc/codegen/glsl_types.h"
#include "csrc/codegen/kernel.h"
#include "csrc/codegen/pointwise_codegen.h"
#include "csrc/codegen/pointwise_table.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/spirv_check.h"

namespace tv {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32,
                            DType::kI16, DType::kI8,  DType::kU8,   DType::kBool};

KernelOperand dense(std::string name, DType dtype, bool write, bool vec4) {
  return {.name = std::move(name),
          .dtype = dtype,
          .value_dtype = dtype,
          .shape = {Expr(3720)},
          .strides = {Expr(1)},
          .storage_elements = Expr(3720),
          .read = !write,
          .write = write,
          .vec4 = vec4};
}

std::shared_ptr<const PointwiseProgram> program_of(std::vector<DType> inputs,
                                                   PointwiseInstr instr) {
  PointwiseProgram program{.inputs = std::move(inputs)};
  program.instrs.push_back(std::move(instr));
  program.results = {static_cast<int32_t>(program.inputs.size())};
  return std::make_shared<const PointwiseProgram>(std::move(program));
}

KernelRequest copy_request(DType from, DType to, bool vec4) {
  KernelRequest request;
  request.step.kernel = "pointwise";
  request.step.defines = {{"UNROLL", "2"}};
  if (vec4) request.step.defines.emplace_back("VEC4", "1");
  request.step.params = {{.name = "numel", .value = Expr(3720)}};
  request.operands = {dense("in0", from, false, vec4), dense("out0", to, true, vec4)};
  request.program =
      program_of({from}, {.function = "cast", .operands = {0}, .compute = from, .result = to});
  return request;
}

GeneratedKernel expect_valid(const KernelRequest& request, const Settings& settings = {}) {
  GeneratedKernel kernel = generate_kernel(request, settings, DeviceProfile::builtin_default());
  const auto words = compile_kernel(request.step.kernel, kernel.glsl, settings);
  EXPECT_EQ(spirv_problem(words), "") << numbered(kernel.glsl);
  return kernel;
}

DeviceProfile with_matrices(const std::string& input) {
  DeviceProfile p = DeviceProfile::builtin_default();
  p.coop_matrices = {{16, 16, 16, input, input, "float32", "float32"}};
  return p;
}

TEST(CooperativeMatrix, RefusalsSayWhatIsMissing) {
  const auto refusal = [](const CooperativeMatrix& matrix, const DeviceProfile& device) {
    return matrix_refusal(matrix, device);
  };
  EXPECT_EQ(refusal({}, DeviceProfile::builtin_default()),
            "the device multiplies no 16x16x16 matrices of float16 with sums in float32");
  EXPECT_NE(refusal({.input = DType::kBF16}, with_matrices("float16")).find("bfloat16"),
            std::string::npos);
  const std::string wanted = glslang_major() < 14 ? "glslang " + std::to_string(glslang_major()) +
                                                        " has no GL_KHR_cooperative_matrix"
                                                  : "";
  EXPECT_EQ(refusal({}, with_matrices("float16")), wanted);
  EXPECT_EQ(refusal({.nv2 = true}, with_matrices("float16")),
            "the device lacks VK_NV_cooperative_matrix2");
  EXPECT_EQ(refusal({.denormals = true}, with_matrices("float16")),
            "the device does not promise to keep float16's denormals");
  DeviceProfile controls = with_matrices("float16");
  controls.float16_controls = true;
  EXPECT_EQ(refusal({.denormals = true}, controls), wanted);
}

TEST(CooperativeMatrix, PreambleHasWhatTheKernelAsksFor) {
  KernelRequest request = copy_request(DType::kF32, DType::kF32, false);
  DeviceProfile device = DeviceProfile::builtin_default();
  const auto text = [&] { return generate_kernel(request, {}, device).glsl; };
  EXPECT_EQ(text().find("cooperative_matrix"), std::string::npos);
  request.step.matrix = CooperativeMatrix{};
  EXPECT_NE(text().find("#extension GL_KHR_cooperative_matrix"), std::string::npos);
  EXPECT_NE(text().find("#pragma use_vulkan_memory_model"), std::string::npos);
  EXPECT_EQ(text().find(kBfloat16Pragma), std::string::npos);
  request.step.matrix = CooperativeMatrix{.input = DType::kBF16, .nv2 = true};
  EXPECT_NE(text().find(kBfloat16Pragma), std::string::npos);
  EXPECT_NE(text().find("#extension GL_NV_cooperative_matrix2"), std::string::npos);
  const char* kControls = "#define TV_FLOAT16_CONTROLS";
  device.float16_controls = true;
  EXPECT_EQ(text().find(kControls), std::string::npos);  // the 16-bit type is bfloat16 in the end
  request.step.matrix = CooperativeMatrix{};
  EXPECT_NE(text().find(kControls), std::string::npos);
}

TEST(CooperativeMatrix, Bfloat16ReplacesTheHalfTypeOnly) {
  const auto op = [](uint32_t size, uint32_t code) { return size << 16 | code; };
  const std::vector<uint32_t> module = {0x07230203, 0x00010600, 0,  9, 0,  //
                                        op(2, 17),  1,                     // OpCapability Shader
                                        op(3, 14),  5348,       3,         // OpMemoryModel
                                        op(3, 22),  4,          16,        // OpTypeFloat 16
                                        op(3, 22),  5,          32};       // OpTypeFloat 32
  const std::vector<uint32_t> got = to_bfloat16(module);
  const std::vector<uint32_t> head(module.begin(), module.begin() + 7);
  EXPECT_EQ(std::vector<uint32_t>(got.begin(), got.begin() + 7), head);
  const std::vector<uint32_t> capabilities = {op(2, 17), 5116, op(2, 17), 5118};
  EXPECT_EQ(std::vector<uint32_t>(got.begin() + 7, got.begin() + 11), capabilities);
  EXPECT_EQ(got[11], op(6, 10));  // OpExtension with 17 bytes of text
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&got[12])), "SPV_KHR_bfloat16");
  const std::vector<uint32_t> rest = {op(3, 14), 5348, 3, op(4, 22), 4, 16, 0, op(3, 22), 5, 32};
  EXPECT_EQ(std::vector<uint32_t>(got.begin() + 17, got.end()), rest);
}

TEST(Codegen, EveryCastCompilesScalarAndVector) {
  for (DType from : kTypes) {
    for (DType to : kTypes) {
      SCOPED_TRACE(std::string(name(from)) + " to " + std::string(name(to)));
      expect_valid(copy_request(from, to, false));
      expect_valid(copy_request(from, to, true));
    }
  }
}

TEST(Codegen, CheckedKernelsCompileAndPushTheReportLast) {
  for (bool vec4 : {false, true}) {
    const auto kernel =
        expect_valid(copy_request(DType::kF16, DType::kU8, vec4), {.check_addresses = true});
    EXPECT_EQ(kernel.operands.back(), kCheckOperand);
    EXPECT_EQ(kernel.words.back(), ParamWord(Expr(0)));
  }
}

TEST(Codegen, ViewsHeadsAndTailsCompile) {
  KernelRequest request;
  request.step.kernel = "pointwise";
  request.step.defines = {{"UNROLL", "1"}, {"VEC4", "1"}};
  request.step.params = {{.name = "numel", .value = Expr::symbol(0) * 120}};
  KernelOperand head = dense("in0", DType::kF16, false, false);
  head.value_dtype = DType::kF32;
  head.stored = false;
  head.program = program_of(
      {DType::kF16, DType::kI64},
      {.function = "add", .operands = {0, 1}, .compute = DType::kF32, .result = DType::kF32});
  head.program_inputs = {2, 3};
  KernelOperand out = dense("out0", DType::kF32, true, true);
  out.value_dtype = DType::kF32;
  out.program = program_of(
      {DType::kF32, DType::kBool, DType::kF32},
      {.function = "where", .operands = {1, 0, 2}, .compute = DType::kF32, .result = DType::kF32});
  out.program_inputs = {4, 5};
  KernelOperand strided = dense("in0_in0", DType::kF16, false, false);
  strided.shape = {Expr::symbol(0), Expr(5), Expr(24)};
  strided.strides = {Expr(1), Expr(0), Expr(77)};
  KernelOperand scalar = dense("in0_in1", DType::kI64, false, false);
  scalar.shape = scalar.strides = {};
  KernelOperand mask = dense("out0_in0", DType::kBool, false, false);
  mask.shape = {Expr(12), Expr(10)};
  mask.strides = {Expr(1), Expr(0)};
  KernelOperand rows = dense("out0_in1", DType::kF32, false, false);
  rows.shape = {Expr::symbol(0), Expr(120)};
  rows.strides = {Expr(0), Expr(1)};
  request.operands = {head, out, strided, scalar, mask, rows};
  request.program = program_of({DType::kF32}, {.function = "copy", .operands = {0}});
  const auto kernel = expect_valid(request);
  EXPECT_EQ(kernel.operands, (std::vector<uint32_t>{1, 2, 3, 4, 5}));
}

TEST(Codegen, ConstantDivisionIsExactBelowTwoToThe31) {
  for (int64_t d :
       {2, 3, 5, 7, 10, 113, 224, 1000, 65535, 65537, 1 << 30, (1 << 30) + 1, 2147483647}) {
    int log = 0;
    while ((int64_t{1} << log) < d) ++log;
    const uint64_t power = uint64_t{1} << (31 + log);
    const uint64_t magic = (power + static_cast<uint64_t>(d) - 1) / static_cast<uint64_t>(d);
    ASSERT_LT(magic, uint64_t{1} << 32) << d;
    for (int64_t n : {int64_t{0}, d - 1, d, 2 * d - 1, int64_t{2147483646}, int64_t{2147483647},
                      (2147483647 / d) * d, (2147483647 / d) * d - 1}) {
      if (n > 2147483647 || n < 0) continue;
      EXPECT_EQ(static_cast<int64_t>((static_cast<uint64_t>(n) * magic >> 32) >> (log - 1)), n / d)
          << n << "/" << d;
    }
  }
}

TEST(Codegen, LongParametersGoToMemoryAndSpecialisedOnesKeepTheText) {
  KernelRequest request = copy_request(DType::kF32, DType::kF32, false);
  for (int k = 0; k < 40; ++k) {
    request.step.params.push_back({.name = "p" + std::to_string(k), .value = Expr(1000 + k)});
  }
  EXPECT_TRUE(expect_valid(request).param_block);

  KernelRequest a = copy_request(DType::kF32, DType::kF32, false);
  a.step.params[0].specialise = true;
  KernelRequest b = a;
  b.step.params[0].value = Expr(17);
  const auto first = expect_valid(a), second = expect_valid(b);
  EXPECT_EQ(first.glsl, second.glsl);
  EXPECT_EQ(second.spec_constants, std::vector<uint32_t>{17});
}

TEST(Codegen, EveryRowOfTheTableCompilesForEachClass) {
  const auto compiles = [](const PointwiseRow& row, DType compute) {
    SCOPED_TRACE(std::string(row.name) + " on " + std::string(name(compute)));
    KernelRequest request;
    request.step.kernel = "pointwise";
    request.step.defines = {{"UNROLL", "1"}};
    request.step.params = {{.name = "numel", .value = Expr(3720)}};
    PointwiseInstr instr{.function = row.name, .compute = compute};
    instr.result = row.gives_bool ? DType::kBool : compute;
    PointwiseProgram program;
    for (int k = 0; k < row.arity; ++k) {
      const DType dtype = (row.bool_operands >> k & 1u) != 0 ? DType::kBool : compute;
      program.inputs.push_back(dtype);
      instr.operands.push_back(k);
      request.operands.push_back(dense("in" + std::to_string(k), dtype, false, false));
    }
    request.operands.push_back(dense("out0", instr.result, true, false));
    program.results = {static_cast<int32_t>(program.inputs.size())};
    program.instrs = {instr};
    request.program = std::make_shared<const PointwiseProgram>(program);
    expect_valid(request);
  };
  for (const PointwiseRow& row : pointwise_rows()) {
    if (row.on_float != nullptr) compiles(row, DType::kF32);
    if (row.on_int != nullptr) compiles(row, DType::kI8);
    if (row.on_int64 != nullptr) compiles(row, DType::kI64);
    if (row.on_bool != nullptr) compiles(row, DType::kBool);
  }
}

TEST(Codegen, RowsOfOperatorsAreFoundAndHaveNamesOfTheirOwn) {
  const PointwiseRow* row = find_pointwise("exp");  // comes with aten::exp
  ASSERT_NE(row, nullptr);
  EXPECT_STREQ(row->on_float, "tv_exp($0)");
  EXPECT_STREQ(row->name, "exp");
  EXPECT_THROW(add_pointwise("exp", {.on_float = "$0"}), Error);
  EXPECT_THROW(add_pointwise("mul", {.on_float = "$0"}), Error);
  EXPECT_EQ(find_pointwise("no_such_row"), nullptr);
}

TEST(Codegen, ErrorsShowTheLogAndTheNumberedLines) {
  try {
    compile_kernel("bad", "#version 460\nvoid main() {\n  flaot x = 1;\n}\n", {});
    FAIL() << "compiled";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(e.what()).find("3 |   flaot x = 1;"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("kernel bad does not compile"), std::string::npos)
        << e.what();
  }
  KernelRequest request = copy_request(DType::kF32, DType::kF32, false);
  request.step.kernel = "no_such_kernel";
  EXPECT_THROW(generate_kernel(request, {}, DeviceProfile::builtin_default()), Error);
}

TEST(Codegen, NewerLavapipeKeepsTheLoopsOfSimdKernels) {
  KernelRequest request = copy_request(DType::kF32, DType::kF32, false);
  request.step.uniform_table = true;
  DeviceProfile device = DeviceProfile::builtin_default();
  device.type = DeviceType::kCpu;
  device.driver_id = 13;
  for (const uint32_t mesa : {22u, 23u, 25u}) {
    device.driver_version = mesa << 22 | 3 << 12 | 6;
    const std::string text = generate_kernel(request, {}, device).glsl;
    EXPECT_NE(text.find(mesa > 22 ? "#define SIMD_LOOPS 1" : "#define SIMD_LOOPS 0"),
              std::string::npos)
        << mesa;
  }
}

TEST(Codegen, KernelsKnowWhetherTheirTailIsLong) {
  for (const auto& [function, is_long] : {std::pair{"gelu", "1"}, {"tanh", "1"}, {"neg", "0"}}) {
    KernelRequest request = copy_request(DType::kF32, DType::kF32, false);
    request.program = program_of({DType::kF32}, {.function = function, .operands = {0}});
    const std::string text = generate_kernel(request, {}, DeviceProfile::builtin_default()).glsl;
    EXPECT_NE(text.find(std::string("#define LONG_EPILOGUE ") + is_long), std::string::npos)
        << function;
  }
}

TEST(Codegen, LiteralsKeepTheirValue) {
  EXPECT_EQ(glsl_literal(0.1, DType::kF32), "0.100000001");
  EXPECT_EQ(glsl_literal(2.0, DType::kF32), "2.0");
  EXPECT_EQ(glsl_literal(-0.0, DType::kF32), "(-0.0)");
  EXPECT_EQ(glsl_literal(std::numeric_limits<double>::infinity(), DType::kF32),
            "uintBitsToFloat(0x7f800000u)");
  EXPECT_EQ(glsl_literal(int64_t{-2147483648}, DType::kI32), "int(0x80000000u)");
  EXPECT_EQ(glsl_literal(int64_t{-1}, DType::kI64), "int64_t(0xffffffffffffffffUL)");
  EXPECT_EQ(glsl_literal(int64_t{3}, DType::kF16), "3.0");
}

}  // namespace
}  // namespace tv
