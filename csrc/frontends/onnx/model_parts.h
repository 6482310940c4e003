#pragma once
// Models cut out of an ONNX file.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::onnx {

struct Model;

class ModelParts {
 public:
  /// Reads a file. Sizes that options.inputs does not fix are not known, and tensors that have them
  /// are no inputs of parts. Throws Error(kUser) for a file that is wrong as a whole; nodes that
  /// have no translation may be part of a part.
  ModelParts(const std::string& path, ImportOptions options);
  ~ModelParts();

  /// The file as it was imported in part.
  const ImportedModel& imported() const { return imported_; }

  /// Numbers of the nodes that read something. Others are constants, which go with their readers.
  std::vector<size_t> nodes() const;

  /// These nodes (ascending) as a model. Tensors that other nodes made become inputs, or constants
  /// where they are known; what other nodes read, and the file's outputs, become outputs. Weights
  /// are inside. None where the type or a size of an input is not known. Throws Error(kUser) for
  /// more than 2 GiB.
  std::optional<std::vector<uint8_t>> cut(std::span<const size_t> nodes) const;

 private:
  class Cutter;
  std::shared_ptr<const Model> model_;
  ImportedModel imported_;
};

}  // namespace tv::onnx
