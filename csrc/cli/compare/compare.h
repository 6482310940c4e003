#pragma once

#include "csrc/cli/flags/options.h"
#include "runtime/vulkan/device.h"

namespace tv::cli {

/// vkexec compare: computes the network on the inputs in options.ref and compares its outputs, and
/// the tensors between its layers, with the references there; without options.ref, with an exact
/// engine's. False if one differs. Throws Error.
bool compare_network(std::shared_ptr<Device> device, const Options& options);

}  // namespace tv::cli
