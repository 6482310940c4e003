#pragma once
// The torch custom class `torch_vulkan::Engine`: an engine's file as a tensor, opened on a device
// at its first use. Immutable after that but for its caches and `replace`; shared between threads.

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "python/bindings/recording/sizes.h"
#include "python/bindings/torch/weights.h"
#include "runtime/engine/engine.h"

namespace tv::torch_bindings {

class TorchEngine : public torch::CustomClassHolder {
 public:
  /// `vke`: a one-dimensional uint8 CPU tensor. `device`: as open_device() takes it. With
  /// `immutable_weights` the weights of the first call are prepared once and never checked again.
  /// With `truncate`, int64 and float64 tensors are taken where int32 and float32 are wanted.
  TorchEngine(at::Tensor vke, std::string device, bool immutable_weights, bool truncate);

  /// Runs the engine on CPU or CUDA tensors; makes whatever the engine cannot take fit. `times`: as
  /// Engine::run has it.
  std::vector<at::Tensor> execute(const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& weights, uint32_t times = 1);
  /// The inputs of a call in the engine's order: those that it writes come apart from the others.
  std::vector<at::Tensor> merged(const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& written);

  /// The program that asks, and what holds at the sizes that an engine is for (recording/sizes.h).
  struct SizesOf {
    const c10::IValue& program;
    const std::string &method, &rule;
  };
  /// Whether `execute` takes inputs of these dtypes and sizes, and all tensors are on one device,
  /// on `device` where it is given. (Numbers of the host go with tensors of any.) Opens the engine.
  /// `sizes`: of an engine for ranges of sizes.
  bool fits(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights,
            std::optional<at::Device> device, const SizesOf* sizes = nullptr);

  /// Opens the engine now rather than at its first call.
  void open();
  /// EngineOptions::weight_budget; an engine that is open is opened again by its next call.
  void set_weight_budget(int64_t budget);
  int64_t weight_budget() const;
  /// Of the sets of weights that it keeps: bytes on the device, in host memory, and of slots.
  std::vector<int64_t> weight_memory();
  /// Takes another engine of the same graph in place of this one, which was built with other
  /// tactics: from now on calls use `vke`; those under way end with what they began with. Weights
  /// are prepared for it by the next call, from the tensors as they are then. Throws ValueError
  /// where inputs, outputs, weights or sizes are others; on an error nothing has changed.
  void replace(at::Tensor vke);
  /// Prepares `weights` (in the engine's order) now, reading only what changed since the last call.
  /// Positions in `changed` count as changed though torch cannot see it (a write through `.data`).
  /// On an error the older weights stand. Throws ValueError with immutable weights.
  void refit(const std::vector<at::Tensor>& weights, const std::vector<int64_t>& changed);
  /// As `refit`, for a change that is still to be made: what the engine computes from the new
  /// values is made now and taken into use by `commit`, after the weights were given these values.
  /// Returns a number for it. On an error, and until then, nothing has changed.
  int64_t stage(const std::vector<at::Tensor>& weights, const WeightChange& change);
  void commit(int64_t staged, const std::vector<at::Tensor>& weights);
  void discard(int64_t staged);
  /// Forgets prepared weights: the next call prepares them again.
  void forget_weights();
  int64_t weight_sets();
  /// Sets of weights that were prepared since the engine was opened.
  int64_t weights_prepared();

  /// Command buffers that its calls have handed to the device.
  int64_t submissions();
  /// Kernel launches of one call.
  int64_t dispatches();

  /// What tracing has to know: inputs, outputs and the number of symbols, as JSON. Tracers replace
  /// the tensors of an object by empty ones, so the file itself does not reach them.
  std::string description() const;

  at::Tensor vke() const;
  const std::string& device() const { return device_; }
  bool immutable_weights() const { return immutable_weights_; }
  bool truncate() const { return truncate_; }

 private:
  /// What a call needs to know of the shapes it was given; made once per set of shapes.
  struct ShapePlan;
  std::shared_ptr<script::SizeCheck> size_check(const SizesOf& sizes);
  /// One engine of the file: there is one for each shape profile.
  struct Part {
    Part(at::Tensor vke, std::shared_ptr<Engine> opened, bool immutable_weights, bool truncate)
        : file(std::move(vke)), engine(std::move(opened)), weights(immutable_weights, truncate) {}
    at::Tensor file;  ///< a view of the whole
    std::shared_ptr<Engine> engine;
    WeightCache weights;
  };
  using Parts = std::vector<std::unique_ptr<Part>>;
  /// The parts, opened at the first call and again where their device was lost since. Throws
  /// DeviceLostError where that did not help.
  std::shared_ptr<const Parts> parts();
  std::shared_ptr<const Parts> open_parts(const at::Tensor& vke, int64_t budget) const;
  static void check_same_border(const Parts& old, const Parts& other);
  /// A call's tensors, and how often its dispatches run.
  struct Operands {
    const std::vector<at::Tensor>&inputs, &weights;
    uint32_t times = 1;
  };
  std::vector<at::Tensor> run(const std::shared_ptr<const Parts>& parts, const Operands& call);
  std::shared_ptr<const ShapePlan> plan_for(const std::shared_ptr<const Parts>& parts,
                                            const std::vector<at::Tensor>& inputs);
  static std::shared_ptr<const ShapePlan> make_plan(const std::shared_ptr<const Parts>& parts,
                                                    const std::vector<at::Tensor>& inputs);
  /// What `stage` made, by part; null: prepared when a call needs it.
  struct Staged {
    std::shared_ptr<const Parts> parts;
    std::vector<WeightCache::EntryPtr> entries;
  };
  /// `device` where it is CUDA's and the engine's own GPU.
  static std::optional<at::Device> shared_cuda_device(const Parts& parts, at::Device device);
  /// Runs layer by layer and hands the times to whoever listens (profile.h).
  void time_layers(const ShapePlan& plan, const Operands& call, at::Device device, int64_t runs);
  static std::vector<at::Tensor> empty_outputs(const ShapePlan& plan, at::Device device);
  std::vector<at::Tensor> on_host(const ShapePlan& plan, const Operands& call, at::Device device);
  std::vector<at::Tensor> on_cuda(const ShapePlan& plan, const Operands& call, at::Device device);

  std::string device_;
  bool immutable_weights_, truncate_;
  mutable std::mutex mutex_;  ///< of what follows
  at::Tensor vke_;
  std::shared_ptr<const Parts> parts_;
  std::shared_ptr<const ShapePlan> plan_;  ///< of the last call
  std::shared_ptr<script::SizeCheck> size_check_;
  std::map<int64_t, Staged> staged_;
  int64_t next_staged_ = 0;
  int64_t weight_budget_ = kAutoWeightBudget;
  std::atomic<int> unproven_ = 0;  ///< times that it was opened since a call worked
};

}  // namespace tv::torch_bindings
