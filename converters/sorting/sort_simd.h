#pragma once
// Sorting along one dimension on CPU drivers, by networks in registers: blocks, then merges of
// blocks, or of the first elements of blocks where few are wanted (sort_simd.glsl).

#include <string>

#include "converters/sorting/sort_lines.h"

namespace tv {

/// The steps that sort the lines, if `refusal` is "".
struct SimdSort {
  std::string refusal = {};
  SortedLines sorted = {};
  std::vector<Step> steps = {};
};
SimdSort sort_by_simd(const NodeContext& context, Builder& builder, const SortLines& lines);

/// The step that writes the first elements of lines of neighbours that are long enough, or nothing.
/// Operands x, at and y, and, where it is not kNoValue, idx.
std::optional<Step> emit_by_simd(const NodeContext& context, const SortLines& lines,
                                 const SortedLines& sorted, ValueId y, ValueId indices);

}  // namespace tv
