#pragma once
// tv::matmul's problem as every family of its tactics sees it.

#include <string>
#include <vector>

#include "converters/matmul/simd/matmul_simd.h"

namespace tv {

/// y[z][m][n] = Σ_k a[z][m][k] · b[z][k][n] with the batch dimensions collapsed. Strides in
/// elements.
struct Product {
  Expr m, n, k;
  Expr a_m, a_k, b_k, b_n;
  BatchDims batch;
};

/// Tactics for the device's matrix units, best first by rule; none if the operands' dtype has no
/// such product (matmul_matrix.cpp).
std::vector<Tactic> matrix_tactics(const NodeContext& context, Builder& builder, const Product& p);

/// Tactics for fp32 without matrix units, best first by rule; none for other dtypes
/// (matmul_simt.cpp).
std::vector<Tactic> simt_tactics(const NodeContext& context, const Product& p);

/// Tactics for one row with a matrix that lies as nn.Linear has its weight, best first by rule;
/// none for other products (matmul_rows.cpp).
std::vector<Tactic> one_row_tactics(const NodeContext& context, const Product& p);

/// The tactic for few rows with a matrix that is computed, and for one column, on CPU drivers
/// (matmul_simd_dots.cpp).
Tactic simd_dots_tactic(const NodeContext& context, Builder& builder, const Product& p);

/// How many workgroups should share the steps of k of one tile of outputs; 1: tiles fill the
/// device, or sums are short.
int64_t split_k_of(const NodeContext& context, const Product& p, int64_t tile_rows,
                   int64_t tile_cols);
/// The same as what a SIMT kernel offers, best first by rule: one workgroup a tile, because the
/// second launch costs as much as it saves, but for very long sums.
std::vector<int64_t> candidate_split_k(const NodeContext& context, const Product& p,
                                       int64_t tile_rows, int64_t tile_cols);
/// Why the third dimension of a grid has no room for so many matrices in `splits` parts, or "".
std::string batch_refusal(const NodeContext& context, const Expr& matrices, int64_t splits = 1);
/// Why split-K does not apply, or "".
std::string split_k_refusal(const NodeContext& context, const Product& p, int64_t splits);
/// Scratch of the sums: [splits][z][m][n] in fp32.
ValueId split_k_sums(Builder& builder, const Product& p, int64_t splits);
/// The launch that adds them and writes the node's output.
Step split_k_step(const NodeContext& context, const Product& p, ValueId split_k_sums,
                  int64_t splits);

}  // namespace tv
