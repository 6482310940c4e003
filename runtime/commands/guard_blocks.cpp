#include "runtime/commands/guard_blocks.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/spirv/guard.h"
#include "runtime/spirv/types.h"
#include "runtime/vulkan/device_impl.h"

namespace tv {
namespace {

constexpr size_t kAlignment = 16;
constexpr size_t kPushImage = 0, kParamBlock = 1;  // the first ranges

/// Ranges that are not operands.
uint32_t own_ranges(const Pipeline& pipeline) { return pipeline.param_block ? 2 : 1; }

void set_word(EncodedProgram& program, size_t at, uint64_t word) {
  std::memcpy(program.params.data() + at, &word, sizeof word);
}

size_t range_at(const EncodedDispatch& d, size_t range) {
  return d.guard_at + kGuardRanges + range * kGuardRangeBytes;
}

void set_range(EncodedProgram& program, const EncodedDispatch& d, size_t range, uint64_t begin,
               uint64_t bytes) {
  set_word(program, range_at(d, range), begin);
  set_word(program, range_at(d, range) + 8, bytes);
}

}  // namespace

GuardPlan plan_guards(const EngineSpec& spec, uint32_t max_iterations) {
  GuardPlan plan;
  plan.max_iterations = std::max(max_iterations, 1U);
  for (const Pipeline& pipeline : spec.pipelines) plan.ranges.push_back(own_ranges(pipeline));
  for (const auto* program : {&spec.weight_program, &spec.dispatches}) {
    for (const Dispatch& d : *program) {
      uint32_t& ranges = plan.ranges[d.pipeline];
      const auto wanted =
          own_ranges(spec.pipelines[d.pipeline]) + static_cast<uint32_t>(d.operands.size());
      ranges = std::max(ranges, wanted);
    }
  }
  return plan;
}

void append_guard(const EncodeRequest& request, const Dispatch& dispatch, EncodedProgram& out,
                  EncodedDispatch& encoded) {
  const size_t start = (out.params.size() + kAlignment - 1) & ~(kAlignment - 1);
  out.params.resize(start + guard_block_bytes(request.guard_ranges[dispatch.pipeline]));
  encoded.guarded = true;
  encoded.guard_at = static_cast<uint32_t>(start);
  size_t range = own_ranges(request.spec.pipelines[dispatch.pipeline]);
  for (const OperandRange& operand : dispatch.operands) {
    const size_t at = range_at(encoded, range++);
    const auto& buffers = request.spec.buffers;  // none in a warm-up
    const bool reports = !buffers.empty() && buffers[operand.buffer].kind == BufferKind::kCheck;
    const auto bytes =
        static_cast<uint64_t>(std::max<int64_t>(operand.size_bytes.eval(request.symbols), 0));
    out.fixes.push_back({static_cast<uint32_t>(at), operand.buffer,
                         operand.offset_bytes.eval(request.symbols),
                         static_cast<uint32_t>(out.dispatches.size())});
    set_word(out, at + 8, bytes);
    set_word(out, at + 16, operand.write || reports ? bytes : 0);
  }
}

GuardMemory::GuardMemory(Device& device, size_t dispatches)
    : memory_(device,
              static_cast<int64_t>(2 * kMostAccessBytes + 4 * std::max<size_t>(dispatches, 1)),
              MemoryUse::kReadback),
      dispatches_(dispatches) {
  std::memset(memory_.host(), 0, 2 * kMostAccessBytes + 4 * dispatches_);
  memory_.flush();
}

uint64_t GuardMemory::sink() const { return zeros() + kMostAccessBytes; }

uint64_t GuardMemory::report(size_t dispatch) const {
  return zeros() + 2 * kMostAccessBytes + 4 * dispatch;
}

std::span<uint32_t> GuardMemory::reports() const {
  char* const at = static_cast<char*>(memory_.host()) + 2 * kMostAccessBytes;
  return {reinterpret_cast<uint32_t*>(at), dispatches_};
}

GuardMemory make_guard_memory(Device& device, bool guarded, size_t dispatches) {
  return guarded ? GuardMemory(device, dispatches) : GuardMemory();
}

void patch_guards(EncodedProgram& program, uint64_t blocks_address, const GuardMemory& memory) {
  for (const EncodedDispatch& d : program.dispatches) {
    uint8_t* const params = program.params.data();
    if (d.param_block) {
      const uint64_t address = blocks_address + d.params_at;
      set_word(program, d.guard_at, address);
      set_range(program, d, kParamBlock, address, d.params_bytes);
    } else {
      std::memcpy(params + d.guard_at, params + d.params_at, d.params_bytes);
    }
    set_range(program, d, kPushImage, blocks_address + d.guard_at, kPushBytes);
    set_word(program, d.guard_at + kGuardReport, memory.report(d.dispatch));
    set_word(program, d.guard_at + kGuardZeros, memory.zeros());
    set_word(program, d.guard_at + kGuardSink, memory.sink());
  }
}

void clear_guard(const GuardMemory& memory) {
  std::ranges::fill(memory.reports(), 0U);
  memory.memory().flush();
}

void throw_guard_report(const GuardMemory& memory, std::span<const Dispatch> program) {
  memory.memory().invalidate();
  const auto reports = memory.reports();
  const auto found = std::ranges::find_if(reports, [](uint32_t word) { return word != 0; });
  if (found == reports.end()) return;
  std::string what;
  const auto add = [&](uint32_t bit, const char* text) {
    if ((*found & bit) != 0) what += (what.empty() ? "" : ", ") + std::string(text);
  };
  add(kGuardRead, "read outside of its operands");
  add(kGuardWrite, "wrote outside of its operands");
  add(kGuardLoop, "did not end within the loop rounds that it may take");
  const auto index = static_cast<size_t>(found - reports.begin());
  throw Error(ErrorKind::kUser, "[check_addresses] dispatch \"" +
                                    (index < program.size() ? program[index].name : "?") + "\" " +
                                    what + ": the results are void; do not use this engine");
}

}  // namespace tv
