#pragma once
// Which layers of a network do harm: each tensor beside that of an exact engine.

#include <memory>
#include <string>
#include <vector>

#include "csrc/cli/compare/layers.h"
#include "csrc/cli/tensors/difference.h"
#include "runtime/vulkan/device.h"

namespace tv::cli {

/// How far a tensor of a layer is from the exact one.
struct Harm {
  std::string name;
  size_t layer = 0;  ///< of Layers::layers
  Difference difference;
  double input_noise = 0;  ///< the largest among the tensors that the layer reads
  /// The part of the noise that the layer adds: its result's less its inputs'.
  double harm() const {
    return difference.noise == input_noise ? 0 : difference.noise - input_noise;
  }
};

/// Exact tensors and what they were computed from.
struct Exact {
  Layers layers;
  Tensors inputs, tensors;
};

/// Runs the network exactly. The options have all sizes. Where options.ref has a file for a tensor
/// of the same shape, that is the exact one.
Exact run_exactly(const std::shared_ptr<Device>& device, const Options& options);

/// Each tensor of an engine built as the options say, the most harmful first.
std::vector<Harm> harms(const std::shared_ptr<Device>& device, const Exact& exact,
                        const Options& options);

/// The layers that make these tensors, in their order, each once.
std::vector<size_t> layers_by_harm(const std::vector<Harm>& harms);

/// The outputs of the network's own engine beside the exact ones, floats or not, with these layers
/// kept in float32.
struct OutputDifference {
  std::string name;
  Difference difference;
};
std::vector<OutputDifference> output_differences(const std::shared_ptr<Device>& device,
                                                 const Exact& exact, Options options,
                                                 const std::vector<size_t>& kept);

/// The patterns of several layers.
std::vector<std::string> patterns_of(const Layers& layers, const std::vector<size_t>& kept);

/// The lowest of all.
double worst_snr_db(const std::vector<OutputDifference>& outputs);

/// The line of a --config file, or of tv.Config's, that keeps the nodes in float32.
std::string excluded_nodes_yaml(const std::vector<std::string>& patterns);

/// vkexec compare without reference tensors: prints and writes what the functions above find. False
/// if the options give a tolerance and an output is outside.
bool compare_by_harm(const std::shared_ptr<Device>& device, const Options& options);

}  // namespace tv::cli
