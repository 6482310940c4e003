#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tv {

/// Receives the progress of a compilation: `done` of `total` (0: unknown) of a stage. An exception
/// thrown from it stops the compilation and reaches the caller of the compiler.
using Progress = std::function<void(const std::string& stage, int64_t done, int64_t total)>;

}  // namespace tv
