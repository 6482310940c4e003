#pragma once
// The log: standard error, level from TORCH_VULKAN_LOG (default warn). Nothing is logged while an
// engine runs.

#include <spdlog/logger.h>

namespace tv {

/// The one logger of the process: `log().info("built {} in {} ms", name, ms)`. Thread-safe.
spdlog::logger& log();

}  // namespace tv
