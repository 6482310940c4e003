#pragma once
// Weights as one engine uses them on its device.

#include <memory>
#include <span>
#include <vector>

#include "runtime/engine.h"
#include "runtime/pipelines.h"

namespace tv {

class WeightSet {
 public:
  /// Uploads `weights` (spec order) and runs the weight program; what only that program reads is
  /// freed again. Throws Error(kUser) on a count or size that is wrong, Error(kDevice).
  WeightSet(std::shared_ptr<Device> device, const EngineSpec& spec,
            const std::vector<OwnedPipeline>& pipelines, std::span<const HostTensor> weights);

  uint64_t id() const { return id_; }  ///< unique in the process
  const EngineSpec* spec() const { return spec_; }
  /// Address of each EngineSpec::buffers that dispatches read; 0 for the others.
  std::span<const uint64_t> addresses() const { return addresses_; }
  /// Device bytes held: uploaded weights and results of the weight program.
  int64_t size_bytes() const;

 private:
  void place_weights(std::span<const HostTensor> weights);
  void run_program(const std::vector<OwnedPipeline>& pipelines);
  std::vector<bool> read_by_dispatches() const;

  std::shared_ptr<Device> device_;
  const EngineSpec* spec_;
  uint64_t id_;
  std::vector<uint64_t> addresses_;
  std::vector<Allocation> allocations_;  ///< by buffer; empty where there is none
};

}  // namespace tv
