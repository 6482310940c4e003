#pragma once
// Types of what solves systems of equations.

#include "csrc/types/types.h"

namespace tv::types {

void solve_ex(NodeTypes& t);
void lu_solve(NodeTypes& t);
/// X of A X = B, or of X A = B where argument "left" says so.
TypeRule solves(const char* matrix, const char* right);

}  // namespace tv::types
