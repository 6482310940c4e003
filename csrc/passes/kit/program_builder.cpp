#include "csrc/passes/kit/program_builder.h"

#include <algorithm>

#include "csrc/codegen/pointwise_table.h"

namespace tv {

namespace {

bool is_commutative(const PointwiseInstr& instr) {
  const PointwiseRow* row = find_pointwise(instr.function);
  return row != nullptr && row->commutes && instr.scalars.empty() && instr.integers.empty();
}

bool comes_first(const ProgramBuilder::Ref& a, const ProgramBuilder::Ref& b) {
  return a.is_input != b.is_input ? a.is_input : a.index < b.index;
}

}  // namespace

ProgramBuilder::Ref ProgramBuilder::input(ValueId value, DType dtype) {
  const auto it = std::find(values_.begin(), values_.end(), value);
  if (it != values_.end()) return {true, static_cast<int32_t>(it - values_.begin())};
  values_.push_back(value);
  dtypes_.push_back(dtype);
  return {true, static_cast<int32_t>(values_.size() - 1)};
}

std::vector<ProgramBuilder::Ref> ProgramBuilder::append(const PointwiseProgram& program,
                                                        const std::vector<Ref>& inputs) {
  std::vector<Ref> refs = inputs;  // operand number → where it is here
  for (const PointwiseInstr& instr : program.instrs) {
    Instr added{instr, {}};
    added.row.operands.clear();
    for (int32_t operand : instr.operands) {
      added.operands.push_back(refs.at(static_cast<size_t>(operand)));
    }
    // One order, so that equal epilogues of different layers share a kernel.
    if (added.operands.size() == 2 && is_commutative(instr) &&
        comes_first(added.operands[1], added.operands[0])) {
      std::swap(added.operands[0], added.operands[1]);
    }
    const auto same = std::find_if(instrs_.begin(), instrs_.end(), [&](const Instr& other) {
      return other.row == added.row && other.operands == added.operands;
    });
    refs.push_back({false, static_cast<int32_t>(same - instrs_.begin())});
    if (same == instrs_.end()) instrs_.push_back(std::move(added));
  }
  std::vector<Ref> results;
  for (int32_t result : program.results) results.push_back(refs.at(static_cast<size_t>(result)));
  return results;
}

ProgramBuilder::Built ProgramBuilder::build(const std::vector<Ref>& results, ValueId keep) const {
  std::vector<bool> input_used(values_.size(), false), instr_used(instrs_.size(), false);
  const auto use = [&](const Ref& ref) {
    (ref.is_input ? input_used : instr_used)[static_cast<size_t>(ref.index)] = true;
  };
  for (const Ref& result : results) use(result);
  for (size_t i = instrs_.size(); i-- > 0;) {
    if (instr_used[i]) std::for_each(instrs_[i].operands.begin(), instrs_[i].operands.end(), use);
  }

  Built built;
  PointwiseProgram program;
  std::vector<int32_t> input_number(values_.size(), -1), instr_number(instrs_.size(), -1);
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!input_used[i] && values_[i] != keep) continue;
    input_number[i] = static_cast<int32_t>(built.inputs.size());
    built.inputs.push_back(values_[i]);
    program.inputs.push_back(dtypes_[i]);
  }
  int32_t next = static_cast<int32_t>(built.inputs.size());
  const auto number = [&](const Ref& ref) {
    return (ref.is_input ? input_number : instr_number)[static_cast<size_t>(ref.index)];
  };
  for (size_t i = 0; i < instrs_.size(); ++i) {
    if (!instr_used[i]) continue;
    PointwiseInstr row = instrs_[i].row;
    for (const Ref& operand : instrs_[i].operands) row.operands.push_back(number(operand));
    instr_number[i] = next++;
    program.instrs.push_back(std::move(row));
  }
  for (const Ref& result : results) program.results.push_back(number(result));
  built.program = std::make_shared<const PointwiseProgram>(std::move(program));
  return built;
}

}  // namespace tv
