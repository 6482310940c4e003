#pragma once
// The execution provider of one session.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "csrc/division/groups.h"
#include "integrations/onnxruntime/context.h"
#include "integrations/onnxruntime/fused_node.h"
#include "integrations/onnxruntime/graph_model.h"
#include "integrations/onnxruntime/options.h"
#include "integrations/onnxruntime/ort.h"
#include "integrations/onnxruntime/profiler.h"
#include "integrations/onnxruntime/weight_source.h"
#include "runtime/vulkan/device.h"

namespace tv::ort {

class Provider : public EpOfApi25 {
 public:
  Provider(Options options, std::shared_ptr<Device> device, const OrtLogger* logger);

 private:
  /// A graph that was asked about, until its groups are compiled.
  struct Asked {
    onnx::GroupedDivision division;
    std::shared_ptr<Elements> elements;
    std::optional<WeightSource> weights;  ///< of contexts without weights
    /// Why nothing is compiled: of an error in tell_capability the runtime would say nothing, and
    /// go on without this provider.
    std::optional<Error> refusal;
    /// Of a model that is built for values of inputs: what their trial was. It has no context.
    std::optional<onnx::DivisionRequest> by_value;
  };
  struct Place {
    std::shared_ptr<Asked> asked;
    size_t group = 0;
  };

  /// What is handed to the runtime for a fused node.
  struct Made {
    std::unique_ptr<Computation> node;
    Ort::Node context{nullptr};  ///< of an EPContext model, where one is asked for
  };

  void tell_capability(const OrtGraph* graph, OrtEpGraphSupportInfo* info);
  /// Takes one node, which compile refuses with the error.
  void refuse_in_compile(const GraphModel& read, const Error& error, OrtEpGraphSupportInfo* info);
  onnx::DivisionRequest request_for(const GraphModel& read) const;
  /// Where int8 has no scales for the model, or not its own, the model stays in floats, with a
  /// warning.
  void settle_int8(const onnx::DivisionRequest& request);
  /// Divides the model for values of inputs where that lets all of it be one engine.
  void try_values(const GraphModel& read, const onnx::DivisionRequest& request, Asked& asked) const;
  /// Takes the graph's EPContext nodes of this provider.
  void take_contexts(const GraphModel& read, OrtEpGraphSupportInfo* info);
  Made compile(const Ort::ConstGraph& graph, const Ort::ConstNode& fused);
  Made load_context(const Ort::ConstGraph& graph, const Ort::ConstNode& context,
                    const Ort::ConstNode& fused);
  /// Looks for the weights, which contexts are to be written without, in the model's file.
  void find_weights(const Ort::ConstGraph& graph, const GraphModel& read, Asked& asked);
  /// The path of the model that has the weights of a context without them.
  std::string model_of_weights(const Ort::ConstGraph& graph, const Ort::ConstNode& context) const;
  /// Adds the weights that a context leaves to its model.
  void add_weights(const Ort::ConstGraph& graph, const Ort::ConstNode& context, Context& loaded);
  const SourceModel& source_model(const std::string& path);
  /// `model`: the file name of the one that has the weights; "": the data has them.
  Ort::Node context_node(const Ort::ConstGraph& graph, const Ort::ConstNode& fused,
                         const std::string& data, const std::string& model) const;
  void report(const onnx::GroupedDivision& division) const;
  OrtLoggingLevel about_others() const {
    return options_.detailed_log ? ORT_LOGGING_LEVEL_WARNING : ORT_LOGGING_LEVEL_INFO;
  }
  void log(OrtLoggingLevel level, const std::string& message) const;

  Options options_;
  bool int8_settled_ = false;
  const std::shared_ptr<Device> device_;
  const OrtLogger* logger_;
  const std::shared_ptr<LayerLog> layers_ = std::make_shared<LayerLog>();
  const std::string compatibility_;  ///< of contexts that are made here
  /// By the names that a group's nodes write; until they are compiled.
  std::map<std::string, Place> by_result_;
  std::map<std::string, SourceModel> sources_;  ///< by path, likewise; "": model_bytes
};

}  // namespace tv::ort
