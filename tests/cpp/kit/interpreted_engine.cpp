#include "tests/cpp/kit/interpreted_engine.h"

#include <algorithm>
#include <cstring>

#include "runtime/commands/encoder.h"

namespace tv::test {

namespace {

using interpreter::Fault;

// Buffers lie far apart, at multiples of 16 bytes and no more: kernels may count on nothing else.
constexpr uint64_t kFirst = uint64_t{1} << 40, kApart = uint64_t{1} << 36, kOff = 16;
constexpr uint64_t kParameters = uint64_t{1} << 39;

uint64_t address_of(uint32_t buffer) { return kFirst + buffer * kApart + kOff; }

}  // namespace

void InterpretedEngine::run(std::span<const HostTensor> weights, std::span<const HostTensor> inputs,
                            std::span<const HostTensor> outputs, std::span<const int64_t> symbols) {
  memory_.clear();
  for (const Buffer& buffer : spec_.buffers) {
    const auto bytes = static_cast<size_t>(buffer.size_bytes.eval(symbols));
    const bool report = buffer.kind == BufferKind::kCheck;
    auto& memory = memory_.emplace_back(bytes, report ? uint8_t{0} : uint8_t{0xff});
    const bool weight = buffer.kind == BufferKind::kWeight;
    if (!weight && buffer.kind != BufferKind::kInput) continue;
    const HostTensor& tensor = (weight ? weights : inputs)[buffer.index];
    if (static_cast<size_t>(tensor.size_bytes) != bytes)
      throw Fault("a tensor of another size than " + buffer.name);
    std::memcpy(memory.data(), tensor.data, bytes);
  }
  run(spec_.weight_program, symbols);
  run(spec_.dispatches, symbols);
  check_reports();
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (spec_.buffers[i].kind != BufferKind::kOutput) continue;
    std::memcpy(outputs[spec_.buffers[i].index].data, memory_[i].data(), memory_[i].size());
  }
}

void InterpretedEngine::run(std::span<const Dispatch> program, std::span<const int64_t> symbols) {
  std::vector<Placement> placements;
  for (uint32_t i = 0; i < spec_.buffers.size(); ++i) placements.push_back({.space = i});
  const EncodedProgram encoded = encode({.spec = spec_,
                                         .program = program,
                                         .symbols = symbols,
                                         .placements = placements,
                                         .max_grid = {65535, 65535, 65535},
                                         .modes = {}});
  for (const EncodedDispatch& dispatch : encoded.dispatches) {
    const Dispatch& what = program[dispatch.dispatch];
    try {
      launch(encoded, dispatch, what, symbols);
    } catch (const Fault& fault) {
      throw Fault(what.name + " (" + what.tactic + "), " + fault.what());
    }
  }
}

void InterpretedEngine::launch(const EncodedProgram& encoded, const EncodedDispatch& dispatch,
                               const Dispatch& what, std::span<const int64_t> symbols) {
  std::vector<uint8_t> parameters(
      encoded.params.begin() + dispatch.params_at,
      encoded.params.begin() + dispatch.params_at + dispatch.params_bytes);
  for (const AddressFix& fix : encoded.fixes) {
    if (fix.at < dispatch.params_at || fix.at >= dispatch.params_at + dispatch.params_bytes)
      continue;
    const uint64_t address = address_of(fix.buffer) + static_cast<uint64_t>(fix.offset);
    std::memcpy(parameters.data() + (fix.at - dispatch.params_at), &address, sizeof(address));
  }
  std::vector<interpreter::Range> ranges;
  for (const OperandRange& operand : what.operands) {
    const int64_t offset = operand.offset_bytes.eval(symbols),
                  bytes = operand.size_bytes.eval(symbols);
    auto& memory = memory_[operand.buffer];
    if (offset < 0 || bytes < 0 || static_cast<size_t>(offset + bytes) > memory.size()) {
      throw Fault("an operand is larger than buffer " + spec_.buffers[operand.buffer].name);
    }
    ranges.push_back({.address = address_of(operand.buffer) + static_cast<uint64_t>(offset),
                      .bytes = static_cast<uint64_t>(bytes),
                      .data = memory.data() + offset,
                      .read = operand.read,
                      .write = operand.write,
                      .name = spec_.buffers[operand.buffer].name});
  }
  std::vector<uint8_t> pushed = parameters;
  if (dispatch.param_block) {
    ranges.push_back({.address = kParameters,
                      .bytes = parameters.size(),
                      .data = parameters.data(),
                      .name = "the parameters"});
    pushed.resize(sizeof(kParameters));
    std::memcpy(pushed.data(), &kParameters, sizeof(kParameters));
  }
  interpreter::dispatch(program_of(dispatch.pipeline),
                        {.groups = dispatch.grid, .push_constants = pushed},
                        interpreter::DeviceMemory(std::move(ranges)));
}

const interpreter::Program& InterpretedEngine::program_of(uint32_t pipeline) {
  const auto it = programs_.find(pipeline);
  if (it != programs_.end()) return it->second;
  const Pipeline& p = spec_.pipelines.at(pipeline);
  if (p.subgroup_size != 0 && p.subgroup_size != interpreter::kSubgroup) {
    throw Fault("subgroups of " + std::to_string(p.subgroup_size) + " are not interpreted");
  }
  return programs_.try_emplace(pipeline, spec_.modules.at(p.module), p.spec_constants, layout_)
      .first->second;
}

void InterpretedEngine::check_reports() const {
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (spec_.buffers[i].kind != BufferKind::kCheck) continue;
    if (std::ranges::any_of(memory_[i], [](uint8_t byte) { return byte != 0; })) {
      throw Fault("a kernel reports a fault");
    }
  }
}

}  // namespace tv::test
