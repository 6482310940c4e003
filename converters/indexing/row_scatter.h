#pragma once
// Rows of a tensor, named by indices, that get values added or replaced in a fixed order: what
// index_put and its like share with scatter along a dimension whose indices hold for whole rows.

#include <vector>

#include "converters/kit/steps.h"

namespace tv {

/// What is scattered where, in one form for all operators.
struct RowScatter {
  ValueId base = kNoValue, values = kNoValue, y = kNoValue;
  std::vector<ValueId> indices;
  std::vector<Shape> index_strides;  ///< of each in its storage, over index_shape
  Shape row_shape;                   ///< sizes of the indexed dimensions
  Shape index_shape;                 ///< of the broadcast indices
  Shape out;                         ///< the output's
  Shape row_of, rest;                ///< strides over the output: of the row, of the values
  Shape value_strides;               ///< strides over index_shape, of the values
  Expr dropped = -1;
  bool add = true;
  bool checked = true;  ///< an index out of range is an error
  bool wraps = true;    ///< negative indices count from the end

  Expr rows() const { return product(row_shape); }
  Expr entries() const { return product(index_shape); }
};

/// Writes the row of each entry to `key`, `rows` for none.
Step scatter_keys(const RowScatter& scatter, ValueId key);
/// The operands v, y and, where there is one, x, and the defines of a kernel that writes the rows:
/// y_OFFSETS, value_OFFSETS, ADD and BASE.
Step row_step(const std::string& kernel, const RowScatter& scatter);

/// Candidates for CPU drivers, best first: entries are sorted by their rows. Empty on others.
std::vector<Tactic> sorted_scatter(const NodeContext& context, Builder& builder,
                                   const RowScatter& scatter);

}  // namespace tv
