#pragma once
// The log: standard error, level from TORCH_VULKAN_LOG (default warn). Nothing is logged while an
// engine runs.

#include <string>

namespace tv {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };

/// Writes one line where `level` is at or above the level chosen. Thread-safe.
void log(LogLevel level, const std::string& message);
/// True if log(level, …) would write: for messages that cost something to make.
bool log_enabled(LogLevel level);

}  // namespace tv
