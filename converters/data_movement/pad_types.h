#pragma once
// Types of padding.

#include "csrc/types/types.h"

namespace tv::types {

void padded_constant(NodeTypes& t);
TypeRule edge_pad(size_t dims, bool reflects);
TypeRule edge_pad_backward(size_t dims);

}  // namespace tv::types
