#pragma once
// Types of attention.

#include "csrc/types/types.h"

namespace tv::types {

void attention(NodeTypes& t);
void attention_backward(NodeTypes& t);

}  // namespace tv::types
