#pragma once

#include "csrc/graph/graph.h"
#include "runtime/device_profile.h"

namespace tv {

/// Whether the pass pays on a device: where convolutions run on matrix units.
bool wants_channels_last(const DeviceProfile& device);

/// Stores results of convolutions that only convolutions read - as their input or through their
/// tails - with the channels of a pixel as neighbours, as matrix units load them. The value keeps its
/// shape; its view says how it lies (docs/design/0005-convolutions-and-layouts.md). Runs last.
Graph choose_channels_last(Graph graph);

}  // namespace tv
