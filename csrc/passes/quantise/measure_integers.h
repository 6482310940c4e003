#pragma once

#include "csrc/passes/kit/node_alone.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Takes the scale (Node::input_scale) off products and convolutions that are measured to be faster
/// as they are than in int8, their input's quantisation included. Where times are not known (`us`
/// may be empty) it stays, but for what matrix units compute in 16 bits: there only products of few
/// rows and very large ones gain by rule. Then the whole graph is timed with what scales are left,
/// and without: layers of floats share more kernels with their neighbours. Runs before
/// quantise_calibrated.
Graph measure_integers(Graph graph, const Settings& settings, const DeviceProfile& device,
                       const GraphUs& us);

}  // namespace tv
