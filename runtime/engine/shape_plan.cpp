#include "runtime/engine/shape_plan.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/engine/memory_plan.h"

namespace tv {
namespace {

int64_t align(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

int64_t binding_bytes(const Binding& binding, std::span<const int64_t> symbols) {
  int64_t bytes = size_bytes(binding.dtype);
  for (const Expr& dim : binding.shape) {
    const int64_t size = dim.eval(symbols);
    if (size == 0) return 0;  // a product with the others might pass 2^63
    bytes *= size;
  }
  return bytes;
}

/// What an engine cannot be run at, though its inputs have the shapes that it wants.
void check_runs(const EngineSpec& spec, std::span<const int64_t> symbols) {
  try {
    validate_at(spec, symbols);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser || first_broken(spec.conditions, symbols)) throw;
    throw Error(ErrorKind::kUnsupported, error.what());
  }
}

void check_symbols(const EngineSpec& spec, std::span<const int64_t> symbols) {
  const std::string prefix = "[" + (spec.name.empty() ? "engine" : spec.name) + "] ";
  if (symbols.size() != spec.symbols.size()) {
    throw Error(ErrorKind::kUser, prefix + "got " + std::to_string(symbols.size()) +
                                      " symbol values, want " +
                                      std::to_string(spec.symbols.size()));
  }
  for (size_t i = 0; i < symbols.size(); ++i) {
    const Symbol& s = spec.symbols[i];
    if (symbols[i] >= s.min && symbols[i] <= s.max) continue;
    throw Error(ErrorKind::kUser, prefix + "symbol " + s.name + ": got " +
                                      std::to_string(symbols[i]) + ", want " +
                                      std::to_string(s.min) + " to " +
                                      (s.max == kUnbounded ? "any" : std::to_string(s.max)));
  }
}

/// Space 0 is the arena; a caller's tensor or a weight is a space of its own, which buffers that
/// name the same tensor share.
uint32_t external_space(const Buffer& buffer, size_t buffer_index) {
  constexpr uint32_t kKinds = 8;
  const uint32_t index =
      buffer.kind == BufferKind::kPersistent ? static_cast<uint32_t>(buffer_index) : buffer.index;
  return 1 + index * kKinds + static_cast<uint32_t>(buffer.kind);
}

void plan_arena(const EngineSpec& spec, std::span<const int64_t> symbols, ShapePlan& plan) {
  std::vector<int32_t> first(spec.buffers.size(), -1), last(spec.buffers.size(), -1);
  for (size_t d = 0; d < spec.dispatches.size(); ++d) {
    for (const OperandRange& operand : spec.dispatches[d].operands) {
      if (first[operand.buffer] < 0) first[operand.buffer] = static_cast<int32_t>(d);
      last[operand.buffer] = static_cast<int32_t>(d);
    }
  }
  std::vector<BufferLifetime> lifetimes;
  std::vector<size_t> planned;
  plan.placements.resize(spec.buffers.size());
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const Buffer& buffer = spec.buffers[b];
    plan.placements[b] = {external_space(buffer, b), 0};
    if (buffer.kind != BufferKind::kArena || first[b] < 0) continue;
    lifetimes.push_back({buffer.size_bytes.eval(symbols), first[b], last[b]});
    planned.push_back(b);
  }
  const MemoryPlan memory = plan_memory(lifetimes);
  for (size_t i = 0; i < planned.size(); ++i) plan.placements[planned[i]] = {0, memory.offsets[i]};
  plan.activation_bytes = memory.total_bytes;
}

void plan_results(const EngineSpec& spec, ShapePlan& plan) {
  const size_t inputs = spec.inputs.size();
  for (size_t slot = 0; slot < plan.copy_offsets.size(); ++slot) {
    if (slot < inputs && !spec.inputs[slot].written) continue;
    const int64_t bytes = slot < inputs ? plan.input_bytes[slot] : plan.output_bytes[slot - inputs];
    if (bytes == 0) continue;
    plan.results.push_back({slot, plan.copy_offsets[slot], plan.readback_bytes, bytes});
    plan.readback_bytes += align(bytes);
  }
}

}  // namespace

ShapePlan plan_shape(const EngineParts& parts, std::span<const int64_t> symbols) {
  const EngineSpec& spec = parts.spec;
  check_symbols(spec, symbols);
  check_runs(spec, symbols);
  ShapePlan plan;
  plan.symbols.assign(symbols.begin(), symbols.end());
  plan_arena(spec, symbols, plan);
  plan.arena_bytes = plan.activation_bytes;
  for (const Binding& b : spec.inputs) plan.input_bytes.push_back(binding_bytes(b, symbols));
  for (const Binding& b : spec.outputs) plan.output_bytes.push_back(binding_bytes(b, symbols));
  if (!parts.device->host_pointers()) {
    for (const auto* sizes : {&plan.input_bytes, &plan.output_bytes}) {
      for (const int64_t size : *sizes) {
        plan.copy_offsets.push_back(plan.arena_bytes);
        plan.arena_bytes += align(size);
      }
    }
    plan_results(spec, plan);
  }
  const DeviceProfile& device = parts.device->profile();
  plan.program = encode({.spec = spec,
                         .program = spec.dispatches,
                         .symbols = symbols,
                         .placements = plan.placements,
                         .max_grid = std::to_array(device.max_grid),
                         .modes = debug_modes(),
                         .max_iterations = device.max_loop_iterations(),
                         .guard_ranges = parts.guard.ranges});
  return plan;
}

}  // namespace tv
