#pragma once
// Weights as one engine uses them on its device.

#include <memory>
#include <span>
#include <vector>

#include "runtime/commands/pipelines.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/weight_plan.h"

namespace tv {

/// What contexts and weights need of their engine.
struct EngineParts {
  std::shared_ptr<Device> device;
  EngineSpec spec;
  std::vector<SharedPipeline> pipelines;
  GuardPlan guard;  ///< of kernels that are not trusted
  uint64_t id = 0;  ///< unique in the process
};

class WeightSet {
 public:
  /// Uploads `weights` (spec order) and runs the weight program; what only that program reads is
  /// freed again. Throws Error(kUser) on a count or size that is wrong, Error(kDevice).
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
  /// Address of each EngineSpec::buffers that dispatches read; 0 for the others.
  std::span<const uint64_t> addresses() const { return addresses_; }
  /// As Engine::held_bytes.
  int64_t held_bytes() const;
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
  void place_kept(Making& making);
  void place_temporaries(Making& making);
  void run_program(const EngineParts& engine, const Making& making) const;

  std::shared_ptr<Device> device_;
  uint64_t engine_id_;
  uint64_t id_;
  size_t steps_run_ = 0;
  std::vector<uint64_t> addresses_;
  std::vector<Place> places_;
};

}  // namespace tv
