#pragma once
// What the kernels of average pools share.

#include "converters/pooling/pool_window.h"

namespace tv {

struct PoolForm {
  int dims = 2;
  bool adaptive = false;
};

/// A launch with what avg_pool.comp and avg_pool_simd.comp read; it lacks the rest.
Step pool_step(const NodeContext& context, PoolForm form, std::string kernel);

/// The tactic of CPU drivers (avg_pool_simd.cpp).
Tactic avg_pool_simd_tactic(const NodeContext& context, PoolForm form);

}  // namespace tv
