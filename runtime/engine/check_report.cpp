#include "runtime/engine/check_report.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"

namespace tv {
namespace {

// As in report.glsl.
constexpr uint32_t kPointer = 254, kBadIndex = 253, kZeroDivisor = 252, kNotTwoFour = 251,
                   kNotFourBits = 250;

std::string place_of(const Dispatch& dispatch) {
  std::string ops;
  for (const std::string& op : dispatch.ops) ops += (ops.empty() ? "" : ", ") + op;
  return "\"" + dispatch.name + "\" (" + ops +
         (dispatch.source.empty() ? "" : ", " + dispatch.source) + ")";
}

[[noreturn]] void throw_bad_value(bool index, const std::string& place, bool writes) {
  const std::string after =
      writes ? "; the arguments that the call writes may hold a part of its results" : "";
  if (index) {
    throw BadValueError(BadValueError::What::kIndex,
                        "[check_indices] index out of range in " + place +
                            "; want indices inside of the dimension that they name" + after);
  }
  throw BadValueError(
      BadValueError::What::kDivisor,
      "[check_indices] ZeroDivisionError: an integer is divided by 0 in " + place + after);
}

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

void throw_check_report(const Allocation& buffer, std::span<const Dispatch> program, bool writes) {
  buffer.invalidate();
  uint32_t words[kCheckWords];
  std::memcpy(words, buffer.host(), sizeof words);
  if (words[0] == 0) return;
  const bool known = words[1] < program.size();
  if (words[2] == kBadIndex || words[2] == kZeroDivisor) {
    throw_bad_value(words[2] == kBadIndex, known ? place_of(program[words[1]]) : "a kernel",
                    writes);
  }
  if (words[2] == kNotTwoFour) {
    throw Error(ErrorKind::kUnsupported,
                "[sparse_weights] the weight of " +
                    (known ? place_of(program[words[1]]) : "a product") +
                    " has more than two of four neighbours that are not zero, and the engine was "
                    "built for one that is 2:4 sparse; want weights with the zeros of a 2:4 "
                    "pattern, or an engine built without sparse_weights");
  }
  if (words[2] == kNotFourBits) {
    throw Error(ErrorKind::kUnsupported,
                "[four_bits] the weight of " + (known ? place_of(program[words[1]]) : "a product") +
                    " has integers or zero points beyond -8 to 7, and the engine was built for a "
                    "dtype of 4 bits; want such integers, or an engine built with these weights");
  }
  const std::string name = known ? program[words[1]].name : "?";
  const std::string what =
      words[2] == kPointer ? "a pointer" : "operand " + std::to_string(words[2]);
  throw Error(ErrorKind::kInternal, "[address check] " + std::to_string(words[0]) +
                                        " invocations left their operands, the first in \"" + name +
                                        "\": " + what);
}

bool writes_arguments(const EngineSpec& spec) {
  return std::ranges::any_of(spec.inputs, &Binding::written);
}

bool waits_for_check(const EngineSpec& spec) {
  return std::ranges::any_of(
      spec.buffers, [](const Buffer& b) { return b.kind == BufferKind::kCheck && b.index == 1; });
}

}  // namespace tv
