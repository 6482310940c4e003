#pragma once
// Internals of Engine, for the runtime's own tests.

#include <mutex>

#include "runtime/engine/context.h"

namespace tv {

class EngineImpl final : public Engine {
 public:
  EngineImpl(std::shared_ptr<Device> device, EngineSpec spec, EngineOptions options = {});
  ~EngineImpl() override = default;

  const EngineSpec& spec() const override { return parts_.spec; }
  const std::shared_ptr<Device>& device() const override { return parts_.device; }
  std::vector<int64_t> bind_shapes(
      std::span<const std::vector<int64_t>> input_shapes) const override;
  std::shared_ptr<const WeightSet> prepare_weights(std::span<const HostTensor> weights,
                                                   WeightSource source = {}) const override;
  std::vector<bool> weights_in_place() const override;
  std::shared_ptr<const WeightSet> update_weights(const WeightSet& old,
                                                  std::span<const HostTensor> weights,
                                                  std::span<const uint32_t> changed,
                                                  WeightSource source = {}) const override;
  std::vector<bool> weights_read(const WeightSet& old,
                                 std::span<const uint32_t> changed) const override;
  int64_t held_bytes(const WeightSet& weights) const override;
  WeightMemory weight_memory(const WeightSet& weights) const override;
  void run(const WeightSet& weights, std::span<const int64_t> symbols,
           std::span<const HostTensor> inputs, std::span<const HostTensor> outputs,
           uint32_t times = 1) override;
  std::vector<DispatchTime> time_dispatches(const WeightSet& weights,
                                            std::span<const int64_t> symbols,
                                            std::span<const HostTensor> inputs,
                                            std::span<const HostTensor> outputs, int runs) override;
  int cuda_device() override;
  int run_on_cuda(std::shared_ptr<const WeightSet> weights, std::span<const int64_t> symbols,
                  std::span<const CudaTensor> inputs, std::span<const CudaTensor> outputs,
                  void* stream, uint32_t times = 1) override;
  /// The same over a link that is not the device's own.
  int run_on_cuda(std::shared_ptr<const WeightSet> weights, std::span<const int64_t> symbols,
                  std::span<const CudaTensor> inputs, std::span<const CudaTensor> outputs,
                  CudaLink& link, void* stream, uint32_t times = 1);
  int64_t arena_bytes(std::span<const int64_t> symbols) const override;

  EngineStats stats() const override;
  /// The faults that the hazard check finds in the recording of the last run.
  std::vector<std::string> faults_of_last_recording() const;
  /// Submissions that the recording of the last run is handed over in.
  size_t submissions_of_last_recording() const;
  /// Barriers that the encoder places for these symbols.
  int64_t barriers(std::span<const int64_t> symbols) const;

  const EngineParts& parts() const { return parts_; }
  /// Throws Error(kInternal) where `weights` are another engine's.
  void check_owner(const WeightSet& weights) const;

 private:
  /// One that nothing uses: for CUDA one of that stream's, whose order keeps calls apart.
  std::unique_ptr<Context> take_context(ContextKey key = {});
  void give_back(std::unique_ptr<Context> context);

  EngineParts parts_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Context>> idle_;  // the last one given back is taken first
  EngineStats stats_;
};

}  // namespace tv
