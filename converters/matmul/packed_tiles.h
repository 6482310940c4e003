#pragma once
// What kernels of products with packed weights share, quantised or sparse (tiled.glsl): workgroups
// that keep tiles of both operands in shared memory.

#include <string>

#include "converters/kit/steps.h"

namespace tv {

/// A product of `m` rows with a packed matrix of `n` rows.
struct PackedProblem {
  std::string kernel;
  Expr m;
  int64_t n = 0;
  bool a_by_rows = false;  ///< elements of a row of a are neighbours
};

/// The tactic of rows x cols results a workgroup, KERNEL_ROWSxCOLS. Its step, where it has one, has
/// no operands yet, nor parameters.
Tactic packed_tiles(const DeviceProfile& device, const PackedProblem& problem, int64_t rows,
                    int64_t cols);

/// The tactic of one result an invocation, KERNEL, with operands and parameters as above; the sum
/// is over `k` steps.
Tactic packed_reference(const PackedProblem& problem, int64_t k);

}  // namespace tv
