#pragma once
// Tensors of 8-bit integers that have one scale and one zero point.

#include <optional>

#include "csrc/graph/quantised.h"
#include "csrc/graph/quantising.h"
#include "csrc/passes/kit/makers.h"
#include "csrc/passes/kit/one_number.h"

namespace tv {

/// The tv::dequantize that makes `value`, where it reads 8-bit integers, of one scale and one zero
/// point; nullopt elsewhere.
std::optional<Quantised> of_one_scale(const Graph& graph, const Makers& makers, ValueId value);

/// A zero point as an integer of `dtype`, for an argument of this name: a number, or a tensor of
/// one element; nullopt where elements may not be what it is.
std::optional<Arg> zero_point_arg(const Graph& graph, const Makers& makers, const char* name,
                                  ValueId zero_point, DType dtype);

/// Whether `quantising` gives the integers of `q` back, of which it quantises the floats: each
/// integer times its scale lies next to it, and far from where rounding changes.
bool undoes(const Graph& graph, const Makers& makers, const Quantising& quantising,
            const Quantised& q);

/// Whether a scale is known to be above 0: it is a number, or a constant that floats are divided
/// by, of which every frontend refuses others.
bool is_positive(const Graph& graph, const Makers& makers, ValueId scale);

}  // namespace tv
