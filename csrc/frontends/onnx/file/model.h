#pragma once
// An ONNX file in memory. Includes the messages that protobuf generated: few files should.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csrc/frontends/weight.h"
#include "onnx_ml.pb.h"

namespace tv::onnx {

struct Stored;

struct Model {
  onnx_proto::ModelProto proto;
  std::string directory;  ///< of external data
  bool external = true;   ///< there is such a directory
  /// Of a model that is not a file: the bytes of a tensor, by name, whose data is external.
  std::function<WeightBytes(const std::string& name)> elements;
  /// Nodes of inlined functions, which stored tensors refer to.
  mutable std::vector<std::shared_ptr<const void>> bodies;
};

/// Parses a model with bounds: its messages take a small multiple of the file's size, and nest at
/// most 64 deep. Throws Error(kUser).
std::shared_ptr<const Model> parse_model(std::span<const uint8_t> bytes);

/// Checks a tensor's type, sizes and bytes. `model` is kept alive by what the result loads.
std::shared_ptr<const Stored> check_tensor(std::shared_ptr<const Model> model,
                                           const onnx_proto::TensorProto& tensor);

}  // namespace tv::onnx
