#pragma once
// Types of operators whose results name elements of their operand, and (…_put) of those that put
// something in the place of such elements.

#include "csrc/types/types.h"

namespace tv::types {

void reshaped(NodeTypes& t);
void permuted(NodeTypes& t);
void swapped(NodeTypes& t);
void last_swapped(NodeTypes& t);
void reversed(NodeTypes& t);
void expanded(NodeTypes& t);
void unsqueezed(NodeTypes& t);
void squeezed(NodeTypes& t);
void diagonal(NodeTypes& t);
TypeRule diagonal_put();
void slice(NodeTypes& t);
TypeRule slice_put();
void selected(NodeTypes& t);
TypeRule selected_put();
void narrowed(NodeTypes& t);
void unbound(NodeTypes& t);
void split(NodeTypes& t);
void chunk(NodeTypes& t);
void split_by_sizes(NodeTypes& t);
void strided_view(NodeTypes& t);
void strided_put(NodeTypes& t);
void unfolded(NodeTypes& t);
void other_type(NodeTypes& t);

}  // namespace tv::types
