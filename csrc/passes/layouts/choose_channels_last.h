#pragma once

#include "csrc/graph/graph.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

struct Settings;

/// Whether the pass is worthwhile on a device: if convolutions run on matrix units there.
bool wants_channels_last(const Settings& settings, const DeviceProfile& device);

/// Stores results of convolutions that only convolutions read - as their input or through their
/// epilogues - with the channels of a pixel as neighbours, as matrix units load them. The value
/// keeps its shape; its view has the strides (docs/design/0005-convolutions-and-layouts.md). Runs
/// after place_outputs. Of integers where the device multiplies matrices of bytes.
Graph choose_channels_last(Graph graph, const DeviceProfile& device);

/// A convolution of images, of floats or integers; others (of rows, of volumes) have no such
/// layout.
bool is_plane_convolution(const Graph& graph, const Node& node);
/// Whether channels of a type are whole chunks of those that kernels read at once.
bool has_whole_chunks(const Expr& channels, DType dtype);
/// The sizes or strides of (n, c, h, w) as those of (n, h, w, c).
Shape by_pixels(const Shape& shape);
/// Stores a value of four dimensions, without a view so far, with the channels as neighbours.
void store_channels_last(Graph& graph, ValueId id);
/// Lets an elementwise operator with such a result go through the elements as they are stored; one
/// with an input that does not broadcast to it dimension by dimension is left as it is.
void walk_by_pixels(Graph& graph, Node& node);

}  // namespace tv
