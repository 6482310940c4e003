#pragma once
// Contexts without weights: these stay in the ONNX model that a context was made of.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "csrc/division/groups.h"
#include "csrc/frontends/onnx/file/model.h"
#include "integrations/onnxruntime/fused_node.h"

namespace tv::ort {

/// A model as it was given to the runtime, and its tensors by name: initializers and constants.
class SourceModel {
 public:
  /// `shown`: what messages call it.
  SourceModel(std::shared_ptr<const onnx::Model> model, std::string shown);

  const std::string& shown() const { return shown_; }
  /// The bytes as an engine holds them; none if there is no such tensor of this type and shape.
  std::optional<onnx::WeightBytes> weight(const std::string& name, DType dtype,
                                          const std::vector<int64_t>& shape) const;
  bool has(const std::string& name) const { return names_.contains(name); }
  /// SHA-256 of all that makes the network, without the elements of the tensors `free`.
  std::string network(const std::set<std::string>& free) const;

 private:
  std::shared_ptr<const onnx::Model> model_;
  std::string shown_;
  std::map<std::string, const onnx_proto::TensorProto*> tensors_;
  std::set<std::string> names_;  ///< of tensors, and of constants that are none
};

/// What a context without weights says of the model that has them.
struct WeightSource {
  std::map<std::string, std::string> digests;  ///< SHA-256 of each weight that the model has
  std::set<std::string> free;                  ///< those that may have other elements
  std::string frozen;                          ///< why none may; "": `free` may
  std::string network;                         ///< SourceModel::network(free)
};

/// The sizes of an engine's weight. Throws Error(kUser) where they are none.
std::vector<int64_t> sizes_of(const Binding& weight);

/// What of the weights of a model's engines `source` has. `given`: as the runtime shows it.
WeightSource source_of(const onnx::GroupedDivision& division, const onnx_proto::GraphProto& given,
                       const SourceModel& source);

/// Adds the weights that `known` says are in `model`. `refit`: it may have other weights of the
/// same network. Throws Error(kUser) where it has not what is wanted.
void take_weights(CompiledBlock& compiled, const WeightSource& known, const SourceModel& model,
                  bool refit);

}  // namespace tv::ort
