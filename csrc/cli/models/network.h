#pragma once
// A network that is ready to run: an engine for each shape profile, and its weights.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "csrc/cli/tensors/tensor.h"
#include "csrc/cli/text/shapes.h"
#include "csrc/frontends/safetensors.h"
#include "runtime/engine/engine.h"

namespace tv::cli {

using tv::WeightBytes;
/// A weight from outside, to be put in by name.
using NewWeight = StoredTensor;
using NewWeights = StoredTensors;

/// An engine and what it runs with for some shapes.
struct Bound {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const WeightSet> weights;
  std::vector<int64_t> symbols;
  std::vector<std::vector<int64_t>> input_shapes, output_shapes;
};

class Network {
 public:
  /// `weights` in the order of the specification; empty: to come by `refit`.
  Network(std::shared_ptr<Device> device, std::vector<EngineSpec> specs,
          std::vector<WeightBytes> weights, EngineOptions options = {});
  /// Reads a .vke file with one or several shape profiles. Throws Error(kUser).
  static Network load(std::shared_ptr<Device> device, const std::string& path,
                      EngineOptions options = {});

  const EngineSpec& spec() const { return engines_.front()->spec(); }
  size_t profiles() const { return engines_.size(); }
  /// One for each shape profile.
  const std::vector<std::shared_ptr<Engine>>& engines() const { return engines_; }
  /// False for a stripped engine that was not refitted.
  bool has_weights() const { return sets_.size() == engines_.size(); }
  int64_t weight_bytes() const;

  /// Puts in the weights that it finds by name. Throws Error(kUser) if one has another dtype or
  /// shape, where none fits, or where a stripped engine still lacks some. Returns how many it took.
  size_t refit(const NewWeights& weights);

  /// The engine for these shapes: of several shape profiles the one whose usual shapes are nearest.
  /// Inputs that are not named get what the named ones imply, or the usual sizes. Throws
  /// Error(kUser).
  Bound bind(const NamedShapes& shapes) const;

  /// Writes a .vke file. Throws Error(kUser).
  void save(const std::string& path, bool with_weights) const;

 private:
  void prepare();
  std::vector<HostTensor> host_weights() const;

  std::vector<std::shared_ptr<Engine>> engines_;
  std::vector<WeightBytes> weights_;
  std::vector<std::shared_ptr<const WeightSet>> sets_;
};

}  // namespace tv::cli
