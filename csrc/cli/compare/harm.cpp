#include "csrc/cli/compare/harm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/cli/bench/references.h"
#include "csrc/cli/tensors/npy.h"
#include "runtime/base/error.h"

namespace tv::cli {
namespace {

/// The exact tensors that are in files take the place of computed ones.
void read_references(const Options& options, Tensors& tensors) {
  for (auto& [name, tensor] : tensors) {
    if (!has_reference(options, name)) continue;
    Tensor read = read_npy(path_of(options, name), tensor.dtype);
    if (read.shape != tensor.shape) {
      throw Error(ErrorKind::kUser, "[compare] " + path_of(options, name) + " holds " +
                                        shape_text(read.shape) + ", the tensor is " +
                                        shape_text(tensor.shape));
    }
    tensor = std::move(read);
  }
}

}  // namespace

Exact run_exactly(const std::shared_ptr<Device>& device, const Options& options) {
  Exact exact{.layers = layers_of(options)};
  const Options plain = tv::cli::exact(options);
  const Network network = build_network(device, exact.layers.model, plain);
  exact.inputs = input_tensors(network, options);
  exact.tensors = run_on(network, exact.inputs);
  read_references(options, exact.tensors);
  return exact;
}

std::vector<Harm> harms(const std::shared_ptr<Device>& device, const Exact& exact,
                        const Options& options) {
  const Network network = build_network(device, exact.layers.model, options);
  const Tensors got = run_on(network, exact.inputs);
  const Tolerance tolerance{.absolute = options.atol, .relative = options.rtol};
  std::map<std::string, double> noise;
  std::vector<Harm> found;
  for (const LayerTensor& tensor : exact.layers.tensors) {
    Harm harm{.name = tensor.name, .layer = tensor.layer};
    harm.difference = difference(got.at(tensor.name), exact.tensors.at(tensor.name), tolerance);
    for (const std::string& read : tensor.reads) {
      harm.input_noise = std::max(harm.input_noise, noise.at(read));
    }
    noise.emplace(tensor.name, harm.difference.noise);
    found.push_back(std::move(harm));
  }
  std::ranges::stable_sort(found, std::greater(), &Harm::harm);
  return found;
}

std::vector<size_t> layers_by_harm(const std::vector<Harm>& harms) {
  std::vector<size_t> layers;
  for (const Harm& harm : harms) {
    if (std::ranges::find(layers, harm.layer) == layers.end()) layers.push_back(harm.layer);
  }
  return layers;
}

std::vector<std::string> patterns_of(const Layers& layers, const std::vector<size_t>& kept) {
  std::vector<std::string> patterns;
  for (const size_t layer : kept) {
    for (std::string& pattern : patterns_of(layers.layers.at(layer))) {
      if (std::ranges::find(patterns, pattern) == patterns.end()) {
        patterns.push_back(std::move(pattern));  // weights may be computed for several
      }
    }
  }
  return patterns;
}

std::vector<OutputDifference> output_differences(const std::shared_ptr<Device>& device,
                                                 const Exact& exact, Options options,
                                                 const std::vector<size_t>& kept) {
  for (std::string& pattern : patterns_of(exact.layers, kept)) {
    options.settings.autocast_excluded_nodes.push_back(std::move(pattern));
  }
  const Network network = build_network(device, import_model(options), options);
  const Tensors got = run_on(network, exact.inputs);
  const Tolerance tolerance{.absolute = options.atol, .relative = options.rtol};
  std::vector<OutputDifference> found;
  for (const auto& [name, shown] : exact.layers.outputs) {
    found.push_back({name, difference(got.at(name), exact.tensors.at(shown), tolerance)});
  }
  return found;
}

double worst_snr_db(const std::vector<OutputDifference>& outputs) {
  double worst = std::numeric_limits<double>::infinity();
  for (const OutputDifference& output : outputs) {
    worst = std::min(worst, snr_db(output.difference.noise));
  }
  return worst;
}

}  // namespace tv::cli
