#pragma once
// Padded copies of a convolution's input for CPU drivers: a plane for each phase of the stride, so
// that each tap reads neighbours for neighbouring outputs.

#include <array>
#include <vector>

#include "converters/convolution/convolution.h"

namespace tv {

/// Below it a quotient of numbers of elements is one of floats (conv_quotient).
inline constexpr int64_t kSmallPlane = 1 << 21;

/// The padded copy: one volume for each phase of the stride, all with the same pitch.
struct Plane {
  std::array<int64_t, 3> phases, reach;  ///< reach: how far taps go past the outputs
  Expr depth, height, pitch, slab;       ///< slab: elements of an image of a volume
  Expr phase_size, plane;                ///< plane: elements of one channel, a multiple of 2

  int64_t phase_count() const { return phases[0] * phases[1] * phases[2]; }
  /// What places are made of: channels, phases, images and rows.
  std::array<Expr, 4> place_strides() const { return {plane, phase_size, slab, pitch}; }
  /// Where a tap of output pixel 0 lies in a channel.
  SimdPlace place(const ConvShape& s, int64_t channel, const std::array<int64_t, 3>& tap) const;
  /// From the first to the last output.
  Expr columns(const ConvShape& s) const {
    return (s.out[0] - 1) * slab + (s.out[1] - 1) * pitch + s.out[2];
  }
};

/// `tile`: columns that a kernel reads at once.
Plane plane_of(const ConvShape& s, int64_t tile);

/// Appends the launch that makes the copy, in fp32: [image · groups][channels][plane].
ValueId add_pad(const NodeContext& c, Builder& b, const ConvShape& s, const Plane& p,
                const Expr& channels, std::vector<Step>& steps);

}  // namespace tv
