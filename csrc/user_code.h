#pragma once
// Operators and kernels that users add while a program runs: from Python (tv.custom_op) or in a
// library of their own (tv.load_library), which includes this header and csrc/builder.h.

#include <array>
#include <map>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// Adds a kernel template: `Step::kernel` finds it by `name`, before those of converters/.
/// Messages of the GLSL compiler name lines of `text`. Throws Error(kUser) where the name is taken.
void add_kernel(const std::string& name, const std::string& text);

/// Registers a template at static initialisation, as RegisterConverter does a converter:
/// `const RegisterKernel kernel{"images_grey", R"(void main() { … })"};`
struct RegisterKernel {
  RegisterKernel(const std::string& name, const std::string& text);
};

/// The text of such a template; null where there is none.
const std::string* find_user_kernel(const std::string& name);

/// An operator whose kernel is one launch of a shader.
struct CustomOp {
  std::string name;                  ///< "images::grey"
  std::vector<std::string> inputs;   ///< tensor arguments, in the order of the schema
  std::vector<std::string> outputs;
  std::vector<std::string> integers, floats;  ///< arguments that are numbers; bools are integers
  std::string shader;
  std::array<uint32_t, 3> local_size = {64, 1, 1};
  /// Of tensors that are not float32, where that decides whether the shader compiles.
  std::map<std::string, DType> dtypes = {};
};

/// The argument of a custom operator's node that holds its counts of workgroups: one number for a flat
/// grid (tv_group() in the kernel), two or three for gl_WorkGroupID.
inline constexpr const char* kGridArg = "tv_grid";

/// Registers the operator's converter. In its shader, besides the operands' accessors:
///   <number>                    each argument that is a number
///   <tensor>_numel, <tensor>_size_<k>   elements and sizes of inputs and outputs
/// Throws Error(kUser) where the operator has a converter already, or where the shader compiles neither
/// with the dtypes that are given nor, where none are, with all tensors float32, int32 or int64; the
/// message names lines of the shader.
void add_custom_op(const CustomOp& op);

/// Loads a shared library whose static initialisers register converters and kernels; returns the
/// operators that it added. Throws Error(kUser) where it cannot be loaded, or adds an operator or a
/// kernel that is there already.
std::vector<std::string> load_user_library(const std::string& path);

/// What the cache's key says of user code behind the operators of a graph: their shaders' text or
/// their libraries' contents. "" where there is none.
std::string user_code_text(const Graph& graph);

/// Inside load_user_library, where an exception would end the process: keeps `message` for later and
/// returns true; else false.
bool keep_load_error(const std::string& message);

}  // namespace tv
