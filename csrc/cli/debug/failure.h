#pragma once
// How a model fails, so that parts of it can be asked whether they fail alike.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "csrc/cli/debug/parts.h"
#include "csrc/cli/models/tensors.h"
#include "csrc/frontends/onnx/onnx_import.h"
#include "runtime/base/error.h"
#include "runtime/vulkan/device.h"

namespace tv::cli {

class Failure {
 public:
  Failure() = default;  ///< none
  static Failure of_status(int status);
  static Failure of_error(const Error& error);
  static Failure of_result(std::string text);

  bool failed() const { return kind_ != Kind::kNone; }
  /// Whether the shell found no such command, or none that it may run.
  bool is_no_command() const { return status_ == 126 || status_ == 127; }
  /// The same exit status; both wrong results; or errors of one kind that have a line in common,
  /// apart from names, numbers and what stands in parentheses.
  bool is_like(const Failure& other) const;
  const std::string& text() const { return text_; }

 private:
  enum class Kind : uint8_t { kNone, kStatus, kError, kResult };
  Kind kind_ = Kind::kNone;
  int status_ = 0;
  ErrorKind error_ = ErrorKind::kUser;
  std::set<std::string> lines_;
  std::string text_;
};

/// Runs parts of a model on the tensors that an exact engine of all of it computes.
class PartRunner {
 public:
  PartRunner(std::shared_ptr<Device> device, Options options)
      : device_(std::move(device)), options_(std::move(options)) {}

  /// Computes every tensor of a model that was imported in part. Where that fails, parts run on
  /// random tensors, and only errors count; a warning says so.
  void compute_exactly(onnx::ImportedModel model);

  /// Builds a part as the options say, runs it, and compares its outputs with the exact ones.
  Failure failure_of(const ModelPart& part);

  /// Writes the inputs of a part, and its exact outputs, as vkexec compare --ref reads them.
  void write_tensors(const ModelPart& part, const std::string& directory) const;

 private:
  const Tensor* exact(const std::string& name) const;
  Tensors inputs_of(const onnx::ImportedModel& model) const;

  std::shared_ptr<Device> device_;
  Options options_;
  Tensors tensors_;
  std::map<std::string, std::string> names_;  ///< of tensors_, by those of the file
};

}  // namespace tv::cli
