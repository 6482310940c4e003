// The SPIR-V interpreter on hand-written kernels: what they compute, and what they must not do.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "csrc/codegen/kernel.h"
#include "tests/cpp/kit/interpreter/interpreter.h"
#include "tests/cpp/kit/matrix_engines.h"

namespace tv::interpreter {
namespace {

constexpr uint64_t kIn = 0x10000, kOut = 0x20000;

constexpr const char* kHead =
    "#version 460\n"
    "#pragma use_vulkan_memory_model\n"
    "#extension GL_EXT_buffer_reference : require\n"
    "#extension GL_EXT_scalar_block_layout : require\n"
    "#extension GL_EXT_shader_explicit_arithmetic_types : require\n"
    "#extension GL_EXT_shader_16bit_storage : require\n"
    "#extension GL_KHR_shader_subgroup_basic : require\n"
    "#extension GL_KHR_shader_subgroup_vote : require\n"
    "#extension GL_KHR_shader_subgroup_ballot : require\n"
    "#extension GL_KHR_shader_subgroup_shuffle : require\n"
    "#extension GL_KHR_shader_subgroup_arithmetic : require\n"
    "#extension GL_KHR_cooperative_matrix : require\n"
    "#extension GL_KHR_memory_scope_semantics : require\n"
    "layout(local_size_x = LOCAL) in;\n"
    "layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint v[]; };\n"
    "layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Units { uvec4 v[]; };\n"
    "layout(push_constant, scalar) uniform P { Words x; Words y; uint n; } p;\n"
    "#define ID gl_LocalInvocationID.x\n";

/// Runs `body` with `in` as p.x and gives the `count` words of p.y.
std::vector<uint32_t> run(const std::string& body, std::vector<uint32_t> in, size_t count,
                          uint32_t local = 32, FragmentLayout layout = FragmentLayout::kNvidia,
                          std::vector<uint32_t> constants = {}) {
  std::string text = kHead + body;
  text.replace(text.find("LOCAL"), 5, std::to_string(local));
  const Program program(test::matrix_module("hand-written", text, {}), constants, layout);
  std::vector<uint32_t> out(count, 0xdeadbeef);
  const auto bytes = [](std::vector<uint32_t>& words) {
    return reinterpret_cast<uint8_t*>(words.data());
  };
  const DeviceMemory memory({{kIn, in.size() * 4, bytes(in), true, false, "x"},
                             {kOut, out.size() * 4, bytes(out), true, true, "y"}});
  std::vector<uint8_t> pushed(20);
  const auto n = static_cast<uint32_t>(in.size());
  std::memcpy(pushed.data(), &kIn, 8);
  std::memcpy(pushed.data() + 8, &kOut, 8);
  std::memcpy(pushed.data() + 16, &n, 4);
  dispatch(program, {.groups = {1, 1, 1}, .push_constants = pushed}, memory);
  return out;
}

/// What the interpreter says of a kernel that it refuses.
std::string refusal(const std::string& body, size_t words = 64, uint32_t local = 64) {
  try {
    run(body, std::vector<uint32_t>(words, 1), words, local);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "nothing";
}

void expect_refused(const std::string& body, const std::string& part) {
  const std::string said = refusal(body);
  EXPECT_NE(said.find(part), std::string::npos) << body << "\nsays: " << said;
}

std::vector<uint32_t> numbers(size_t count) {
  std::vector<uint32_t> list(count);
  std::iota(list.begin(), list.end(), 0);
  return list;
}

TEST(Interpreter, LoopsCallsSwitchesAndPhisTakeTheirWay) {
  const auto out =
      run("uint collatz(uint n) { uint steps = 0u; while (n != 1u) { n = n % 2u == 0u ? n / 2u : "
          "3u * n + 1u;"
          " steps++; } return steps; }\n"
          "uint kind(uint i) { switch (i % 4u) { case 0u: return 10u; case 1u: i += 5u; case 2u: "
          "return i; "
          "default: return 7u; } }\n"
          "void main() { p.y.v[ID] = collatz(p.x.v[ID] + 1u) * 1000u + kind(ID) + uint(ID > 3u && "
          "ID < 9u); }",
          numbers(32), 32);
  for (uint32_t i = 0; i < 32; ++i) {
    uint32_t steps = 0;
    for (uint64_t n = i + 1; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1) ++steps;
    const uint32_t kind = i % 4 == 0 ? 10 : i % 4 == 1 ? i + 5 : i % 4 == 2 ? i : 7;
    EXPECT_EQ(out[i], steps * 1000 + kind + (i > 3 && i < 9)) << i;
  }
}

TEST(Interpreter, NumbersOfEveryWidth) {
  const auto out = run(
      "void main() {\n"
      "  int a = -int(p.x.v[7]); int8_t c = int8_t(-100); uint16_t u = uint16_t(65535); int64_t l "
      "= int64_t(a) * 3000000000l;\n"
      "  p.y.v[0] = uint(a / 2); p.y.v[1] = uint(abs(a) * -1); p.y.v[2] = uint(a >> 1); p.y.v[3] = "
      "uint(int(c) * 2);\n"
      "  p.y.v[4] = uint(u + uint16_t(2)); p.y.v[5] = uint(l); p.y.v[6] = uint(l >> 32);\n"
      "  p.y.v[7] = floatBitsToUint(float(float16_t(1.0009765625 * float(p.x.v[1])) + "
      "float16_t(0.00048828125 * float(p.x.v[1]))));\n"
      "  p.y.v[8] = floatBitsToUint(float(double(p.x.v[3]) / 7.0lf)); p.y.v[9] = uint(-3.7 + "
      "float(p.x.v[0]) < 0.0);\n"
      "  p.y.v[10] = packHalf2x16(vec2(65519.0, 5.9604644775390625e-08)); p.y.v[11] = "
      "floatBitsToUint(unpackHalf2x16(0x3555u).x);\n"
      "  p.y.v[12] = bitfieldExtract(0xabcd1234u, 8, 12); p.y.v[13] = uint(findMSB(p.x.v[9]));\n"
      "  uvec4 w = uvec4(1, 2, 3, 4).wzyx; w.yz += 10u; p.y.v[14] = w.x * 1000u + w.y * 100u + w.z "
      "* 10u + w[p.x.v[3]];\n"
      "  p.y.v[15] = floatBitsToUint(fma(0.1, 0.1, -0.01));\n"
      "}",
      numbers(16), 16, 1);
  const auto f = [](float x) { return std::bit_cast<uint32_t>(x); };
  const int64_t l = -7 * INT64_C(3000000000);
  EXPECT_EQ(out[0], static_cast<uint32_t>(-3));
  EXPECT_EQ(out[1], static_cast<uint32_t>(-7));
  EXPECT_EQ(out[2], static_cast<uint32_t>(-4));
  EXPECT_EQ(out[3], static_cast<uint32_t>(-200));
  EXPECT_EQ(out[4], 1U);
  EXPECT_EQ(out[5], static_cast<uint32_t>(l));
  EXPECT_EQ(out[6], static_cast<uint32_t>(l >> 32));
  EXPECT_EQ(out[7], f(1.001953125F)) << "a tie goes to the even neighbour";
  EXPECT_EQ(out[8], f(static_cast<float>(3.0 / 7.0)));
  EXPECT_EQ(out[9], 1U);
  EXPECT_EQ(out[10], 0x00017bffU) << "denormals are kept";
  EXPECT_EQ(out[11], f(0x1.554p-2F));
  EXPECT_EQ(out[12], 0xd12U);
  EXPECT_EQ(out[13], 3U);
  EXPECT_EQ(out[14], 4U * 1000 + 13 * 100 + 12 * 10 + 1);
  EXPECT_EQ(out[15], f(std::fma(0.1F, 0.1F, -0.01F)));
}

TEST(Interpreter, SpecialisationConstantsReachArraysAndSizes) {
  const char* body =
      "layout(constant_id = 1) const uint n = 3; layout(constant_id = 0) const float s = 2.0;\n"
      "const uint twice = n * 2u; shared uint sh[twice];\n"
      "void main() { uint own[n]; for (uint i = 0u; i < n; i++) own[i] = i + 1u; sh[ID % twice] = "
      "own[n - 1u];\n"
      "  barrier(); p.y.v[ID] = sh[(ID + 1u) % twice] * uint(s); }";
  EXPECT_EQ(run(body, {0}, 6, 6), std::vector<uint32_t>(6, 6));
  EXPECT_EQ(run(body, {0}, 10, 10, FragmentLayout::kNvidia, {std::bit_cast<uint32_t>(4.0F), 5}),
            std::vector<uint32_t>(10, 20));
}

TEST(Interpreter, SubgroupsVoteMoveAndAdd) {
  const auto out =
      run("void main() { uint x = p.x.v[ID]; uint s = gl_SubgroupInvocationID;\n"
          "  p.y.v[ID] = subgroupAdd(x) + 1000u * uint(subgroupAny(s == 5u)) + 2000u * "
          "uint(subgroupAll(s < 31u));\n"
          "  p.y.v[64u + ID] = subgroupShuffleXor(x, 3u) * 100u + subgroupMax(s) + "
          "subgroupBroadcast(x, 2u);\n"
          "  p.y.v[128u + ID] = subgroupBallot((s & 1u) == 1u).x + subgroupInclusiveAdd(s); }",
          numbers(64), 192, 64);
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t first = i / 32 * 32, lane = i % 32;
    EXPECT_EQ(out[i], first * 32 + 496 + 1000);
    EXPECT_EQ(out[64 + i], (i ^ 3) * 100 + 31 + first + 2);
    EXPECT_EQ(out[128 + i], 0xaaaaaaaaU + lane * (lane + 1) / 2);
  }
}

TEST(Interpreter, RefusesWhatLeavesItsMemory) {
  expect_refused(
      "void main() { p.y.v[ID + 1u] = 0u; }",
      "writes 4 bytes at 0x20100, 256 bytes from the beginning of y, which has 256 bytes");
  expect_refused("void main() { p.y.v[ID] = p.x.v[ID - 1u]; }", "reads 4 bytes at 0x40000fffc");
  expect_refused("void main() { p.x.v[ID] = 0u; }",
                 "writes 4 bytes at 0x10000, 0 bytes from the "
                 "beginning of x, which has 256 bytes to read");
  expect_refused(
      "void main() { Units u = Units(uint64_t(p.x) + 8ul); uvec4 w = u.v[0]; p.y.v[ID] = w.x; }",
      "no multiple of 16");
  expect_refused("void main() { uint own[4] = uint[4](1u, 2u, 3u, 4u); p.y.v[ID] = own[ID]; }",
                 "index 4 of an array of 4");
  expect_refused("shared uint sh[40]; void main() { sh[ID] = 1u; barrier(); p.y.v[ID] = sh[3]; }",
                 "index 40 of an array of 40");
  EXPECT_EQ(refusal("void main() { p.y.v[ID] = p.x.v[ID]; }"), "nothing");
}

TEST(Interpreter, RefusesInvocationsThatPart) {
  expect_refused("void main() { if (ID != 7u) barrier(); p.y.v[ID] = 1u; }",
                 "its subgroup is apart");
  expect_refused("void main() { if (ID < 32u) barrier(); p.y.v[ID] = 1u; }",
                 "ends before a barrier of its workgroup");
  expect_refused("void main() { if (ID < 32u) { barrier(); p.y.v[ID] = 1u; } else { barrier(); } }",
                 "another barrier of its workgroup");
  expect_refused(
      "void main() { uint s = 0u; if (ID % 2u == 0u) s = subgroupAdd(1u); p.y.v[ID] = s; }",
      "its subgroup is apart");
}

TEST(Interpreter, RefusesSharedMemoryWithoutABarrier) {
  const auto body = [](const std::string& wait, const std::string& from) {
    return "shared uint sh[64]; void main() { sh[ID] = ID; " + wait + " p.y.v[ID] = sh[" + from +
           "]; }";
  };
  EXPECT_EQ(refusal(body("barrier();", "63u - ID")), "nothing");
  EXPECT_EQ(refusal(body("subgroupBarrier();", "ID ^ 1u")), "nothing");
  EXPECT_EQ(refusal(body("", "ID")), "nothing");
  expect_refused(body("", "63u - ID"), "where another invocation read it with no barrier between");
  expect_refused(body("", "(ID + 63u) % 64u"),
                 "another invocation wrote it with no barrier between");
  expect_refused(body("subgroupBarrier();", "63u - ID"), "with no barrier between");
  expect_refused(
      "shared uint sh[64]; void main() { sh[ID] = ID; barrier(); uint x = sh[63u - ID]; sh[ID] = x;"
      " barrier(); p.y.v[ID] = sh[0]; }",
      "with no barrier between");
}

constexpr const char* kProduct =
    "shared uvec4 sh[COUNT];\n"
    "void main() {\n"
    "  const uint s = gl_SubgroupInvocationID;\n"
    "  for (uint i = s; i < 64u; i += 32u) sh[i] = Units(p.x).v[i];\n"
    "  WAIT\n"
    "  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;\n"
    "  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;\n"
    "  coopMatLoad(a, sh, 0, 2, gl_CooperativeMatrixLayoutRowMajor);\n"
    "  coopMatLoad(b, sh, 32, 2, gl_CooperativeMatrixLayoutColumnMajor);\n"
    "  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> c ="
    " coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(1.0);\n"
    "  c = coopMatMulAdd(a, b, c);\n"
    "  for (uint e = 0u; e < c.length(); e++) c[e] *= 2.0;\n"
    "  coopMatStore(c, Units(p.y).v, 0, STRIDE, gl_CooperativeMatrixLayoutRowMajor);\n"
    "}";

std::string product(const std::string& count, const std::string& wait, const std::string& stride) {
  std::string text = kProduct;
  text.replace(text.find("COUNT"), 5, count);
  text.replace(text.find("WAIT"), 4, wait);
  return text.replace(text.find("STRIDE"), 6, stride);
}

TEST(Interpreter, MultipliesMatricesWhateverTheirLayout) {
  std::vector<uint32_t> in(256);  // a by rows, b by columns: small whole numbers as float16
  const auto number = [](uint32_t i) { return static_cast<int>(i * 7 % 13) - 6; };
  const auto half = [](int x) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
    return x == 0 ? 0 : (bits >> 16 & 0x8000U) | ((bits & 0x7fffffffU) - 0x38000000U) >> 13;
  };
  for (uint32_t i = 0; i < 256; ++i) in[i] = half(number(2 * i)) | half(number(2 * i + 1)) << 16;
  for (const FragmentLayout layout :
       {FragmentLayout::kNvidia, FragmentLayout::kScattered, FragmentLayout::kReplicated}) {
    const auto out = run(product("64", "subgroupBarrier();", "4"), in, 256, 32, layout);
    for (uint32_t m = 0; m < 16; ++m) {
      for (uint32_t n = 0; n < 16; ++n) {
        int sum = 1;
        for (uint32_t k = 0; k < 16; ++k) sum += number(m * 16 + k) * number(256 + n * 16 + k);
        ASSERT_EQ(std::bit_cast<float>(out[m * 16 + n]), static_cast<float>(2 * sum))
            << m << ", " << n << ", layout " << static_cast<int>(layout);
      }
    }
  }
}

TEST(Interpreter, RefusesMatricesThatLeaveTheirMemory) {
  const auto said = [](const std::string& body) {
    try {
      run(body, std::vector<uint32_t>(256), 256);
    } catch (const Fault& fault) {
      return std::string(fault.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(said(product("64", "subgroupBarrier();", "4")), "nothing");
  EXPECT_NE(said(product("64", "subgroupBarrier();", "5")).find("which has 1024 bytes"),
            std::string::npos);
  EXPECT_NE(said(product("63", "subgroupBarrier();", "4")).find("index 63 of an array of 63"),
            std::string::npos);
  EXPECT_NE(said(product("64", "", "4")).find("with no barrier between"), std::string::npos);
  std::string body = product("64", "subgroupBarrier();", "4");
  body.replace(body.find("sh, 32, 2"), 9, "sh, 33, 2");
  EXPECT_NE(said(body).find("beyond its variable"), std::string::npos);
}

}  // namespace
}  // namespace tv::interpreter
