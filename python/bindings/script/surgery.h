#pragma once
// Puts engines in the place of nodes.

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <vector>

#include "python/bindings/script/import.h"
#include "python/bindings/script/partition.h"

namespace tv::script {

/// What of a region one engine replaces.
struct Excision {
  std::vector<torch::jit::Node*> nodes;     ///< those that compute, in order
  std::vector<torch::jit::Node*> helpers;   ///< of numbers and lists, that they need with them
  std::vector<torch::jit::Value*> inputs;   ///< tensors from outside, weights left out
  std::vector<torch::jit::Value*> guards;   ///< numbers from outside; the engine is made for theirs
  std::vector<torch::jit::Value*> carried;  ///< numbers from outside that no tensor shows
  std::vector<torch::jit::Value*> outputs;  ///< tensors and lists of them that are read outside
  std::vector<torch::jit::Node*> both;      ///< nodes and helpers, in order
  bool names_device = false;  ///< its results depend on the device by more than tensors
  std::string refusal;        ///< why there is none: all else is empty then
};

/// Added to a number that is carried as the size of a tensor without elements: it may be negative.
inline constexpr int64_t kCarriedBias = int64_t{1} << 62;

/// One for each of `engines`, sets of nodes of the region.
std::vector<Excision> excise(const Region& region,
                             const std::vector<std::vector<torch::jit::Node*>>& engines,
                             const ImportContext& context);

/// Sorts the nodes of a region so that those of each excision are neighbours and data still flows
/// forward.
void gather(const Region& region, const std::vector<Excision>& excisions);

/// What the values of an excision are to its engine.
struct EngineCall {
  torch::jit::Value* engine = nullptr;
  std::vector<torch::jit::Value*> inputs, weights;  ///< in the engine's order
  /// Other values that are one of `inputs`, and which: what operators hand on as it is.
  std::vector<std::pair<torch::jit::Value*, torch::jit::Value*>> aliases;
  std::vector<std::vector<int>> outputs;  ///< of each of Excision::outputs, positions among results
  std::vector<std::optional<at::ScalarType>> casts;  ///< dtype that a result is converted to
  /// Of an engine for ranges of sizes, whose last inputs carry Excision::carried: the method that a
  /// SizeCheck runs, and its rule.
  std::string method, rule;
  std::optional<c10::Device> only_on;     ///< where tensors have to be; nothing: all on one device
  std::optional<c10::Device> results_on;  ///< where results go, when no argument says it
};

/// In the place of the nodes: the engine where tensors and numbers are those that it was made for,
/// else the nodes as they were. The nodes have to be neighbours. What was recorded of results holds
/// for the values that take their place, which it gives: of each of Excision::outputs.
std::vector<torch::jit::Value*> replace(const Excision& excision, const EngineCall& call,
                                        const std::vector<Recording*>& recordings);

/// Puts what the nodes need of helpers before them, where no engine takes their place after
/// gather().
void keep(const Excision& excision);

/// Destroys nodes of numbers and lists that nobody reads any more, and what is known of them.
void remove_unread(const Region& region, ImportContext& context,
                   const std::vector<Recording*>& recordings);

}  // namespace tv::script
