#pragma once
// ONNX Runtime's graph as the model that the ONNX frontend imports. Initializers stay where they
// are: the importer asks for their bytes by name.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "csrc/frontends/onnx/file/model.h"
#include "csrc/frontends/onnx/onnx_import.h"
#include "integrations/onnxruntime/ort.h"

namespace tv::ort {

/// The initializers of graphs that the runtime is showing.
class Elements {
 public:
  /// Adds those of a graph. They are valid as long as the call that got it.
  void show(const Ort::ConstGraph& graph);
  void hide() { known_.clear(); }
  /// Copies those that are shown; they stay.
  void keep();
  /// Throws Error(kInternal) for one that is not shown.
  onnx::WeightBytes of(const std::string& name) const;

 private:
  std::map<std::string, std::span<const uint8_t>> known_;
  std::map<std::string, onnx::WeightBytes> kept_;
};

/// Shows a graph's initializers as long as it lives.
class Shown {
 public:
  Shown(Elements& elements, const Ort::ConstGraph& graph) : elements_(elements) {
    elements.show(graph);
  }
  ~Shown() { elements_.hide(); }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;

 private:
  Elements& elements_;
};

struct GraphModel {
  std::shared_ptr<const onnx::Model> model;
  std::shared_ptr<Elements> elements;
  std::vector<const OrtNode*> nodes;        ///< as the model numbers them
  std::map<int32_t, std::string> left_out;  ///< nodes that others have, or that cannot be read
};

/// A graph that is not a node's body; its initializers are not shown.
GraphModel read_graph(const Ort::ConstGraph& graph);

}  // namespace tv::ort
