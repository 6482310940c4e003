// Engines of unknown origin: what their kernels touch is bounded (EngineOptions::check_addresses).

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "runtime/spec/vke.h"
#include "runtime/spirv/guard.h"
#include "runtime/vulkan/device_impl.h"
#include "tests/cpp/kit/runtime_fixture.h"
#include "tests/cpp/kit/spirv_check.h"

namespace tv::test {
namespace {

constexpr size_t kN = 257;
constexpr EngineOptions kChecked = {.check_addresses = true};

/// y = kernel(a), through a .vke file with its checksum.
EngineSpec with_kernel(const std::string& body) {
  SpecBuilder b{static_cast<int64_t>(kN)};
  const uint32_t a = b.input("a"), y = b.output("y");
  b.spec.modules = {compile(body)};
  b.step("hostile", y, a, a, 2);
  b.spec.dispatches[0].grid[0] = 1;
  return from_vke(to_vke(b.spec)).spec;
}

constexpr const char* kBlock =
    "layout(push_constant, scalar) uniform P { Floats y; Floats a; Floats b; uint n; float factor; "
    "};\n";

/// What a call throws; `y`, where given, is what it wrote.
std::string refused(const std::string& body, EngineOptions options = kChecked) {
  const auto engine = Engine::create(open_device(""), with_kernel(kBlock + body), options);
  std::vector<float> a = ramp(kN), y(kN, -1);
  return error_of(ErrorKind::kUser, [&] {
    engine->run(*engine->prepare_weights({}), {}, std::vector{host(a)}, std::vector{host(y)});
  });
}

std::string refused_at_load(const std::string& body) {
  return error_of(ErrorKind::kUser,
                  [&] { Engine::create(open_device(""), with_kernel(body), kChecked); });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<float> results(const EngineSpec& spec, EngineOptions options, size_t inputs) {
  const auto engine = Engine::create(open_device(""), spec, options);
  std::vector<std::vector<float>> data;
  std::vector<HostTensor> in;
  for (size_t i = 0; i < inputs; ++i) data.push_back(ramp(kN, static_cast<float>(i) + 0.25F));
  for (auto& v : data) in.push_back(host(v));
  std::vector<float> y(kN, -1);
  engine->run(*engine->prepare_weights({}), {}, in, std::vector{host(y)});
  return y;
}

TEST(Guard, SameResults) {
  for (const bool block : {false, true}) {
    SpecBuilder b{static_cast<int64_t>(kN)};
    const uint32_t a = b.input("a"), c = b.input("c"), t = b.arena("t"), y = b.output("y");
    b.step("first", t, a, c, 3).step("second", y, t, a, 0.1F);
    if (block) {
      b.spec.modules = {compile(kMulAddBlock)};
      b.spec.pipelines[0].param_block = true;
    }
    EXPECT_EQ(results(b.spec, kChecked, 2), results(b.spec, {}, 2));
  }
}

/// y = a + (3 w) by a weight program; `kernel` computes that.
EngineSpec with_weights(const std::string& kernel) {
  SpecBuilder b{static_cast<int64_t>(kN)};
  const uint32_t a = b.input("a"), w = b.weight("w"), p = b.persistent("p"), y = b.output("y");
  b.spec.modules.push_back(compile(kernel));
  b.spec.pipelines.push_back(Pipeline{.module = 1});
  b.spec.weight_program = {b.mul_add("packed", p, w, w, 2)};
  b.spec.weight_program[0].pipeline = 1;
  b.step("sum", y, a, p, 1);
  return b.spec;
}

TEST(Guard, WeightProgramsAndProfiles) {
  std::vector<float> w = ramp(kN, 2), a = ramp(kN), y(kN), want(kN);
  const auto checked = Engine::create(open_device(""), with_weights(kMulAdd), kChecked);
  const auto plain = Engine::create(open_device(""), with_weights(kMulAdd));
  plain->run(*plain->prepare_weights(std::vector{host(w)}), {}, std::vector{host(a)},
             std::vector{host(want)});
  const auto weights = checked->prepare_weights(std::vector{host(w)});
  checked->run(*weights, {}, std::vector{host(a)}, std::vector{host(y)});
  EXPECT_EQ(y, want);
  EXPECT_EQ(
      checked->time_dispatches(*weights, {}, std::vector{host(a)}, std::vector{host(y)}, 2).size(),
      1U);
  EXPECT_EQ(y, want);
  const std::vector<float> before = w;
  const auto hostile = Engine::create(
      open_device(""),
      with_weights(std::string(kBlock) + "void main() { a.v[0] = 5.0; y.v[0] = 1.0; }"), kChecked);
  const std::string said =
      error_of(ErrorKind::kUser, [&] { hostile->prepare_weights(std::vector{host(w)}); });
  EXPECT_TRUE(has(said, "\"packed\" wrote outside")) << said;
  EXPECT_EQ(w, before);
}

TEST(Guard, ManyCallsAtOnce) {
  // Contexts have ranges and reports of their own: a call that is refused does not disturb others.
  const auto engine = Engine::create(
      open_device(""),
      with_kernel(std::string(kBlock) + "void main() { uint i = gl_LocalInvocationID.x;"
                                        " y.v[i] = a.v[i] < 0.0 ? a.v[n + i] : a.v[i] * 2.0; }"),
      kChecked);
  const auto weights = engine->prepare_weights({});
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> a = ramp(kN, t % 2 == 0 ? 1.0F : -1.0F), y(kN);
      for (int call = 0; call < 50; ++call) {
        try {
          engine->run(*weights, {}, std::vector{host(a)}, std::vector{host(y)});
          wrong += t % 2 != 0 || y[7] != a[7] * 2;
        } catch (const Error&) {
          wrong += t % 2 == 0;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Guard, AddressOutOfThinAir) {
  std::vector<float> secret(64, 7), other(64, 7);
  const std::string address = std::to_string(reinterpret_cast<uint64_t>(secret.data())) + "ul";
  if (!open_device("")->host_pointers())
    GTEST_SKIP() << "memory of the process is no device memory here";
  EXPECT_TRUE(has(refused("void main() { Floats at = Floats(" + address + "); at.v[3] = 1.0; }"),
                  "wrote outside"));
  EXPECT_EQ(secret, other);
  EXPECT_TRUE(has(refused("void main() { Floats at = Floats(" + address + "); y.v[0] = at.v[3]; }"),
                  "read outside"));
  EXPECT_TRUE(
      has(refused("void main() { Floats at = Floats(0ul); y.v[0] = at.v[0]; }"), "read outside"));
}

TEST(Guard, ReadsOutsideAreZero) {
  // The error is thrown behind the run: what lies in the tensors shows what was read.
  const auto engine = Engine::create(
      open_device(""),
      with_kernel(std::string(kBlock) +
                  "void main() { uint i = gl_LocalInvocationID.x;"
                  " y.v[i] = a.v[i + 1000u] + 5.0; a.v[i] = 9.0; y.v[n + i] = 1.0; }"),
      kChecked);
  std::vector<float> a = ramp(kN + 128), y(kN + 128, -1);
  const std::vector<float> a_before = a;
  const HostTensor in{a.data(), kN * 4}, out{y.data(), kN * 4};
  const std::string said = error_of(ErrorKind::kUser, [&] {
    engine->run(*engine->prepare_weights({}), {}, std::vector{in}, std::vector{out});
  });
  EXPECT_TRUE(has(said, "\"hostile\" read outside of its operands, wrote outside")) << said;
  EXPECT_EQ(a, a_before);  // an input is not written
  EXPECT_EQ(std::vector<float>(y.begin() + kN, y.end()), std::vector<float>(128, -1));
  if (engine->device()->host_pointers()) {
    EXPECT_EQ(y[0], 5);
  }
}

TEST(Guard, MisalignedAddress) {
  const std::string wide =
      "layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Wide { vec4 v; };\n";
  EXPECT_TRUE(
      has(refused(wide + "void main() { vec4 w = Wide(uint64_t(a) + 4ul).v; y.v[0] = w.x + w.y; }"),
          "read outside"));
}

TEST(Guard, IndicesOfVariables) {
  const char* bodies[] = {
      "shared float s[4]; void main() { s[n * 1000u] = 1.0; s[a.v[0] < 1e9 ? 100000000u : 0u] = "
      "2.0; barrier(); y.v[0] = s[3]; }",
      "void main() { float s[4]; for (uint i = 0u; i < 4u; i++) s[i] = 1.0; s[n * 100000u] = 2.0; "
      "y.v[0] = s[3]; }",
      "float s[4]; void main() { s[int(-1000.0 * factor)] = 2.0; y.v[0] = s[3]; }",
      "void main() { vec4 s = vec4(1.0); s[n * 1000u] = 2.0; y.v[0] = s[n * 77u]; }",
      "shared float s[4][5]; void main() { s[n][n * 50000u] = 2.0; barrier(); y.v[0] = s[3][4]; }"};
  for (const char* body : bodies) {
    const EngineSpec spec = with_kernel(std::string(kBlock) + body);
    const std::vector<float> y = results(spec, kChecked, 1);
    EXPECT_EQ(y[0], 2) << body;  // the last element took it
  }
}

TEST(Guard, UnsetVariablesAreZero) {
  const EngineSpec spec = with_kernel(std::string(kBlock) +
                                      "float g[7]; void main() { float s; vec4 t[3]; uint64_t at;\n"
                                      "y.v[0] = s + t[1].y + g[n % 7u] + float(at); }");
  EXPECT_EQ(results(spec, kChecked, 1)[0], 0);
}

TEST(Guard, DivisionsThatOverflow) {
  const EngineSpec spec = with_kernel(std::string(kBlock) +
                                      "void main() { int one = int(n) - 256, low = one << 31; "
                                      "int64_t one64 = int64_t(one), low64 = one64 << 63;\n"
                                      "y.v[0] = float(low / -one) + float(low % -one) + float(low "
                                      "/ (one - 1)) + float(low % (one - 1));\n"
                                      "y.v[1] = float(low64 / -one64) + float(low64 % (one64 - "
                                      "1l)) + float(uint(low) % uint(one - 1)); }");
  results(spec, kChecked, 1);  // what comes of it is undefined, but the process goes on
}

TEST(Guard, EndlessLoops) {
  const char* bodies[] = {
      "void main() { while (true) { while (true) { y.v[0] += 1.0; } } }",
      "void main() { for (uint i = 0u; i < 10u; i = i * 2u) { for (uint k = 0u; k < 7u; k *= 2u) "
      "y.v[0] += a.v[k]; } }",
      "void main() { do { do { y.v[1] += 1.0; } while (n > 0u); } while (n > 0u); }"};
  for (const char* body : bodies) {
    const std::string said = refused(body, {.check_addresses = true, .max_iterations = 10'000});
    EXPECT_TRUE(has(said, "did not end within")) << said;
  }
}

/// A variable of the module begins as null.
TEST(Guard, BoundsPointersInGlobalVariables) {
  const std::string next = "Floats at;\nfloat next(uint i) { return at.v[i] + factor; }\n";
  const std::string use =
      "if (gl_GlobalInvocationID.x < n) y.v[gl_GlobalInvocationID.x] = next(1u); }";
  const EngineSpec set = with_kernel(kBlock + next + "void main() { at = a; " + use);
  EXPECT_EQ(results(set, kChecked, 1), results(set, {}, 1));
  const std::string unset = refused(next + "void main() { " + use);
  EXPECT_TRUE(has(unset, "read outside")) << unset;
}

TEST(Guard, RefusesWhatItCannotBound) {
  const std::string buffer =
      "layout(set = 0, binding = 0) buffer B { float v[]; } b; void main() { b.v[0] = 1.0; }";
  EXPECT_TRUE(has(refused_at_load(buffer), "descriptor")) << refused_at_load(buffer);
  const std::string image =
      "layout(set = 0, binding = 0, r32f) uniform image2D b; void main() { imageStore(b, ivec2(0), "
      "vec4(1.0)); }";
  EXPECT_TRUE(has(refused_at_load(image), "OpTypeImage")) << refused_at_load(image);
  const std::string large =
      "void main() { float v[1000000]; v[gl_WorkGroupID.x] = 1.0; Floats at = Floats(0ul); at.v[0] "
      "= v[gl_LocalInvocationID.x]; }";
  EXPECT_TRUE(has(refused_at_load(large), "variables")) << refused_at_load(large);
  std::vector<uint32_t> wide = compile(std::string(kBlock) + "void main() { y.v[0] = 1.0; }");
  for (size_t at = 5; at < wide.size();
       at += wide[at] >> 16) {  // the 64 invocations, by some compiler
    const uint32_t op = wide[at] & 0xFFFFU;
    const bool says = op == spv::kConstant || (op == spv::kExecutionMode && wide[at + 2] == 17);
    if (says && wide[at + 3] == 64) wide[at + 3] = 1 << 20;
  }
  const std::string said = error_of(ErrorKind::kUser, [&] { guard_spirv(wide, {.ranges = 4}); });
  EXPECT_TRUE(has(said, "1048576 invocations")) << said;
  const std::string push =
      "layout(push_constant, scalar) uniform P { uvec4 v[9]; Floats y; }; void main() { y.v[0] = "
      "float(v[8].x); }";
  EXPECT_TRUE(has(refused_at_load(push), "push constants")) << refused_at_load(push);
}

/// A module with loops, calls, shared memory, atomics and pointers.
std::vector<uint32_t> busy_module() {
  return compile(std::string(kBlock) + R"(
shared float s[64];
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Counts { uint v[]; };
float next(inout float x, uint i) { for (uint k = 0u; k < i; k++) x = fma(x, 0.5, a.v[k]); return x; }
void main() {
  uint i = gl_LocalInvocationID.x;
  s[i] = a.v[i];
  barrier();
  float x = s[63u - i];
  y.v[i] = next(x, i) + unpackHalf2x16(uint(x)).x;
  atomicAdd(Counts(uint64_t(y)).v[0], uint(x) / (i + 1u));
  switch (i & 3u) { case 0u: y.v[i] = 1.0; break; case 1u: y.v[i] = b.v[i]; }
})");
}

TEST(Guard, RefusesValuesOfOtherPaths) {
  // The second of two functions returns what the first computed.
  std::vector<uint32_t> words =
      compile(std::string(kBlock) +
              "float f(float x) { return x * 3.0; } float g(float x) { return x * 5.0; }\n"
              "void main() { y.v[0] = f(factor) + g(factor); }");
  std::vector<size_t> returns;
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
    if ((words[at] & 0xFFFFU) == spv::kReturnValue) returns.push_back(at);
  }
  ASSERT_EQ(returns.size(), 2U);
  guard_spirv(words, {.ranges = 4});
  words[returns[1] + 1] = words[returns[0] + 1];
  EXPECT_TRUE(has(error_of(ErrorKind::kUser, [&] { guard_spirv(words, {.ranges = 4}); }),
                  "need not be defined"));
}

TEST(Guard, RewrittenModulesAreValid) {
  const std::vector<uint32_t> made = guard_spirv(busy_module(), {.ranges = 4});
  EXPECT_EQ(spirv_problem(made), "");
}

TEST(Guard, RefusesMutationsOrStaysValid) {
  const std::vector<uint32_t> module = busy_module();
  std::mt19937 random(20);
  size_t accepted = 0;
  for (int round = 0; round < 6000; ++round) {
    std::vector<uint32_t> words = module;
    for (uint32_t k = random() % 3 + 1; k > 0; --k) {
      uint32_t& word = words[random() % words.size()];
      switch (random() % 4) {
        case 0:
          word ^= 1U << random() % 32;
          break;
        case 1:
          word = static_cast<uint32_t>(random());
          break;
        case 2:
          word = words[random() % words.size()];
          break;
        default:
          words.resize(1 + random() % words.size());
          break;
      }
    }
    try {
      guard_spirv(words, {.ranges = 4});
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kUser) << error.what();
    }
  }
  EXPECT_GT(accepted, 100U);  // another constant or name is as good
  EXPECT_LT(accepted, 3000U);
}

}  // namespace
}  // namespace tv::test
