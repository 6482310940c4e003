#pragma once
// Types of pools over `dims` dimensions.

#include "csrc/types/types.h"

namespace tv::types {

TypeRule pool(size_t dims);
TypeRule pool_backward(size_t dims);
TypeRule adaptive_pool(size_t dims);
TypeRule adaptive_pool_backward(size_t dims);

}  // namespace tv::types
