#pragma once

#include <string>

#include "csrc/cli/network.h"

namespace tv::cli {

/// The tensors of a .safetensors file (https://github.com/huggingface/safetensors), by name. Throws
/// Error(kUser) for a file that is none.
NewWeights read_safetensors(const std::string& path);

}  // namespace tv::cli
