#pragma once

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// A window that moves on: an input that is overwritten by cat(x[n:], new), or cat(new, x[:-n]), of
/// itself. The join becomes a roll of the input whose last, or first, n positions are replaced,
/// which write_in_place makes where the input lies. It stays where the input is read otherwise, and
/// where rolls of so many positions are not made in place. Runs before layouts are chosen.
Graph move_windows(Graph graph, const Settings& settings, const DeviceProfile& device);

}  // namespace tv
