#pragma once
// Equally spaced numbers, for expansions of other operators.

#include "csrc/rewriter.h"

namespace tv {

/// `count` float32 numbers from `start` to `end` (0-dim float32 values), each computed from the
/// nearer end, as in torch.linspace.
ValueId linspace_of(Rewriter& rewriter, ValueId start, ValueId end, int64_t count);

/// A 0-dim float32 value.
ValueId float_number(Rewriter& rewriter, double value);

}  // namespace tv
