#pragma once
// What matmul and convolution share: batched operands, and products by SIMD kernels, on CPU
// drivers (simd.glsl says why they look as they do).

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "converters/kit/simd.h"
#include "converters/kit/steps.h"

namespace tv {

/// Steps of k that a segment of matmul_simd takes unless a product says otherwise; operands are
/// padded to a multiple.
inline constexpr int64_t kSimdSegment = 64;

/// Output tile of one subgroup.
struct SimdTile {
  int64_t lanes = 16, rows = 8;
  int64_t cols() const { return 2 * lanes; }
};
SimdTile simd_tile(const DeviceProfile& device);

/// c[z][m][n] = Σ_s Σ_k a[z][m][segment · s + k] · b[z][segments[s] + k · b_k + n], fp32, where
/// tile t of columns starts at min(t · b_tile, b_last). Without segments there are `count` of them,
/// and b goes on from each to the next. Strides in elements.
///
/// SimdPlace: a segment as a sum of multiples of the product's place_strides. SimdPlan: the rows of
/// each tile, in groups.
struct SimdPlace {
  std::array<int64_t, 4> times{};
  int64_t plus = 0;
};
struct SimdPlan {
  ValueId value = kNoValue;  ///< what matmul_grouped_plan writes; none: one matrix has all rows
  Expr tiles, groups;
  std::string uniform;  ///< the function that makes its numbers uniform
};
struct SimdProduct {
  ValueId a = kNoValue, b = kNoValue;
  Expr rows, col_tiles, batch = 1;
  Expr a_m, a_z;
  Expr b_k, b_z, b_tile, b_last;
  std::vector<Expr> segments;
  size_t count = 0;
  int64_t rest = 0;  ///< steps of the last segment, where it is not whole
  /// In place of `segments`, where they have another length than kSimdSegment or would be many.
  std::vector<SimdPlace> places;
  std::array<Expr, 4> place_strides;
  int64_t segment = kSimdSegment;  ///< steps of a segment, a multiple of 4 up to kSimdSegment
  int64_t tile_rows = 0;           ///< rows of a tile; 0: SimdTile's
  /// Matrices of a, which those of b take in turn; 0: one each, a_z apart.
  int64_t a_count = 0;
  /// Steps of k where that is symbolic: launches past it are skipped, and what passes the segments
  /// is added by a slow loop. a and b are then padded to a multiple of kSimdSymbolicSteps.
  std::optional<Expr> steps;
  /// Of tiles whose rows are of one group each: the matrix of b that these take, b_z apart.
  SimdPlan plan;

  Expr offset(const SimdPlace& place) const {
    Expr sum = place.plus;
    for (size_t i = 0; i < place_strides.size(); ++i) sum += place_strides[i] * place.times[i];
    return sum;
  }
};
inline constexpr int64_t kSimdSymbolicSteps = 4 * kSimdSegment;

/// Sums of a product; tile t of columns begins at column t · SimdTile::cols().
struct SimdSums {
  ValueId value = kNoValue;
  Expr c_m, c_z;
};

/// Where the last launch of a product with `count` segments may write the node's output itself.
struct SimdEpilogue {
  /// Of the output, at least SimdTile::cols(); the last tile is moved back to end there.
  Expr cols;
};
/// Whether that launch's parameters have room for the epilogue of the node, beside `tables`
/// operands with a stride each and `words` other numbers.
bool simd_epilogue_fits(const NodeContext& context, const Builder& builder, size_t tables = 0,
                        size_t words = 8);
/// Whether the node's own result is of integers: operands then hold integers below 256 in
/// magnitude, as floats, and sums their bits. They are exact.
bool has_integer_sums(const NodeContext& context);
/// Whether ids of workgroups are below what simd_uniform_small takes.
bool simd_grid_is_small(const NodeContext& context, const std::array<Expr, 3>& groups);
/// Appends the launches of a product that ends in its node's output.
void add_simd_product(const NodeContext& context, Builder& builder, const SimdProduct& product,
                      const SimdEpilogue& epilogue, std::vector<Step>& steps);

/// Appends the launches of a product.
SimdSums add_simd_product(const NodeContext& context, Builder& builder, const SimdProduct& product,
                          std::vector<Step>& steps);

/// Where matmul_simd_finish finds the columns of an output among the sums.
struct SimdColumns {
  Expr count;               ///< columns of the output
  bool moved = false;       ///< the last tile was moved back to end at `count`
  Expr width = 1, gap = 0;  ///< pixels of images whose rows lie width + gap apart
  /// Of images of a volume, which lie depth_gap further apart than their rows say.
  Expr height = 1, depth_gap = 0;
};
/// What matmul_simd_finish makes of the sums: rows × columns outputs for each matrix of the batch.
struct SimdOutput {
  Expr rows, batch = 1;
  SimdColumns columns;
  ValueId bias = kNoValue;  ///< one a row, of `groups` matrices in turn
  Expr groups = 1;
  SimdPlan plan;
  int64_t tile_rows = 0;  ///< as the product's
};
/// Appends the launch that writes the node's output from the sums, through the fused epilogue.
void add_simd_finish(const NodeContext& context, const SimdSums& sums, const SimdOutput& output,
                     std::vector<Step>& steps);

/// Dimensions that a batch of matrices runs over, outermost first, with the strides of two
/// operands.
struct BatchDims {
  Shape sizes, a, b;
  Expr count() const { return product(sizes); }
  void collapse();  ///< drops sizes of 1, joins neighbours that both walk as one
};
inline constexpr size_t kMaxBatchDims = 3;
/// Adds n1, n2 and the strides of `strides` as <prefix>0 … to a step, and BATCH_DIMS.
void add_batch(Step& step, const BatchDims& batch, const Shape& strides, const std::string& prefix);

/// A matrix of an operand: element (z, row, col) of `value`.
struct PackSource {
  ValueId value = kNoValue;
  Expr rows, cols, row_stride, col_stride;
};
/// y[z][t][r][c] = source[z][r][t · width + c] in fp32, zero outside; r < rows_padded. `tiled`:
/// tiles of `width` columns one after another, else whole rows of a multiple of `width` columns.
struct PackLayout {
  int64_t width = 32;                            ///< a multiple of SimdTile::cols()
  int64_t rows_multiple = 1, cols_multiple = 1;  ///< zeros fill up to these
  bool tiled = false;
  bool moved = false;  ///< the last of the tiles begins at column cols - width >= 0
};
ValueId add_pack(const NodeContext& context, Builder& builder, const std::string& name,
                 const PackSource& source, const BatchDims& batch, const Shape& batch_strides,
                 const PackLayout& layout, std::vector<Step>& steps);

}  // namespace tv
