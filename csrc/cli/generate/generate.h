#pragma once

#include <memory>

#include "csrc/cli/flags/options.h"
#include "runtime/vulkan/device.h"

namespace tv::cli {

/// vkexec generate: continues a text and prints what was added on standard output. Throws Error.
void generate(const std::shared_ptr<Device>& device, const Options& options);

}  // namespace tv::cli
