#include "runtime/check_report.h"

#include <algorithm>
#include <cstring>

#include "runtime/error.h"

namespace tv {
namespace {

constexpr uint32_t kPointer = 254;  // kTvPointer of kernels/check.glsl

}  // namespace

Allocation make_check_buffer(Device& device, const EngineSpec& spec) {
  const bool wanted = std::ranges::any_of(
      spec.buffers, [](const Buffer& b) { return b.kind == BufferKind::kCheck; });
  return wanted ? Allocation(device, 4 * kCheckWords, MemoryUse::kReadback) : Allocation();
}

void clear_check(const Allocation& buffer) {
  std::memset(buffer.host(), 0, 4 * kCheckWords);
  buffer.flush();
}

void throw_check_report(const Allocation& buffer, std::span<const Dispatch> program) {
  buffer.invalidate();
  uint32_t words[kCheckWords];
  std::memcpy(words, buffer.host(), sizeof words);
  if (words[0] == 0) return;
  const std::string name = words[1] < program.size() ? program[words[1]].name : "?";
  const std::string what =
      words[2] == kPointer ? "a pointer" : "operand " + std::to_string(words[2]);
  throw Error(ErrorKind::kInternal, "[address check] " + std::to_string(words[0]) +
                                        " invocations left their operands, the first in \"" + name +
                                        "\": " + what);
}

}  // namespace tv
