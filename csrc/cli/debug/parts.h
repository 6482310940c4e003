#pragma once
// Models cut out of the one that the options name.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "csrc/cli/debug/smallest.h"
#include "csrc/cli/flags/options.h"
#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::cli {

struct ModelPart {
  std::vector<uint8_t> file;
  std::function<onnx::ImportedModel()> import;  ///< of the file; throws Error
};

class Parts {
 public:
  virtual ~Parts() = default;
  /// The model as import_model reads it in part.
  virtual const onnx::ImportedModel& imported() const = 0;
  /// Numbers of the nodes that read something.
  virtual Items nodes() const = 0;
  /// These nodes (ascending) as a model; none where that cannot be.
  virtual std::optional<ModelPart> cut(const Items& nodes) const = 0;
};

/// The options have all sizes. Throws Error.
std::unique_ptr<Parts> parts_of(const Options& options);

}  // namespace tv::cli
