#pragma once
// vkexec debug: runs a network in many forms to find which part of it is to blame.

#include <memory>

#include "csrc/cli/flags/options.h"
#include "runtime/vulkan/device.h"

namespace tv::cli {

/// vkexec debug precision: which layers must stay in float32 so that the outputs are within a
/// bound; writes them to options.save as a --config file. False if even all of them are not enough.
/// Throws Error.
bool debug_precision(const std::shared_ptr<Device>& device, const Options& options);

/// vkexec debug reduce: the smallest model that fails as the one that the
/// options name does, written to
/// options.save. False if it does not fail. Throws Error.
bool debug_reduce(const std::shared_ptr<Device>& device, const Options& options);

}  // namespace tv::cli
