#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tv {

/// Told how far a compilation is: `done` of `total` (0: not known) of a stage. An exception thrown
/// here stops the compilation and reaches its caller.
using Progress = std::function<void(const std::string& stage, int64_t done, int64_t total)>;

}  // namespace tv
