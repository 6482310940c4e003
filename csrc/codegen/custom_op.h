#pragma once
// Custom operators, whose kernel is a user's shader (tv.custom_op).

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace tv {

/// An operator whose kernel is one launch of a shader.
struct CustomOp {
  std::string name;                 ///< "images::grey"
  std::vector<std::string> inputs;  ///< tensor arguments, in the order of the schema
  std::vector<std::string> outputs;
  std::vector<std::string> integers, floats;  ///< arguments that are numbers; bools are integers
  std::string shader;
  std::array<uint32_t, 3> local_size = {64, 1, 1};
  /// dtypes of tensors that are not float32, if the shader compiles only for these.
  std::map<std::string, DType> dtypes = {};
};

/// The argument of a custom operator's node with its numbers of workgroups: one for a flat grid
/// (tv_group() in the kernel), two or three for gl_WorkGroupID.
inline constexpr const char* kGridArg = "tv_grid";

/// Registers the operator's converter. In its shader, besides the operands' accessors:
///   <number>                    each argument that is a number
///   <tensor>_numel, <tensor>_size_<k>   elements and sizes of inputs and outputs
/// Throws Error(kUser) if the operator has a converter already, or where the shader compiles
/// neither with the dtypes that are given nor, where none are, with all tensors float32, int32 or
/// int64; the message names lines of the shader.
void add_custom_op(const CustomOp& op);

}  // namespace tv
