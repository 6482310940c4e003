#include "csrc/cli/debug/parts.h"

#include "csrc/cli/models/build.h"
#include "csrc/cli/models/graph_model.h"
#include "csrc/frontends/graph_file/graph_parts.h"
#include "csrc/frontends/onnx/model_parts.h"

namespace tv::cli {
namespace {

class OnnxParts : public Parts {
 public:
  explicit OnnxParts(const Options& options)
      : parts_(options.onnx, import_options(options, /*partial=*/true)) {}

  const onnx::ImportedModel& imported() const override { return parts_.imported(); }
  Items nodes() const override { return parts_.nodes(); }
  std::optional<ModelPart> cut(const Items& nodes) const override {
    std::optional<std::vector<uint8_t>> file = parts_.cut(nodes);
    if (!file) return std::nullopt;
    const auto bytes = std::make_shared<const std::vector<uint8_t>>(*file);
    return ModelPart{std::move(*file), [bytes] { return onnx::import_bytes(*bytes); }};
  }

 private:
  onnx::ModelParts parts_;
};

class PartsOfGraph : public Parts {
 public:
  explicit PartsOfGraph(const graph_file::Model& model)
      : parts_(model), imported_(as_import(model)) {}

  const onnx::ImportedModel& imported() const override { return imported_; }
  Items nodes() const override { return parts_.nodes(); }
  std::optional<ModelPart> cut(const Items& nodes) const override {
    if (nodes.empty()) return std::nullopt;
    const graph_file::Model part = parts_.cut(nodes);
    if (part.graph.outputs.empty()) return std::nullopt;
    return ModelPart{graph_file::file_of(part), [part] { return as_import(part); }};
  }

 private:
  graph_file::GraphParts parts_;
  onnx::ImportedModel imported_;
};

}  // namespace

std::unique_ptr<Parts> parts_of(const Options& options) {
  if (options.graph.empty()) return std::make_unique<OnnxParts>(options);
  return std::make_unique<PartsOfGraph>(graph_model(options));
}

}  // namespace tv::cli
