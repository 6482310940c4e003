#pragma once
// Types of what reads or writes where indices say.

#include "csrc/types/types.h"

namespace tv::types {

void gather(NodeTypes& t);
void scatter(NodeTypes& t);
void index_select(NodeTypes& t);
void index_reduce(NodeTypes& t);
void index(NodeTypes& t);
void index_put(NodeTypes& t);
void put(NodeTypes& t);
void masked_scatter(NodeTypes& t);
/// What `text` says, and that the result has the rows of the table.
TypeRule of_table(const char* text);

}  // namespace tv::types
