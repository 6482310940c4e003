#include "csrc/tuner/trial_memory.h"

#include <algorithm>
#include <set>

#include "csrc/tuner/compare.h"
#include "csrc/tuner/operands.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kMargin = 4096;  // kernels may load ahead of what they use
constexpr int64_t kUnboundedFactor = 4;

int64_t padded(int64_t bytes) {
  return (std::max<int64_t>(bytes, 0) + kMargin + kAlignment - 1) / kAlignment * kAlignment;
}

bool reads_results(const TacticProgram& program) {
  for (const Dispatch& dispatch : program.spec.dispatches) {
    for (const OperandRange& range : dispatch.operands) {
      if (range.read && program.memory.at(range.buffer).role == TacticProgram::Role::kResult) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::vector<std::vector<int64_t>> trial_symbols(const std::vector<Symbol>& symbols,
                                                const std::vector<Condition>& conditions) {
  std::vector<int64_t> opt, least, most;
  for (const Symbol& s : symbols) {
    opt.push_back(std::max<int64_t>(s.opt, 1));
    least.push_back(std::max<int64_t>(s.min, 1));
    most.push_back(s.max == kUnbounded ? opt.back() * kUnboundedFactor : s.max);
  }
  std::vector<std::vector<int64_t>> all;
  for (const auto& wanted : {opt, least, most}) {
    const auto values = fulfilling(conditions, symbols, wanted);
    if (values && std::find(all.begin(), all.end(), *values) == all.end()) all.push_back(*values);
  }
  if (all.empty()) all.push_back(opt);
  return all;
}

TrialMemory& ProblemMemory::shared(const TacticProgram& program, size_t b, int64_t below) {
  const TacticProgram::Memory& memory = program.memory[b];
  if (const auto it = shared_.find(memory.value); it != shared_.end()) return it->second;
  int64_t bytes = 0;
  for (const auto& values : symbols_) {
    bytes = std::max(bytes, program.spec.buffers[b].size_bytes.eval(values));
  }
  if (static_cast<uint64_t>(bytes) > profile(*device_).memory_bytes / 4) {
    throw OutOfMemoryError("[tuner] operands of " + std::to_string(bytes) + " bytes are not tried");
  }
  const auto seed = static_cast<uint32_t>(shared_.size() + 1);
  TrialMemory made(device_, padded(bytes));
  made.fill(random_operand(memory.dtype, seed, below));
  return shared_.emplace(memory.value, std::move(made)).first->second;
}

std::vector<uint64_t> ProblemMemory::place(const TacticProgram& program, size_t symbols,
                                           int64_t below) {
  std::vector<int64_t> offsets(program.memory.size(), -1);
  int64_t total = 0;
  for (size_t b = 0; b < program.memory.size(); ++b) {
    if (program.memory[b].role != TacticProgram::Role::kScratch) continue;
    offsets[b] = total;
    total += padded(program.spec.buffers[b].size_bytes.eval(symbols_.at(symbols)));
  }
  if (total > 0 && (!scratch_ || scratch_->size_bytes() < total)) {
    scratch_.reset();  // freed first, so that both never live at once
    scratch_.emplace(device_, total);
  }
  std::vector<uint64_t> addresses;
  for (size_t b = 0; b < program.memory.size(); ++b) {
    addresses.push_back(offsets[b] >= 0 ? scratch_->address() + static_cast<uint64_t>(offsets[b])
                                        : shared(program, b, below).address());
  }
  return addresses;
}

bool ProblemMemory::reset_results(const TacticProgram& program, int64_t below) {
  const bool random = reads_results(program);
  const std::vector<uint8_t> unwritten(kAlignment, kUnwritten);
  std::set<ValueId> done;
  for (size_t b = 0; b < program.memory.size(); ++b) {
    const TacticProgram::Memory& memory = program.memory[b];
    if (memory.role != TacticProgram::Role::kResult || !done.insert(memory.value).second) continue;
    TrialMemory& results = shared(program, b, below);
    results.fill(random ? random_operand(memory.dtype, 7, below) : unwritten);
  }
  return !random;
}

std::vector<ProblemMemory::Result> ProblemMemory::read_results(const TacticProgram& program,
                                                               size_t symbols) const {
  // By value, so that two programs that name their buffers in another order can be compared.
  std::map<ValueId, Result> results;
  for (size_t b = 0; b < program.memory.size(); ++b) {
    const TacticProgram::Memory& memory = program.memory[b];
    if (memory.role != TacticProgram::Role::kResult) continue;
    const int64_t bytes = program.spec.buffers[b].size_bytes.eval(symbols_.at(symbols));
    results[memory.value] = {memory.dtype,
                             shared_.at(memory.value).read(std::max<int64_t>(bytes, 0))};
  }
  std::vector<Result> list;
  for (auto& [value, result] : results) list.push_back(std::move(result));
  return list;
}

}  // namespace tv
