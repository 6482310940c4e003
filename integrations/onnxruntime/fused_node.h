#pragma once
// A node of the session that an engine computes.

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "integrations/onnxruntime/ort.h"
#include "integrations/onnxruntime/profiler.h"
#include "integrations/onnxruntime/sizes.h"
#include "integrations/onnxruntime/wiring.h"
#include "runtime/engine/engine.h"

namespace tv::ort {

/// An engine and the weights that it runs with.
struct BuiltEngine {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const WeightSet> weights;
  std::vector<std::shared_ptr<const void>> memory;  ///< of weights that calls read in place
};

/// An engine's specification, and its weights in the specification's order.
struct CompiledBlock {
  EngineSpec spec;
  std::vector<onnx::WeightBytes> weights;
  /// Their bytes outlive the engine, as long as their owners are kept.
  bool weights_stay = false;
};

/// Compiles a block, or takes its engine from the cache. `model` has its weights.
CompiledBlock compile_block(const Block& block, const DeviceProfile& device,
                            const Settings& settings, const CacheSettings& cache,
                            const onnx::ImportedModel& model);

/// Makes it ready to run; the bytes of the weights may go then.
BuiltEngine load_engine(const std::shared_ptr<Device>& device, CompiledBlock compiled,
                        int64_t weight_budget);

/// What the runtime calls for a fused node. Any number of threads may.
class Computation : public OrtNodeComputeInfo {
 public:
  Computation();
  virtual ~Computation() = default;
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;
  /// Reads inputs and writes outputs of the context. Throws Error.
  virtual void run(OrtKernelContext* context) = 0;
};

/// `built` has no engine where the wiring needs none.
class FusedNode : public Computation {
 public:
  FusedNode(Wiring wiring, BuiltEngine built, std::shared_ptr<LayerLog> layers);
  void run(OrtKernelContext* context) override;

 private:
  using Sizes = std::vector<int64_t>;
  struct Input {
    const uint8_t* data = nullptr;
    int32_t type = 0;  ///< TensorProto.DataType
    Sizes shape;
  };
  /// What follows from the sizes of a call.
  struct Bound {
    Sizes key;
    std::vector<int64_t> symbols;  ///< the engine's
    std::vector<Sizes> shapes;     ///< of outputs
    std::vector<Sizes> numbers;    ///< of outputs that are computed from sizes
    std::vector<int64_t> input_bytes, output_bytes;
    std::shared_ptr<uint8_t> no_elements;  ///< memory for inputs of which only the sizes count
  };

  void run_engine(const Bound& bound, const std::vector<HostTensor>& reads,
                  const std::vector<HostTensor>& writes) const;
  static bool overlaps_one_of(const std::vector<Input>& inputs, const uint8_t* memory,
                              int64_t size);
  std::vector<Input> read_inputs(OrtKernelContext* context) const;
  Sizes key_of(const std::vector<Input>& inputs) const;
  std::shared_ptr<const Bound> bound_to(const std::vector<Input>& inputs);
  Bound bind(const std::vector<Input>& inputs, Sizes key) const;
  Known known_from(const std::vector<Input>& inputs) const;
  void bind_outputs(const std::vector<Input>& inputs, const Known& known, Bound& bound) const;
  int64_t number_at(size_t input, const Input& from, size_t element) const;
  static void write_numbers(const FusedOutput& output, const Sizes& ints, uint8_t* into);

  const Wiring wiring_;
  const BuiltEngine built_;
  const std::shared_ptr<LayerLog> layers_;
  std::mutex mutex_;
  std::shared_ptr<const Bound> last_;
};

}  // namespace tv::ort
