#pragma once
// Tensors of one element, as the numbers that they are.

#include <optional>

#include "csrc/passes/kit/makers.h"

namespace tv {

/// What a tensor of one element is a view of; kNoValue of kNoValue.
ValueId root_of(const Makers& makers, ValueId value);

/// The number that a tensor of one element is, where the graph says it; of kNoValue 0.
std::optional<double> number_of(const Graph& graph, const Makers& makers, ValueId value);

/// Whether two tensors of one element are one, behind views, or equal numbers.
bool same_number(const Graph& graph, const Makers& makers, ValueId a, ValueId b);

}  // namespace tv
