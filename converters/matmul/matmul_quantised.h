#pragma once
// tv::matmul_quantised(a, input, scale?, zero_point?, bits, formats): a[m, k] · dequantised[n, k]ᵀ,
// where the quantised matrix (csrc/graph/quantised.h) stays as it is packed. Made by
// multiply_quantised.

#include <string>
#include <vector>

#include "converters/kit/steps.h"
#include "csrc/graph/quantised.h"

namespace tv {

struct QuantisedProduct {
  Expr m;
  int64_t n = 0, k = 0;
  Expr a_m, a_k;  ///< strides of a
  Quantised q;
  int64_t group = 0;     ///< steps of k with one scale; k: one of each row
  bool by_rows = false;  ///< each row of the quantised matrix has scales of its own
  ValueId runs =
      kNoValue;  ///< the matrix as matmul_quantised_pack orders it, for kernels that need runs
  int64_t groups() const { return k / group; }
  /// From one row to the next in the storage: bytes of the matrix, elements of its scales.
  int64_t row_bytes() const { return k * q.bits / 8; }
  int64_t scale_row() const { return by_rows ? groups() : 0; }
};

/// The groups that the scales and zero points of p.q make of its rows.
void set_groups(const NodeContext& context, QuantisedProduct& p);

/// Whether zero points are small integers, which differ from elements exactly in a few bits.
bool zero_fits(const NodeContext& context, const QuantisedProduct& p);

/// Defines of the formats that elements and scales are codes of (quantised_weight.glsl).
void add_codes(const Quantised& q, Step& step);

/// Defines and operands that quantised_weight.glsl and quantised_words.glsl want.
void add_quantised_weight(const NodeContext& context, const QuantisedProduct& p, Step& step);

/// The tactic for CPU drivers that takes `rows` rows of a at once (matmul_quantised_simd.cpp).
Tactic quantised_simd_tactic(const NodeContext& context, Builder& builder,
                             const QuantisedProduct& p, int64_t rows);

/// Tactics for the device's matrix units, best first by rule, which dequantise what they load
/// (matmul_quantised_matrix.cpp).
std::vector<Tactic> quantised_matrix_tactics(const NodeContext& context, Builder& builder,
                                             const QuantisedProduct& p);

}  // namespace tv
