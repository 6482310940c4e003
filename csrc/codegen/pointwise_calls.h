#pragma once
// What the template of a pointwise node calls.

#include <string>

#include "csrc/codegen/kernel.h"

namespace tv {

/// tv_pointwise(i) and tv_pointwise4(i): the node's program from operands in* to operands out*;
/// and tv_pointwise_run where the step says how long a run is.
std::string pointwise_calls(const KernelRequest& request);

/// tv_pointwise_simd(i, h): elements i … i + 2 * LANES - 1 for a uniform i, on CPU drivers;
/// tv_pointwise_release(h) stores them.
std::string pointwise_simd(const KernelRequest& request);

}  // namespace tv
