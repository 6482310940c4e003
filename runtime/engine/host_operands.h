#pragma once
// A caller's tensors in host memory, as kernels reach them.

#include <span>
#include <vector>

#include "runtime/engine/host_tensors.h"
#include "runtime/engine/shape_plan.h"
#include "runtime/vulkan/scratch_pool.h"

namespace tv {

/// Where a host pointer is a device address, tensors are used in place, or through an aligned
/// stand-in (a bounce) if they lie otherwise or come in pieces. Elsewhere they go through staging
/// memory to copies in the arena, and results back; DeviceTensors are used where they are.
class HostOperands {
 public:
  explicit HostOperands(const EngineParts& parts);

  /// Borrows memory for staging, where there is any, until `give_back`.
  void borrow(const ShapePlan& plan, const CallStream& stream);
  void give_back() noexcept;
  /// Whether the last call that was bound writes over an input where the caller keeps it.
  bool writes_in_place() const;
  /// Numbers of the memory that is lent, so that a recording knows that it is stale.
  uint64_t upload_id() const { return upload_.id(); }
  uint64_t readback_id() const { return readback_.id(); }
  /// Copies what kernels cannot read in place; `bound` becomes the addresses of inputs, then
  /// outputs.
  void bind(const HostTensors& inputs, const HostTensors& outputs, const ShapePlan& plan,
            uint64_t arena, std::vector<uint64_t>& bound);
  /// Records the copies from staging memory to the arena; false if there are none.
  bool record_copies_in(VkCommandBuffer commands, const ShapePlan& plan, const Allocation& arena);
  /// Records the copies back and what makes results visible to the host.
  void record_copies_out(VkCommandBuffer commands, const ShapePlan& plan, const Allocation& arena);
  /// After the run: hands the caller what is not in its memory yet.
  void read_results(const HostTensors& inputs, const HostTensors& outputs, const ShapePlan& plan,
                    std::span<const uint64_t> bound);

 private:
  /// The address that kernels get for a tensor, where a host pointer is one.
  uint64_t address_of(const HostTensors& tensors, size_t i, size_t slot);
  /// `bind` where tensors are copied.
  void stage(const HostTensors& inputs, const HostTensors& outputs, const ShapePlan& plan,
             uint64_t arena, std::vector<uint64_t>& bound);

  const EngineParts& parts_;
  Device& device_;
  ScratchUser upload_, readback_;
  std::vector<Allocation> bounces_;  ///< by input then output
  std::vector<bool> on_device_;      ///< of the last call, by input then output: nothing is copied
};

}  // namespace tv
