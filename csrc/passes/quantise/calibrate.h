#pragma once
// Names for what calibration observes, and its results in a Graph.

#include <map>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// The input of a product or convolution with constant weights, whose range int8 has to cover.
struct CalibrationPoint {
  size_t node = 0;
  ValueId value = kNoValue;  ///< what is observed: the input, or what it is a view of
  std::string name = {};
  /// The dimension of `value` that channels of the input are; -1: it has none.
  int64_t channel_dim = -1;
  bool is_product = true;  ///< else a convolution
  /// Where names are a module's: the weights of the graph that the node's weight is made of, and
  /// how, in a text that is the same in other graphs.
  std::vector<ValueId> leaves = {};
  std::string making = {};
};

/// All of a graph as the frontend made it, but what the user excludes (autocast_excluded_nodes,
/// autocast_excluded_ops). A point goes by the tensor's name where the graph has a file's names;
/// else by the weight that is multiplied: "layer1.conv.input" where that is layer1.conv.weight,
/// "layer1.conv.input.1" for the second product with it, "matrix.input" where it is matrix. Where
/// no weight has a name it goes by the module likewise.
std::vector<CalibrationPoint> calibration_points(const Graph& graph, const Settings& settings);

/// What a calibration says of a graph.
struct CalibrationUse {
  size_t points = 0, scaled = 0;
  size_t products = 0;  ///< products and convolutions, whether their weights are constant or not
  std::vector<std::string> missing;  ///< points that it does not know; they stay as they are
  std::vector<std::string> unused;   ///< tensors of the calibration that are not points
  std::string refusal;               ///< why the device cannot compute in int8, or ""
  // Of the points with a scale, when blocks are known (plan()).
  size_t in_blocks = 0;  ///< those that an engine computes
  std::string left_out;  ///< why the first of the others is in none; "": all are in blocks
};

/// Attributes that quantise_calibrated reads, and takes off nodes: what a calibration says of each
/// channel of the input, lists of numbers, SmoothQuant's alpha, and whether the node is to be
/// computed in int8 whatever was measured.
inline constexpr const char *kInputLargest = "input_largest", *kInputMeans = "input_means",
                            *kSmoothAlpha = "smooth_alpha", *kInt8Required = "int8_required";

/// Writes settings.calibration into the nodes (Node::input_scale and these attributes) where int8
/// is permitted, and into no graph twice: what is cut out of one keeps its scales. Throws
/// Error(kUser) for int8 without a calibration, a calibration without int8, one that knows no point
/// of the graph, one of another number of channels, and one that requires int8 of what is no point
/// or has no scale; Error(kUnsupported) where the device has no int8 and something requires it.
CalibrationUse calibrate(Graph& graph, const Settings& settings, const DeviceProfile& device);

/// Where the channels of an observed tensor lie, by what its readers say.
struct ObservedChannels {
  int64_t dim = -1;         ///< -1: it has none, or readers disagree
  bool is_product = false;  ///< whether a product reads it
};

/// Of each point by its name, where names are a file's: several nodes may read one tensor.
std::map<std::string, ObservedChannels> observed_channels(const Graph& graph,
                                                          const Settings& settings);

/// The graph with the points as outputs, in their order and by their names, each name once, in
/// place of its own. Points that are inputs are left out.
Graph observed(Graph graph, const Settings& settings);

}  // namespace tv
