#pragma once
// Types of what makes tensors of numbers.

#include "csrc/types/types.h"

namespace tv::types {

void of_size(NodeTypes& t);
void line(NodeTypes& t);
void eye(NodeTypes& t);

}  // namespace tv::types
