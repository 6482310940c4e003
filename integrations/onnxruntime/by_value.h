#pragma once
// Models with inputs that set shapes: an engine for each of their values.

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/cache/cache_settings.h"
#include "csrc/division/groups.h"
#include "integrations/onnxruntime/fused_node.h"

namespace tv::ort {

/// Computes a model by the values of inputs. Engines are built when a value first comes, and the
/// one that was used least recently makes room for another; runs that are under way keep theirs.
class ValueNode : public Computation {
 public:
  struct Source {
    onnx::DivisionRequest request;  ///< names the inputs, and has the bytes of the model's weights
    std::shared_ptr<Device> device;
    Settings settings;
    CacheSettings cache;
    std::vector<std::string> inputs, outputs;  ///< of the fused node
    std::vector<int32_t> types;                ///< of outputs, TensorProto.DataType
    size_t most = 1;                           ///< engines
    std::shared_ptr<LayerLog> layers;
  };
  explicit ValueNode(Source source) : source_(std::move(source)) {}
  void run(OrtKernelContext* context) override;

 private:
  /// What an engine is built for: values and, where they fit none for all sizes, those of a call.
  struct Call {
    std::map<std::string, onnx::ConstantInput> values;
    std::map<std::string, std::vector<int64_t>> sizes;
    bool operator==(const Call& other) const;
  };
  struct Entry {
    Call call;
    std::mutex building;
    std::shared_ptr<FusedNode> node;  ///< null until it is built
  };

  Call read_call(OrtKernelContext* context) const;
  std::shared_ptr<Entry> entry_of(const Call& call);
  void forget(const std::shared_ptr<Entry>& entry);
  std::shared_ptr<FusedNode> node_of(const Call& call);
  std::shared_ptr<FusedNode> node_for(const Call& call);
  std::shared_ptr<FusedNode> build(const Call& call) const;
  bool is_sized(const Call& any_size);
  void note_sized(const Call& any_size);

  const Source source_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;  ///< the one that was used last first
  std::list<Call> sized_;  ///< values that need an engine for each size, as far as remembered
};

}  // namespace tv::ort
