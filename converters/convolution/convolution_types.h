#pragma once
// Types of convolutions.

#include "csrc/types/types.h"

namespace tv::types {

TypeRule convolution(size_t dims, bool transposed);
void any_convolution(NodeTypes& t);
void convolution_backward(NodeTypes& t);
void integer_convolution(NodeTypes& t);

}  // namespace tv::types
