#pragma once
// Weights as one engine uses them on its device.

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/commands/pipelines.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/stream_plan.h"
#include "runtime/engine/weight_plan.h"

namespace tv {

/// What contexts and weights need of their engine.
struct EngineParts {
  std::shared_ptr<Device> device;
  EngineSpec spec;
  std::vector<SharedPipeline> pipelines;
  GuardPlan guard;  ///< of kernels that are not trusted
  uint64_t id = 0;  ///< unique in the process
  int64_t weight_budget = kAutoWeightBudget;
};

class WeightSet {
 public:
  /// Uploads `weights` (spec order) and runs the weight program; what only that program reads is
  /// freed again. What passes the engine's budget, or the device has no memory for, is streamed.
  /// Throws Error(kUser) on a count or size that is wrong, Error(kDevice).
  WeightSet(const EngineParts& engine, std::span<const HostTensor> weights,
            WeightSource source = {});

  /// The set for weights of which those numbered in `changed` differ from `old`'s. Copies and
  /// computes what depends on them and shares the rest with `old`, which stays as it is. Off a
  /// host-pointer device, only the data of `old.plan_change(…).needed` is read.
  WeightSet(const EngineParts& engine, const WeightSet& old, std::span<const HostTensor> weights,
            std::span<const uint32_t> changed, WeightSource source = {});

  /// What a set for other bytes of the weights `changed` makes anew.
  WeightPlan plan_change(const EngineSpec& spec, std::span<const uint32_t> changed) const;

  uint64_t engine_id() const { return engine_id_; }
  uint64_t id() const { return id_; }  ///< unique in the process
  /// Address of each EngineSpec::buffers that dispatches read; 0 for the others. Of what is
  /// streamed that in host memory.
  std::span<const uint64_t> addresses() const { return addresses_; }
  /// As Engine::held_bytes.
  int64_t held_bytes() const { return memory().device; }
  WeightMemory memory() const;
  /// How weights are streamed; null where all are kept.
  const std::shared_ptr<const StreamPlan>& stream() const { return stream_; }
  /// Where a weight that is streamed is copied from.
  std::pair<VkBuffer, int64_t> host_copy(size_t buffer) const {
    return {places_[buffer].memory->buffer(), places_[buffer].offset};
  }
  /// The submission behind which all is there.
  uint64_t made_by() const { return made_by_; }
  /// Steps of the weight program that ran to make this set.
  size_t steps_run() const { return steps_run_; }

 private:
  /// Where a buffer lies: at `offset` of an allocation, or (null) nowhere or in the caller's
  /// memory.
  struct Place {
    std::shared_ptr<const Allocation> memory;
    int64_t offset = 0;
  };
  struct Making;

  void make(const EngineParts& engine, const WeightPlan& plan, const WeightSet* old,
            std::span<const HostTensor> weights, WeightSource source);
  /// The same with what is streamed already decided.
  void make_streamed(const EngineParts& engine, Making& making, const WeightSet* old);
  /// Behind an error: streams half of what was kept; false where nothing is left or may be.
  bool stream_more(const EngineParts& engine, const Making& making, std::span<const int64_t> bytes);
  void say_streamed(const EngineParts& engine) const;
  /// Where each buffer is to lie: shared with `old`, in the caller's memory, or to be placed.
  void share(Making& making, const WeightSet* old);
  void place_kept(Making& making);
  void place_temporaries(Making& making);
  /// Copies what steps from number `first` of the program on need before number `end`.
  void upload(Making& making, size_t first, size_t end);
  void run_program(const EngineParts& engine, const Making& making,
                   std::span<const uint32_t> run) const;

  std::shared_ptr<Device> device_;
  uint64_t engine_id_;
  uint64_t id_;
  size_t steps_run_ = 0;
  uint64_t made_by_ = 0;
  std::vector<uint64_t> addresses_;
  std::vector<Place> places_;
  std::vector<bool> streamed_;  ///< by buffer: it lies in host memory
  std::shared_ptr<const StreamPlan> stream_;
};

}  // namespace tv
