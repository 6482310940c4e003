#pragma once
// Products on matrix units: what the emission of steps, the packing and the rule share.

#include <string>
#include <vector>

#include "converters/matmul/matmul.h"
#include "converters/matmul/matmul_quantised.h"
#include "converters/matmul/matrix_units.h"

namespace tv {

/// One way to tile a product; the fields are macros of the kernels.
struct ProductTile {
  /// matmul_matrix.cpp says what they are.
  enum Family { kShared, kRows, kPacked, kDirect } family = kShared;
  MatrixTile tile;
  int64_t bk = 0;        ///< shared: steps of k of a stage
  int64_t ring = 0;      ///< shared: steps of a packed b in flight, 0: not packed
  bool ahead = false;    ///< shared, not packed: fragments a step ahead
  int64_t resident = 1;  ///< workgroups that a compute unit holds at once
  int64_t stages = 2;    ///< shared: buffers; 1 for pieces that fill shared memory
  int64_t split = 1;     ///< workgroups that share the steps of k; of shared only with quantised b
  int64_t group = 8;     ///< tile rows walked together, for the cache
  int64_t unroll = 0;    ///< direct: most steps of k written out; 0: the usual number
  int64_t slots = 1;     ///< shared, b quantised: tiles of k on their way, 1 or 2
  bool packs_b() const { return family != kShared || ring > 0; }
};

/// Everything that the tactics of one product have in common.
struct MatrixProblem {
  const NodeContext& c;
  Builder& b;
  const Product& p;
  SplitPrecision precision;
  ValueId a, w, y;
  int64_t m, n, k, z;                           ///< typical sizes
  bool a_rows, a_cols;                          ///< chunks along k, along m can be loaded
  bool b_rows, b_cols;                          ///< chunks along n, along k can be loaded
  const QuantisedProduct* quantised = nullptr;  ///< b is packed integers
  int64_t bytes =
      0;  ///< operands are bytes, p.k counts pairs of them: steps of k of a matrix, 32, 16
  bool in_runs = false;  ///< b's 16 bytes of k lie beside those of 15 other columns
  bool is_scaled() const { return precision.scale == SplitPrecision::kGroups; }
};
MatrixProblem matrix_problem(const NodeContext& c, Builder& b, const Product& p,
                             const SplitPrecision& precision);

/// Ways to make matrices of fp32 (matmul_matrix.cpp).
std::vector<SplitPrecision> float_ways(bool tf32);
/// Why a tile does not apply, or "", and the name of its tactic.
std::string tile_refusal(const MatrixProblem& q, const ProductTile& t);
std::string tactic_name(const MatrixProblem& q, const ProductTile& t);
/// The launch of a tile of the family "shared", but for its operands a and b.
Step shared_step(const MatrixProblem& q, const ProductTile& t);
/// The launches of a tile of the family "shared", of floats.
void emit_shared(const MatrixProblem& q, const ProductTile& t, Tactic& tactic);

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

/// Tiles that a sweep on an H200 kept, for 16-bit operands, fp32 in bfloat16 pieces, in two scaled
/// pieces and rounded to one; of bytes chosen by rule, their steps of k counted in pairs.
const std::vector<ProductTile>& product_tiles(const SplitPrecision& precision);
/// Those of a b that is quantised, which is made floats between memory and shared memory.
const std::vector<ProductTile>& quantised_tiles(const SplitPrecision& precision);
/// Time that the rule expects of a tile.
double expected_ns(const MatrixProblem& q, const ProductTile& t);
/// `t` with its steps of k shared by as many workgroups as the rule would have; itself where none.
ProductTile with_split_k(const MatrixProblem& q, ProductTile t);
/// Rows of fragments of a subgroup whose sums pass through shared memory together where `wk` > 1.
int64_t strip_of(const MatrixTile& tile, int64_t max_shared_bytes);

/// The launch of simt_tactics' kernel for outputs that a scaled product leaves out.
Step fallback_step(const NodeContext& c, const Product& p, const MadeSide& scales_a,
                   const MadeSide& scales_b);
/// Why there is no such launch, or "".
std::string fallback_refusal(const NodeContext& c, const Product& p);

}  // namespace tv
