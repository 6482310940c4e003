#pragma once
// Files beside a model that hold its tensors.

#include <memory>
#include <string>

#include "csrc/frontends/weight.h"

namespace tv::onnx {

/// `length` bytes (-1: to its end) from `offset` on of the file `location` below `directory`,
/// mapped. Throws Error(kUser) if the path is absolute or has "..", where it or a folder on the
/// way is a symbolic link, where it is no regular file or has other names (hard links), and where
/// the bytes are not all there. `what` begins the message.
WeightBytes map_external(const std::string& directory, const std::string& location, int64_t offset,
                         int64_t length, const std::string& what);

}  // namespace tv::onnx
