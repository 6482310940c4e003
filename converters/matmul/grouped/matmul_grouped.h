#pragma once
// tv::matmul_grouped's problem as every family of its tactics sees it.

#include <vector>

#include "converters/kit/steps.h"

namespace tv {

/// y[s] = a[s] · b[group of s], of a [rows, k] and b [groups, n, k] or, `by_columns`,
/// [groups, k, n].
struct GroupedProduct {
  Expr rows, n, k, groups;
  bool by_columns = false;
};

/// Tactics for CPU drivers, best first by rule (matmul_grouped_simd.cpp).
std::vector<Tactic> grouped_simd_tactics(const NodeContext& context, Builder& builder,
                                         const GroupedProduct& product);

}  // namespace tv
