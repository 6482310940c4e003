#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Combines pointwise programs: shared inputs and equal instructions are kept once, and what no
/// result needs is left out.
class ProgramBuilder {
 public:
  /// An input or the result of an instruction of the program being built.
  struct Ref {
    bool is_input = false;
    int32_t index = 0;
    bool operator==(const Ref&) const = default;
  };

  /// The input that reads `value`; the same one for the same value.
  Ref input(ValueId value, DType dtype);
  /// Adds a program's instructions; `inputs[k]` takes the place of its input k. Returns its
  /// results.
  std::vector<Ref> append(const PointwiseProgram& program, const std::vector<Ref>& inputs);

  struct Built {
    std::shared_ptr<const PointwiseProgram> program;
    std::vector<ValueId> inputs;
  };
  /// The program with these results. An input stays, even unused, where `keep` names its value.
  Built build(const std::vector<Ref>& results, ValueId keep = kNoValue) const;

 private:
  struct Instr {
    PointwiseInstr row;  // its operands are in `operands`
    std::vector<Ref> operands;
  };
  std::vector<ValueId> values_;
  std::vector<DType> dtypes_;
  std::vector<Instr> instrs_;
};

}  // namespace tv
