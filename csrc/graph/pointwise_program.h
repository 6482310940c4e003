#pragma once
// A straight-line program over the elements of broadcast tensors: what fusion makes of pointwise
// operators. Pure data; codegen turns it into GLSL, and it is part of the engine's key.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace tv {

/// `function` names a row of the pointwise table (csrc/codegen/pointwise_table.h). Operand k < the
/// program's number of inputs is input k; above, the result of instruction k - inputs.
struct PointwiseInstr {
  std::string function;
  std::vector<int32_t> operands;
  std::vector<double> scalars;    ///< floating immediates
  std::vector<int64_t> integers;  ///< integral immediates
  DType compute = DType::kF32;    ///< operands are converted to this; 16-bit floats compute as f32
  DType result = DType::kF32;     ///< the value is rounded to this
  bool operator==(const PointwiseInstr&) const = default;
};

struct PointwiseProgram {
  std::vector<DType> inputs;  ///< stored types of the inputs
  std::vector<PointwiseInstr> instrs;
  std::vector<int32_t> results;  ///< operand numbers of the outputs
  bool operator==(const PointwiseProgram&) const = default;
};

}  // namespace tv
