#pragma once
// Types of what computes along rows: reductions, scans, sorts.

#include "csrc/types/types.h"

namespace tv::types {

/// Without the dimensions of "dim", all of which go where it is empty.
void reduced(NodeTypes& t);
/// Where "dim" is empty none goes.
void reduced_of_some(NodeTypes& t);
void of_a_dim(NodeTypes& t);
/// What `text` says, along a dimension that there is.
TypeRule of_rows(const char* text);
void picked_of_rows(NodeTypes& t);
void kth(NodeTypes& t);
void largest(NodeTypes& t);

}  // namespace tv::types
