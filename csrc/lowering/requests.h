#pragma once

#include "csrc/codegen/kernel.h"
#include "csrc/lowering/value_table.h"

namespace tv {

/// A kernel request with the value that each of its operands lies in, in the same order (kNoValue
/// for an operand that a fused prologue computes).
struct StepRequest {
  KernelRequest kernel;
  std::vector<ValueId> values;
};

/// Resolves a step's operands: layouts, stored types, the node's fused prologue and epilogue with
/// the operands that these read.
StepRequest make_request(const Node& node, const Step& step, const ValueTable& table);

}  // namespace tv
