#include "csrc/lowering/constant_steps.h"

#include <algorithm>
#include <map>

namespace tv {

namespace {

bool constant(const Shape& exprs) {
  return std::all_of(exprs.begin(), exprs.end(), [](const Expr& e) { return e.is_constant(); });
}

bool has_symbols(const StepRequest& request, const ValueTable& table) {
  for (const Expr& groups : request.kernel.step.grid.groups) {
    if (!groups.is_constant()) return true;
  }
  for (const Param& param : request.kernel.step.params) {
    const Expr* value = std::get_if<Expr>(&param.value);
    if (value && !value->is_constant()) return true;
  }
  for (size_t i = 0; i < request.values.size(); ++i) {
    const KernelOperand& operand = request.kernel.operands[i];
    if (!constant(operand.shape) || !constant(operand.strides)) return true;
    if (request.values[i] != kNoValue && !table.layout(request.values[i]).offset.is_constant()) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<bool> mark_constant_steps(const std::vector<StepRequest>& steps, ValueTable& table,
                                      const std::vector<bool>& is_output) {
  std::map<ValueId, bool> written;  // base of everything the node writes → constant so far
  for (const StepRequest& step : steps) {
    for (size_t i = 0; i < step.values.size(); ++i) {
      if (!step.kernel.operands[i].write) continue;
      const ValueId base = table.layout(step.values[i]).base;
      const bool output =
          static_cast<size_t>(base) < is_output.size() && is_output[static_cast<size_t>(base)];
      // A part of a storage stays with the other parts.
      written[base] = !output && base == step.values[i];
    }
  }
  std::vector<bool> result(steps.size(), true);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t s = 0; s < steps.size(); ++s) {
      if (!result[s]) continue;
      bool is_constant = !has_symbols(steps[s], table);
      for (ValueId value : steps[s].values) {
        if (value == kNoValue) continue;
        const ValueId base = table.layout(value).base;
        const auto own = written.find(base);
        is_constant &= own != written.end() ? own->second : table.is_constant(base);
      }
      if (is_constant) continue;
      result[s] = false;
      changed = true;
      for (size_t i = 0; i < steps[s].values.size(); ++i) {
        if (steps[s].kernel.operands[i].write) {
          written[table.layout(steps[s].values[i]).base] = false;
        }
      }
    }
  }
  for (const auto& [base, is_constant] : written) table.set_constant(base, is_constant);
  return result;
}

}  // namespace tv
