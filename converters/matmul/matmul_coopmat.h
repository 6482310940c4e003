#pragma once
// Products on matrix units: what the emission of steps, the packing and the rule share.

#include <string>
#include <vector>

#include "converters/matmul/matmul.h"

namespace tv {

inline constexpr int64_t kFragment = 16;  ///< rows, columns and steps of k of one matrix
inline constexpr int64_t kChunk = 8;      ///< elements that a kernel loads at once

/// How operands become what the matrix units multiply (matrix.glsl).
struct SplitPrecision {
  DType input = DType::kF16;
  int64_t count = 1;      ///< 16-bit pieces of an fp32 operand
  int64_t promote = 0;    ///< steps of 16 summed inside of the unit; 0: all
  bool scaled = false;    ///< of the operand over powers of two (matmul_scale)
  std::string name() const;
  /// Relative to the sizes of the terms, where it is more than the tuner's check grants any sum.
  double error() const;
};

/// One way to tile a product. Fields are macros of the kernels.
struct MatrixTile {
  enum Family { kShared, kRows, kPacked, kDirect } family = kShared;
  int64_t bm, bn, bk, wm, wn, wk = 1;
  int64_t ring = 0;        ///< shared: steps of a packed b in flight, 0: not packed
  bool ahead = false;      ///< shared, not packed: fragments a step ahead
  int64_t per_unit = 1;    ///< workgroups that a compute unit holds at once
  int64_t stages = 2;      ///< shared: buffers; 1 for pieces that fill shared memory
  int64_t split = 1;       ///< all but shared: workgroups that share the steps of k
  int64_t group = 8;       ///< tile rows walked together, for the cache
  int64_t unroll = 0;      ///< direct: most steps of k written out; 0: the usual number
  int64_t warps() const { return bm / wm * (bn / wn) * wk; }
  int64_t threads() const { return 32 * warps(); }
  bool packs_b() const { return family != kShared || ring > 0; }
};

/// Everything that the tactics of one product have in common.
struct MatrixProblem {
  const NodeContext& c;
  Builder& b;
  const Product& p;
  SplitPrecision pieces;
  ValueId a, w, y;
  int64_t m, n, k, z;      ///< typical sizes
  bool a_rows, a_cols;     ///< chunks along k, along m can be loaded
  bool b_rows, b_cols;     ///< chunks along n, along k can be loaded
};
MatrixProblem matrix_problem(const NodeContext& c, Builder& b, const Product& p,
                             const SplitPrecision& pieces);

bool divides(int64_t divisor, const Expr& value);
/// Whether the value's first element lies at a multiple of 16 bytes.
bool is_aligned(const NodeContext& c, ValueId id);

/// Something made of one side of a product: fragments, or powers of two.
struct MadeSide {
  ValueId value = kNoValue;
  Expr z_step;  ///< from one matrix of the batch to the next; 0: the batch shares it
};
/// Appends the launch that finds the powers of two of an operand (matmul_scale).
MadeSide add_scales(const MatrixProblem& q, bool side_a, std::vector<Step>& steps);
/// Appends the launch that packs an operand: `k_steps` steps of 16, spans padded to `multiple`, and
/// room for `slack` steps that kernels fetch past the end. `scales`: of that side, where scaled.
/// `paired`: for rows that are loaded directly into fragments (direct_load.glsl).
struct Packing {
  Expr k_steps;
  int64_t multiple = 16, slack = 1;
  const MadeSide* scales = nullptr;
  bool paired = false;
};
MadeSide add_packing(const MatrixProblem& q, bool side_a, const Packing& packing,
                     std::vector<Step>& steps);

/// Tiles that a sweep kept, for 16-bit operands, fp32 in bfloat16 pieces, in two scaled pieces and
/// rounded to one.
const std::vector<MatrixTile>& matrix_tiles(const SplitPrecision& pieces);
/// Time that the rule expects of a tile, about in nanoseconds.
double expected_time(const MatrixProblem& q, const MatrixTile& t);
/// `t` with its steps of k shared by as many workgroups as the rule would have; itself where none.
MatrixTile with_split_k(const MatrixProblem& q, MatrixTile t);
/// Rows of fragments of a subgroup whose sums pass through shared memory together where `wk` > 1.
int64_t strip_of(const MatrixTile& t, int64_t max_shared_bytes);

/// The launch of simt_tactics' kernel for outputs that a scaled product leaves out.
Step fallback_step(const NodeContext& c, const Product& p, const MadeSide& scales_a,
                    const MadeSide& scales_b);
/// Why there is no such launch, or "".
std::string fallback_refusal(const NodeContext& c, const Product& p);

}  // namespace tv
