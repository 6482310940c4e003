#pragma once
// What a converter emits: tactics, each a list of kernel launches over named operands.
//
// The GLSL that a kernel template sees of its operands, parameters and workgroup size is generated
// from the Step (csrc/codegen/preamble.cpp), so a template declares none of them and no second list
// can disagree. docs/adding_an_operator.md shows both sides.

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "csrc/converter.h"

namespace tv {

/// One buffer operand of a step. In the kernel, for an operand `x`:
///   x_T, x_V          the type that loads give: float for floats, int for 8-32 bit integers and
///                     bool, int64_t for int64; and the vector of four of them
///   x_load(uint i)    element i in row-major order of the value's shape - through its view's
///                     strides and, for `prologue_arg`, through the fused head
///   x_store(uint i, x_T v)  likewise, through the fused tail; rounds to nearest even
///   x_load4(uint i), x_store4(uint i, x_V v)  elements i … i+3 (i % 4 == 0) the same way; one
///   access
///                     where the storage allows, so always usable
///   x_value(uint i, x_T v), x_put(uint i, x_R r)  the two halves of x_store: what the tail makes
///   of v
///                     (an x_R), and its store, so that a kernel can read for all of its results
///                     before it stores one; x_value4, x_put4 with x_V and x_RV likewise
///   x_index(uint i)   where element i lies in the storage, counted from the view's offset
///   x_raw(uint i), x_raw_store(uint i, v)  element i of the storage (use with strides)
///   x_vec4(uint i), x_raw_store4(uint i, v)  elements i … i+3 of the storage (i % 4 == 0), where
///   `vec4` x_ptr             the address, of a type in tv.glsl; cast it for accesses of another
///   width:
///                     tv_ref_u32x4(x_ptr).v[k]. Such accesses are not checked by debug builds.
/// Addresses are formed from push constants and the index alone: a uniform index is a uniform
/// address.
struct Operand {
  std::string name;
  ValueId value = kNoValue;
  bool write = false;       ///< else read
  bool read_write = false;  ///< a scratch that the step updates in place
  bool vec4 = false;        ///< wants x_vec4 (and x_store4): its storage is 16-byte aligned, dense
  bool plain = false;       ///< ignore fused head and tail (x_load = storage order of the value)
};

/// A scalar parameter called `name` in the kernel. An expression is a size, stride or offset, a
/// `uint`, unless `number` says that the kernel computes with it as a number of that type: then it
/// is an `int` (8 to 32-bit integers, bool), `int64_t` or `float` of the same value, or the call is
/// refused.
struct Param {
  std::string name;
  std::variant<Expr, float> value;
  DType number = DType::kOther;  ///< kOther: no number
  /// Becomes a specialisation constant where the expression is constant, so that the driver unrolls
  /// and folds; else (and always without this) it is read from the push constants.
  bool specialise = false;
};

struct Grid {
  std::array<Expr, 3> groups = {Expr(1), Expr(1), Expr(1)};
  bool flat = false;  ///< use tv_group() in the kernel; any count of workgroups
  static Grid flat_groups(Expr count) { return {{std::move(count), 1, 1}, true}; }
};

/// The product of matrices that a kernel leaves to the device's matrix units (subgroup scope). Its
/// template then has GL_KHR_cooperative_matrix, and writes float16_t whatever `input` is: for kBF16
/// every 16-bit float type of the module becomes bfloat16 (csrc/codegen/bfloat16.h).
struct CooperativeMatrix {
  DType input = DType::kF16, sum = DType::kF32;
  uint32_t m = 16, n = 16, k = 16;
  bool nv2 = false;        ///< also GL_NV_cooperative_matrix2
  bool denormals = false;  ///< wrong where float16 denormals are taken for 0
};

/// One kernel launch.
struct Step {
  std::string kernel;  ///< template: <kernel>.comp below converters/
  std::vector<std::pair<std::string, std::string>> defines = {};
  std::vector<Operand> operands = {};
  std::vector<Param> params = {};
  Grid grid = {};
  std::array<uint32_t, 3> local_size = {64, 1, 1};  ///< LOCAL_X, LOCAL_Y, LOCAL_Z in the kernel
  uint32_t subgroup_size = 0;                       ///< required; 0: any
  /// Lowering refuses the tactic, with a reason, where the device or glslang lacks them.
  std::optional<CooperativeMatrix> matrix = {};
  /// The kernel may call tv_uniform(uint id), which equals `id` but is read through a table in the
  /// push constants: lavapipe 22-25 takes only constants and push constants for uniform, so an
  /// address made from it becomes one scalar load. `id` must be below 32768.
  bool uniform_table = false;
  /// Loop iterations that an invocation makes at most, all loops together, where their number comes
  /// from a shape or an argument. Lowering refuses what the device cannot make
  /// (DeviceProfile::max_loop_iterations); a symbolic number is compared when a shape is bound.
  Expr iterations;
  /// Kernels for CPU drivers (simd.glsl, with uniform_table): <name>_lane and
  /// <name>_lane_store2 touch runs of neighbours that do not cross a multiple of `simd_row`.
  Expr simd_row;
};

/// One way to compute a node. `refusal` says why it cannot apply (then `steps` is ignored).
struct Tactic {
  std::string name;  ///< "matmul_tiled_f32_64x64x16"; unique among the node's tactics
  std::string refusal = {};
  std::vector<Step> steps = {};
  /// Largest error of a result relative to the sum of the magnitudes of the terms it adds, where
  /// that is above float32's own: reduced-mantissa products, 16-bit sums. The tuner disqualifies a
  /// tactic whose results differ from the reference by more.
  double error = 0;
};

class Builder {
 public:
  virtual ~Builder() = default;

  /// A temporary of this tactic (or, where everything written to it comes from weights, a packed
  /// weight: such steps become part of the weight program by themselves).
  virtual ValueId scratch(const std::string& name, DType dtype, Shape shape) = 0;
  /// Strides in elements of a value's storage: those of its view, else row-major.
  virtual Shape strides_of(ValueId value) const = 0;
  /// True where the value depends on weights and constants only.
  virtual bool is_constant(ValueId value) const = 0;
  /// Emits the node: candidates best first by rule; the last one is the plain reference kernel. The
  /// tuner times a share of them from the front (docs/design/0004-tuner.md), so sort them by what
  /// they should cost, and put the best of each kind before the second best of any.
  virtual void emit(std::vector<Tactic> tactics) = 0;
};

// Shorthand for operands.
Operand src(std::string name, ValueId value);
Operand dst(std::string name, ValueId value);

}  // namespace tv
