// Kernels are compiled where memory runs out: each time in a process that has compiled nothing yet,
// because glslang makes its tables once.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include "csrc/codegen/glsl_compiler.h"
#include "csrc/codegen/kernel.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/own_process.h"

namespace tv {
namespace {

constexpr const char* kSource = R"(#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference) buffer Floats { float v[]; };
layout(push_constant) uniform P { Floats y; Floats x; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  y.v[i] = sqrt(x.v[i]) + exp2(x.v[i]) * sin(x.v[i]);
}
)";

/// Distinct sources, because modules are kept; nothing, where memory ran out.
std::optional<size_t> compiled(int number) {
  try {
    return compile_kernel("test", kSource + std::string("// ") + std::to_string(number), Settings{})
        .size();
  } catch (const OutOfMemoryError&) {
    return std::nullopt;
  } catch (const std::bad_alloc&) {  // in our own code, before or behind glslang
    return std::nullopt;
  }
}

rlim_t address_space() {
  std::ifstream in("/proc/self/statm");
  rlim_t pages = 0;
  in >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

enum Outcome : int { kGood = 0, kRanOut = 10, kStaysRefused = 11, kWrong = 12 };

/// Compiles with `room` bytes, then, in another thread, with all there is.
Outcome compile_within(rlim_t room) {
  ::alarm(30);  // a hang ends as a failure
  rlimit before = {};
  ::getrlimit(RLIMIT_AS, &before);
  const rlimit limit = {address_space() + room, before.rlim_max};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) return kWrong;
  const std::optional<size_t> first = compiled(1);
  ::setrlimit(RLIMIT_AS, &before);
  std::optional<size_t> second;
  std::thread([&] { second = compiled(2); }).join();
  if (second && compiled(1) != second) return kWrong;
  if (!second) return kStaysRefused;
  return first ? kGood : kRanOut;
}

TEST(GlslMemory, DISABLED_EveryRoom) {
  const char* step = std::getenv("TV_TEST_STEP_KIB");
  const rlim_t step_bytes = (step ? std::strtoull(step, nullptr, 10) : 16384) << 10;
  int ran_out = 0;
  for (rlim_t room = 0;; room += step_bytes) {
    ASSERT_LT(room, rlim_t{1} << 30) << "no room is enough";
    const pid_t child = ::fork();
    if (child == 0) ::_exit(compile_within(room));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << " with " << room << " bytes";
    const int outcome = WEXITSTATUS(status);
    ASSERT_TRUE(outcome == kGood || outcome == kRanOut) << outcome << " with " << room << " bytes";
    ran_out += outcome == kRanOut;
    if (outcome == kGood && room > 0) break;
  }
  EXPECT_GT(ran_out, 1) << "the limit was to be met";
}
TEST(GlslMemory, RunningOutOfMemoryLeavesTheCompilerUsable) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // gcc's; clang's has features
  GTEST_SKIP() << "sanitizers need the address space that this test takes away";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers need the address space that this test takes away";
#endif
#endif
  EXPECT_EQ(test::run_self("GlslMemory.DISABLED_EveryRoom"), 0);
}

}  // namespace
}  // namespace tv
