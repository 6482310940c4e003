#pragma once
// Weights as one engine uses them on its device.

#include <memory>
#include <span>
#include <vector>

#include "runtime/engine.h"
#include "runtime/pipelines.h"

namespace tv {

/// What contexts and weights need of their engine.
struct EngineParts {
  std::shared_ptr<Device> device;
  EngineSpec spec;
  std::vector<OwnedPipeline> pipelines;
  uint64_t id = 0;  ///< unique in the process
};

class WeightSet {
 public:
  /// Uploads `weights` (spec order) and runs the weight program; what only that program reads is
  /// freed again. Throws Error(kUser) on a count or size that is wrong, Error(kDevice).
  WeightSet(const EngineParts& engine, std::span<const HostTensor> weights);

  uint64_t engine_id() const { return engine_id_; }
  uint64_t id() const { return id_; }  ///< unique in the process
  /// Address of each EngineSpec::buffers that dispatches read; 0 for the others.
  std::span<const uint64_t> addresses() const { return addresses_; }
  /// Device bytes held: uploaded weights and results of the weight program.
  int64_t size_bytes() const;

 private:
  /// Where a buffer lies: at `offset` of an allocation, or (null) nowhere or in the caller's
  /// memory.
  struct Place {
    const Allocation* memory = nullptr;
    int64_t offset = 0;
  };

  void place_kept(const EngineSpec& spec, const std::vector<bool>& device_side);
  void place_temporaries(const EngineSpec& spec, const std::vector<bool>& device_side);
  void run_program(const EngineParts& engine) const;

  std::shared_ptr<Device> device_;
  uint64_t engine_id_;
  uint64_t id_;
  std::vector<uint64_t> addresses_;
  std::vector<std::unique_ptr<Allocation>> kept_;

  // Used while the set is made.
  std::vector<Place> places_;
  Allocation scratch_;
};

}  // namespace tv
