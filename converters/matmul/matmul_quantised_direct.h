#pragma once
// Products of a row or few with a matrix of 4 bits on matrix units, its words straight from memory
// into fragments (matmul_quantised_direct.comp): for tv::matmul_quantised and tv::matmul_rows.

#include <functional>
#include <string>
#include <vector>

#include "converters/kit/steps.h"
#include "converters/matmul/matmul_quantised.h"

namespace tv {

/// A row of a (each of `m`) times p, of whose rows `gated` products have two halves. `add_problem`
/// appends operands and parameters as the kernel of rows wants them: a, q, scale, zero, y, m_count,
/// n_count, k_count, a_m, and those of a norm and a gate.
struct DirectProduct {
  const NodeContext& c;
  Builder& b;
  const QuantisedProduct& p;
  Expr m;
  bool gated = false;
  std::function<void(const QuantisedProduct&, Step&)> add_problem;
};

/// Tactics, best first; none on devices without matrix units and for other than 16-bit floats.
std::vector<Tactic> quantised_direct_tactics(const DirectProduct& product, const std::string& name);

}  // namespace tv
