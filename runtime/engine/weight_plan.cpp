#include "runtime/engine/weight_plan.h"

#include <algorithm>
#include <numeric>

namespace tv {
namespace {

std::vector<bool> read_by_dispatches(const EngineSpec& spec) {
  std::vector<bool> read(spec.buffers.size(), false);
  for (const Dispatch& d : spec.dispatches) {
    for (const OperandRange& operand : d.operands) {
      const BufferKind kind = spec.buffers[operand.buffer].kind;
      if (kind == BufferKind::kWeight || kind == BufferKind::kPersistent)
        read[operand.buffer] = true;
    }
  }
  return read;
}

/// Buffers that depend on the changed weights.
std::vector<bool> affected_by(const EngineSpec& spec, std::span<const uint32_t> changed) {
  std::vector<bool> affected(spec.buffers.size(), false);
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    affected[b] = spec.buffers[b].kind == BufferKind::kWeight &&
                  std::find(changed.begin(), changed.end(), spec.buffers[b].index) != changed.end();
  }
  for (const Dispatch& step : spec.weight_program) {
    const bool depends = std::any_of(step.operands.begin(), step.operands.end(),
                                     [&](const OperandRange& o) { return affected[o.buffer]; });
    for (const OperandRange& operand : step.operands) {
      const bool report = spec.buffers[operand.buffer].kind == BufferKind::kCheck;
      if (depends && operand.write && !report) affected[operand.buffer] = true;
    }
  }
  return affected;
}

}  // namespace

std::vector<bool> weights_read_by_calls(const EngineSpec& spec) {
  const std::vector<bool> kept = read_by_dispatches(spec);
  std::vector<bool> read(spec.weights.size(), false);
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    if (kept[b] && spec.buffers[b].kind == BufferKind::kWeight) read[spec.buffers[b].index] = true;
  }
  return read;
}

WeightPlan plan_all_weights(const EngineSpec& spec) {
  WeightPlan plan;
  plan.kept = read_by_dispatches(spec);
  plan.fresh.assign(spec.buffers.size(), false);
  plan.needed.assign(spec.buffers.size(), false);
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    const BufferKind kind = spec.buffers[b].kind;
    plan.needed[b] = kind == BufferKind::kWeight;
    plan.fresh[b] = plan.needed[b] || kind == BufferKind::kPersistent;
  }
  plan.run.resize(spec.weight_program.size());
  std::iota(plan.run.begin(), plan.run.end(), 0u);
  return plan;
}

WeightPlan plan_changed_weights(const EngineSpec& spec, std::span<const uint32_t> changed) {
  WeightPlan plan;
  plan.kept = read_by_dispatches(spec);
  plan.needed.assign(spec.buffers.size(), false);
  plan.fresh = affected_by(spec, changed);
  for (size_t b = 0; b < spec.buffers.size(); ++b) plan.fresh[b] = plan.fresh[b] && plan.kept[b];

  // An older set's memory is never written, because a call may be reading it: a step that runs
  // writes to fresh memory alone, and a fresh buffer is written by every step that has a part in
  // it.
  std::vector<bool> runs(spec.weight_program.size(), false);
  const auto make = [&](uint32_t buffer) {
    const bool is_new = !plan.fresh[buffer];
    plan.fresh[buffer] = true;
    return is_new;
  };
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t s = spec.weight_program.size(); s-- > 0;) {
      const auto& operands = spec.weight_program[s].operands;
      runs[s] = runs[s] || std::any_of(operands.begin(), operands.end(), [&](const auto& o) {
                  return o.write && plan.fresh[o.buffer];
                });
      if (!runs[s]) continue;
      for (const OperandRange& o : operands) {
        if (spec.buffers[o.buffer].kind == BufferKind::kCheck) continue;
        const bool is_weight = spec.buffers[o.buffer].kind == BufferKind::kWeight;
        if (o.write || (!is_weight && !plan.kept[o.buffer])) grew = make(o.buffer) || grew;
      }
    }
  }
  for (size_t s = 0; s < runs.size(); ++s) {
    if (!runs[s]) continue;
    plan.run.push_back(static_cast<uint32_t>(s));
    for (const OperandRange& o : spec.weight_program[s].operands) {
      if (spec.buffers[o.buffer].kind == BufferKind::kWeight && !plan.kept[o.buffer])
        plan.fresh[o.buffer] = true;
    }
  }
  for (size_t b = 0; b < spec.buffers.size(); ++b)
    plan.needed[b] = plan.fresh[b] && spec.buffers[b].kind == BufferKind::kWeight;
  return plan;
}

}  // namespace tv
