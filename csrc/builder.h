#pragma once
// What converters emit: tactics, each a list of kernel launches over named operands.
//
// The GLSL that a kernel template sees of its operands, parameters and workgroup size is generated
// from the Step (csrc/codegen/accessors.cpp), so a template declares none of them and no second
// list can disagree. docs/adding_an_operator.md shows both sides.

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "csrc/converter.h"

namespace tv {

// clang-format off: a table
/// One buffer operand of a step. In the kernel, for an operand `x`:
///
///   x_T, x_V        the type that loads return: float for floats, int for 8 to 32-bit integers and
///                   bool, int64_t for int64; and the vector of four of them
///   x_load(uint i)  element i in row-major order of the value's shape, through its view's strides
///                   and, for `prologue_arg`, through the fused prologue
///   x_store(uint i, x_T v)
///                   the same through the fused epilogue; rounds to nearest even
///   x_load4(uint i), x_store4(uint i, x_V v)
///                   elements i … i+3 (i % 4 == 0) in the same way; one access if the storage
///                   allows it, so always usable
///   x_value(uint i, x_T v), x_put(uint i, x_R r)
///                   the two halves of x_store: the epilogue's result for v (an x_R), and its
///                   store, so that a kernel can read for all of its results before it stores the
///                   first; x_value4 and x_put4 likewise with x_V and x_RV
///   x_index(uint i) where element i is in the storage, counted from the view's offset
///   x_raw(uint i), x_raw_store(uint i, v)
///                   element i of the storage (for use with strides)
///   x_vec4(uint i), x_raw_store4(uint i, v)
///                   elements i … i+3 of the storage (i % 4 == 0), with `vec4`
///   x_ptr           the address, of a type in tv.glsl; cast it for accesses of another width:
///                   tv_ref_u32x4(x_ptr).v[k]. Debug builds do not check such accesses.
///
/// An address depends only on push constants and the index, so a uniform index gives a uniform
/// address.
// clang-format on
struct Operand {
  std::string name;
  ValueId value = kNoValue;
  bool write = false;       ///< else read
  bool read_write = false;  ///< a scratch that the step updates in place
  bool vec4 = false;        ///< uses x_vec4 (and x_store4): its storage is dense, 16-byte aligned
  bool plain = false;       ///< ignore fused prologue and epilogue (x_load = storage order)
  /// Elements are counted by pixels, [n, …, channel], and so are those that the epilogue reads,
  /// each of which must have this operand's shape or be broadcast to it.
  bool by_pixels = false;
};

/// A scalar parameter called `name` in the kernel. An expression is a size, stride or offset and
/// arrives as a `uint`. With `number` the kernel computes with it as a number of that type: it
/// arrives as an `int` (8 to 32-bit integers, bool), `int64_t` or `float` of the same value, or the
/// call is refused.
struct Param {
  std::string name;
  std::variant<Expr, float> value;
  DType number = DType::kOther;  ///< kOther: not a number
  /// Makes it a specialisation constant if the expression is constant, so that the driver can
  /// unroll and fold; otherwise (and always without this) it is read from the push constants.
  bool specialise = false;
};

struct Grid {
  std::array<Expr, 3> groups = {Expr(1), Expr(1), Expr(1)};
  bool flat = false;  ///< use tv_group() in the kernel; any count of workgroups
  static Grid flat_groups(Expr count) { return {{std::move(count), 1, 1}, true}; }
};

/// The matrix product that a kernel computes on the device's matrix units (subgroup scope). Its
/// template then has GL_KHR_cooperative_matrix. The template writes float16_t whatever `input` is:
/// for kBF16 every 16-bit float type of the module becomes bfloat16 (csrc/codegen/bfloat16.h).
struct CooperativeMatrix {
  DType input = DType::kF16, sum = DType::kF32;
  uint32_t m = 16, n = 16, k = 16;
  bool nv2 = false;        ///< also GL_NV_cooperative_matrix2
  bool denormals = false;  ///< wrong on devices that take float16 denormals for 0
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
  /// Lowering refuses the tactic, with a reason, if the device or glslang lacks matrix units.
  std::optional<CooperativeMatrix> matrix = {};
  /// The kernel may call tv_uniform(uint id), which equals `id` but is read through a table in the
  /// push constants: lavapipe 22 to 25 recognises only constants and push constants as uniform, and
  /// an address made from them becomes one scalar load. `id` must be below 32768.
  bool uniform_table = false;
  /// The most loop iterations of an invocation, all loops together, if their number depends on a
  /// shape or an argument. Lowering refuses more than the device can run
  /// (DeviceProfile::max_loop_iterations); a symbolic number is checked when a shape is bound.
  Expr iterations;
  /// For kernels of CPU drivers (simd.glsl, with uniform_table): the runs of neighbours that
  /// <name>_simd and <name>_simd_store2 touch do not cross a multiple of `simd_row`.
  Expr simd_row;
  /// Reads some rows of its weights alone, such as an embedding's: weights that stay in host memory
  /// are read where they lie, as a copy would move more bytes.
  bool looks_up = false;
};

/// One way to compute a node. A `refusal` says why it cannot apply (then `steps` is ignored).
struct Tactic {
  std::string name;  ///< "matmul_tiled_64x64x16"; unique among the node's tactics
  std::string refusal = {};
  std::vector<Step> steps = {};
  /// Largest error of a result, relative to the sum of the magnitudes of the terms that it adds, if
  /// it exceeds float32's own: reduced-mantissa products, 16-bit sums. The tuner disqualifies a
  /// tactic whose results differ from the reference by more.
  double error = 0;
};

class Builder {
 public:
  virtual ~Builder() = default;

  /// A temporary of this tactic. If everything written to it comes from weights it is a packed
  /// weight, and the steps that write it become part of the weight program.
  virtual ValueId scratch(const std::string& name, DType dtype, Shape shape) = 0;
  /// Strides of a value's storage, in elements: those of its view, else row-major.
  virtual Shape strides_of(ValueId value) const = 0;
  /// True if the value depends on weights and constants only.
  virtual bool is_constant(ValueId value) const = 0;
  /// Emits the node's candidates, best first; the last one is the plain reference kernel. The tuner
  /// times a share of them from the front (docs/design/0004-tuner.md), so sort them by expected
  /// cost, and put the best of each kind before the second best of any.
  virtual void emit(std::vector<Tactic> tactics) = 0;
};

// Shorthand for operands.
Operand src(std::string name, ValueId value);
Operand dst(std::string name, ValueId value);

}  // namespace tv
