#pragma once
// What converters emit: tactics, each a list of kernel launches (Steps) with named operands.
//
// The GLSL through which a kernel template reaches its operands, parameters and workgroup size is
// generated from the Step (csrc/codegen/accessors.cpp). So a template declares none of them, and
// the two cannot disagree. docs/adding_an_operator.md shows both sides.

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
///   x_load(uint i)  loads element i, in row-major order of the value's shape, through the strides
///                   of its view and, for `prologue_arg`, through the fused prologue
///   x_store(uint i, x_T v)
///                   stores element i through the fused epilogue; rounds to nearest even
///   x_load4(uint i), x_store4(uint i, x_V v)
///                   the same for elements i … i+3 (i % 4 == 0); always usable, and a single access
///                   if the storage allows it
///   x_value(uint i, x_T v), x_put(uint i, x_R r)
///                   the two halves of x_store: the epilogue's result for v (an x_R), and storing
///                   it. So a kernel can do all reads of its results before the first store.
///                   x_value4 and x_put4 do the same with x_V and x_RV
///   x_index(uint i) the position of element i in the storage, counted from the view's offset
///   x_raw(uint i), x_raw_store(uint i, v)
///                   element i of the storage (for use with strides)
///   x_vec4(uint i), x_raw_store4(uint i, v)
///                   elements i … i+3 of the storage (i % 4 == 0), if `vec4` is set
///   x_ptr           the address, of a type in tv.glsl. Cast it for accesses of another width:
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
  bool vec4 = false;        ///< the kernel uses x_vec4: the storage must be dense, 16-byte aligned
  bool plain = false;       ///< ignores fused prologue and epilogue: x_load is in storage order
  /// Elements are numbered channels-last, [n, …, channel]. So are those that the epilogue reads,
  /// each of which must have this operand's shape or be broadcast to it.
  bool by_pixels = false;
};

/// A scalar parameter, called `name` in the kernel. An expression is a size, stride or offset and
/// arrives as a `uint`. If `number` is set, the parameter is a number of that dtype that the kernel
/// computes with: it arrives as an `int` (8 to 32-bit integers, bool), `int64_t` or `float`, and a
/// call whose value does not fit is refused.
struct Param {
  std::string name;
  std::variant<Expr, float> value;
  DType number = DType::kOther;  ///< kOther: a size, stride or offset
  /// If the expression is constant, it becomes a specialisation constant, which lets the driver
  /// unroll and fold. Otherwise, and without this flag, it is read from the push constants.
  bool specialise = false;
};

struct Grid {
  std::array<Expr, 3> groups = {Expr(1), Expr(1), Expr(1)};
  bool flat = false;  ///< the kernel calls tv_group(); any number of workgroups
  static Grid flat_groups(Expr count) { return {{std::move(count), 1, 1}, true}; }
};

/// The cooperative matrix product (subgroup scope) that a kernel computes on the device's matrix
/// units. GL_KHR_cooperative_matrix is then enabled in its template. The template says float16_t
/// whatever `input` is: for kBF16 every 16-bit float type of the module becomes bfloat16
/// (csrc/codegen/bfloat16.h).
struct CooperativeMatrix {
  DType input = DType::kF16, sum = DType::kF32;
  uint32_t m = 16, n = 16, k = 16;
  bool nv2 = false;        ///< GL_NV_cooperative_matrix2, too
  bool denormals = false;  ///< needs float16 denormals: wrong on devices that flush them to 0
};

/// One kernel launch.
struct Step {
  std::string kernel;  ///< template: <kernel>.comp below converters/
  std::vector<std::pair<std::string, std::string>> defines = {};
  std::vector<Operand> operands = {};
  std::vector<Param> params = {};
  Grid grid = {};
  std::array<uint32_t, 3> local_size = {64, 1, 1};  ///< LOCAL_X, LOCAL_Y, LOCAL_Z in the kernel
  uint32_t subgroup_size = 0;                       ///< that the kernel requires; 0: any
  /// Lowering refuses the tactic, with a reason, if the device or glslang lacks this product.
  std::optional<CooperativeMatrix> matrix = {};
  /// The kernel may call tv_uniform(uint id), which returns `id`, read through a table in the push
  /// constants. lavapipe 22 to 25 takes only constants and push constants for uniform; a load from
  /// an address made of these is a single scalar load. `id` must be below 32768.
  bool uniform_table = false;
  /// An upper bound of an invocation's loop iterations, all loops together, if their number depends
  /// on a shape or an argument. Lowering refuses more than the device can run
  /// (DeviceProfile::max_loop_iterations); a symbolic bound is checked when a shape is bound.
  Expr iterations;
  /// For kernels of CPU drivers (simd.glsl, with uniform_table): a run of neighbouring elements
  /// that <name>_simd or <name>_simd_store2 touches never crosses a multiple of `simd_row`.
  Expr simd_row;
  /// Reads only some rows of its weights, as an embedding does. Weights that are kept in host
  /// memory are then read there, because copying them would move more bytes.
  bool looks_up = false;
};

/// One way to compute a node. A tactic that does not apply says why in `refusal`; its `steps` are
/// then ignored.
struct Tactic {
  std::string name;  ///< "matmul_tiled_64x64x16"; unique among the node's tactics
  std::string refusal = {};
  std::vector<Step> steps = {};
  /// The largest error of a result, relative to the sum of the magnitudes of its terms, if that is
  /// more than float32's own (reduced-mantissa products, 16-bit sums). The tuner disqualifies a
  /// tactic whose results differ from the reference by more.
  double error = 0;
};

class Builder {
 public:
  virtual ~Builder() = default;

  /// A temporary of this tactic. If everything that is written to it comes from weights, it is a
  /// packed weight, and the steps that write it become part of the weight program.
  virtual ValueId scratch(const std::string& name, DType dtype, Shape shape) = 0;
  /// The strides of a value in its storage, in elements: those of its view, else row-major.
  virtual Shape strides_of(ValueId value) const = 0;
  /// Whether the value depends on nothing but weights and constants.
  virtual bool is_constant(ValueId value) const = 0;
  /// Emits the node's candidates, best first; the last one is the plain reference kernel. The tuner
  /// times as many of the first as the level of optimisation grants (docs/design/0004-tuner.md), so
  /// sort them by expected cost, and put the best of each kind before the second best of any kind.
  virtual void emit(std::vector<Tactic> tactics) = 0;
};

// Shorthand for operands.
Operand src(std::string name, ValueId value);
Operand dst(std::string name, ValueId value);

}  // namespace tv
