#include "csrc/lowering/tactics.h"

#include <algorithm>
#include <set>

#include "csrc/codegen/cooperative_matrix.h"
#include "csrc/codegen/pointwise_table.h"
#include "csrc/converter.h"
#include "csrc/counters.h"
#include "csrc/graph/strided.h"
#include "csrc/lowering/split_grid.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

class NodeBuilder : public Builder {
 public:
  NodeBuilder(const Node& node, ValueTable& table) : node_(node), table_(table) {}

  ValueId scratch(const std::string& name, DType dtype, Shape shape) override {
    return table_.add_scratch(node_.name + "." + name, dtype, std::move(shape));
  }
  Shape strides_of(ValueId value) const override { return table_.layout(value).strides; }
  bool is_constant(ValueId value) const override { return table_.is_constant(value); }
  void emit(std::vector<Tactic> tactics) override {
    for (Tactic& tactic : tactics) tactics_.push_back(std::move(tactic));
  }

  std::vector<Tactic> take() { return std::move(tactics_); }

 private:
  const Node& node_;
  ValueTable& table_;
  std::vector<Tactic> tactics_;
};

/// Why the device cannot run a step for all sizes, or "".
std::string step_refusal(const Step& step, const std::vector<Symbol>& symbols,
                         const NodeContext& context) {
  const DeviceProfile& device = context.device;
  if (step.subgroup_size != 0 && (step.subgroup_size < device.min_subgroup_size ||
                                  step.subgroup_size > device.max_subgroup_size)) {
    return "the device has no subgroups of " + std::to_string(step.subgroup_size);
  }
  for (size_t i = 0; !step.grid.flat && i < step.grid.groups.size(); ++i) {
    const int64_t most = step.grid.groups[i].bounds(symbols).second;
    if (most > device.max_grid[i]) {
      return "may launch " + std::to_string(most) + " workgroups in one dimension; " + device.name +
             " takes " + std::to_string(device.max_grid[i]);
    }
  }
  if (!step.matrix) return "";
  return context.settings.matrix_units ? matrix_refusal(*step.matrix, device)
                                       : "matrix_units is False";
}

/// The tactic's steps as launches that the device takes.
void split_grids(Tactic& tactic, const std::vector<Symbol>& symbols, const DeviceProfile& device) {
  std::vector<Step> steps;
  for (Step& step : tactic.steps) {
    for (Step& part : split_grid(std::move(step), symbols, device)) {
      steps.push_back(std::move(part));
    }
  }
  tactic.steps = std::move(steps);
}

/// Why lowering cannot take a tactic that its converter offers, or "".
std::string refusal(const Tactic& tactic, const Node& node, const ValueTable& table,
                    const NodeContext& context) {
  const std::vector<Symbol> symbols = practical(table.graph().symbols);
  std::set<ValueId> scratch;
  for (const Step& step : tactic.steps) {
    if (std::string reason = step_refusal(step, symbols, context); !reason.empty()) return reason;
    const int64_t least = iterations_of(step, node).bounds(table.graph().symbols).first;
    if (least > context.device.max_loop_iterations()) {
      return "makes " + std::to_string(least) + " loop iterations; " + context.device.name +
             " makes " + std::to_string(context.device.max_loop_iterations());
    }
    for (const Operand& operand : step.operands) {
      const bool headed = node.prologue && !operand.write && !operand.plain &&
                          operand.value == node.input(node.prologue_arg);
      if (node.prologue && !headed && operand.value == node.input(node.prologue_arg)) {
        return "operand " + operand.name + " reads storage that the fused prologue leaves out";
      }
      if (operand.vec4 && !headed && !is_vec4_aligned(table, operand.value)) {
        return "operand " + operand.name + " is not dense at a multiple of 16 bytes";
      }
      if (table.is_scratch(operand.value)) scratch.insert(operand.value);
    }
  }
  for (ValueId id : scratch) {
    const Value& value = table.value(id);
    if (most_elements(value.shape, symbols) >= static_cast<double>(kMaxElements)) {
      return "its scratch '" + value.name +
             "' would have 2^31 elements or more; kernels count fewer";
    }
  }
  return "";
}

/// What setting workspace_size says against tactics that could be taken without it.
class Workspace {
 public:
  Workspace(const Node& node, const ValueTable& table, int64_t limit)
      : node_(node), table_(table), limit_(limit) {}

  /// Refuses those that need more. Where no other tactic applies, sizes without an upper bound do
  /// not count: whether they exceed the limit shows at a call. Throws Error(kUnsupported) where
  /// none is left.
  void refuse(std::vector<Tactic>& tactics) const {
    if (limit_ == 0) return;
    std::vector<Tactic*> unbounded;
    bool some = false, within = false;
    int64_t least = kUnbounded;
    for (Tactic& tactic : tactics) {
      if (!tactic.refusal.empty()) continue;
      some = true;
      const int64_t bytes = bytes_of(tactic);
      if (bytes == kUnbounded) {
        tactic.refusal = "its scratch has no upper bound and workspace_size is set";
        unbounded.push_back(&tactic);
      } else if (bytes > limit_) {
        tactic.refusal = "needs " + std::to_string(bytes) +
                         " bytes of scratch, workspace_size is " + std::to_string(limit_);
        least = std::min(least, bytes);
      } else {
        within = true;
      }
    }
    if (!some || within) return;
    for (Tactic* tactic : unbounded) tactic->refusal.clear();
    if (!unbounded.empty()) return;
    throw Error(ErrorKind::kUnsupported,
                "[" + node_.op + "] needs " + std::to_string(least) +
                    " bytes of scratch, workspace_size is " + std::to_string(limit_) +
                    ": raise it, or name the operator in torch_executed_ops");
  }

 private:
  /// kUnbounded: nobody knows.
  int64_t bytes_of(const Tactic& tactic) const {
    std::set<ValueId> scratch;
    for (const Step& step : tactic.steps) {
      for (const Operand& operand : step.operands) {
        if (table_.is_scratch(operand.value)) scratch.insert(operand.value);
      }
    }
    int64_t bytes = 0;
    for (const ValueId id : scratch) {
      const Value& value = table_.value(id);
      const int64_t most = product(value.shape).bounds(table_.graph().symbols).second;
      if (most >= kUnbounded / (1 << 20)) return kUnbounded;
      bytes += most * size_bytes(value.dtype);
    }
    return bytes;
  }

  const Node& node_;
  const ValueTable& table_;
  const int64_t limit_;
};

}  // namespace

Expr iterations_of(const Step& step, const Node& node) {
  int64_t fused = 1;
  for (const auto* program : {&node.prologue, &node.epilogue}) {
    if (*program) fused += pointwise_iterations(**program);
  }
  return step.iterations * fused;
}

bool is_vec4_aligned(const ValueTable& table, ValueId id) {
  const Value& value = table.value(id);
  const View layout = table.layout(id);
  return is_dense(value.shape, layout.strides) &&
         mod(layout.offset * Expr(size_bytes(value.dtype)), 16) == Expr(0);
}

size_t choose_tactic(const Node& node, const std::vector<Tactic>& tactics,
                     const Settings& settings) {
  for (const std::string& wanted : settings.tactics) {
    size_t found = tactics.size();
    for (size_t i = tactics.size(); i-- > 0;) {
      if (!tactics[i].refusal.empty() || !tactics[i].name.starts_with(wanted)) continue;
      if (tactics[i].name == wanted) return i;  // one name may be the beginning of another
      found = i;
    }
    if (found < tactics.size()) return found;
  }
  std::string refusals;
  for (size_t i = 0; i < tactics.size(); ++i) {
    if (tactics[i].refusal.empty()) return i;
    refusals += "\n  " + tactics[i].name + ": " + tactics[i].refusal;
  }
  throw Error(ErrorKind::kInternal, "[" + node.op + "] no tactic applies" + refusals);
}

NodeTactics convert_node(const Node& node, ValueTable& table, const DeviceProfile& device,
                         const Settings& settings) {
  const Converter* converter = Registry::instance().find(node.op);
  if (!converter || !converter->convert) {
    throw Error(ErrorKind::kInternal, "[" + node.op + "] reached lowering without a converter");
  }
  ++build_counters().conversions;
  NodeBuilder builder(node, table);
  const NodeContext context{table.graph(), node, device, settings};
  converter->convert(context, builder);
  NodeTactics result{builder.take(), 0};
  const std::vector<Symbol> symbols = practical(table.graph().symbols);
  for (Tactic& tactic : result.candidates) {
    split_grids(tactic, symbols, device);
    if (tactic.refusal.empty()) tactic.refusal = refusal(tactic, node, table, context);
  }
  Workspace(node, table, settings.workspace_size).refuse(result.candidates);
  result.chosen = choose_tactic(node, result.candidates, settings);
  result.named = std::ranges::any_of(settings.tactics, [&](const std::string& wanted) {
    return result.candidates[result.chosen].name.starts_with(wanted);
  });
  return result;
}

}  // namespace tv
