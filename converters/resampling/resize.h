#pragma once
// What the kernels that resize share.

#include "converters/kit/steps.h"

namespace tv {

struct Resize {
  std::string mode;  // the kernels' MODE
  int dims = 2;
  int filter = 0;  // source elements of the anti-aliasing filter; 0: none
  bool backward = false;
};

/// One resized dimension.
struct Axis {
  Expr in, out;
  double scale = 0;  // source steps an output step, where the caller said it; else 0
};

/// Whether each result is an element of the input.
inline bool copies_elements(const Resize& r) { return r.mode == "NEAREST" || r.mode == "EXACT"; }

/// A launch that resizes without a filter, with what upsample_taps.glsl reads; it lacks the rest.
Step resize_step(const NodeContext& context, const Resize& resize, std::string kernel);

/// Outermost first.
std::vector<Axis> axes_of(const NodeContext& context, const Resize& resize);

/// The tactic of CPU drivers (upsample_simd.cpp).
Tactic upsample_simd_tactic(const NodeContext& context, const Resize& resize);

}  // namespace tv
