#pragma once

#include <string>

#include "csrc/cli/tensors/tensor.h"

namespace tv::cli {

/// Element i as text that reads back as the same number; NaN, Infinity and -Infinity as Python's
/// json writes them.
std::string element_text(const Tensor& tensor, int64_t i);

}  // namespace tv::cli
