#pragma once
// A Vulkan device and the CUDA device that is the same GPU.

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/memory.h"
#include "runtime/cuda/order.h"

namespace tv {

class CudaLink {
 public:
  /// Finds CUDA's device by its UUID, takes its primary context and tries what works. Null where
  /// the two cannot be linked: `report` says why, one line a step.
  static std::unique_ptr<CudaLink> open(Device& device, const CudaApi& cuda,
                                        std::vector<std::string>& report,
                                        CudaOrderMode mode = CudaOrderMode::kAuto);
  ~CudaLink();

  const CudaApi& cuda() const { return cuda_; }
  CuContext context() const { return context_; }
  int ordinal() const { return ordinal_; }
  CudaOrder& order() { return *order_; }
  CudaImports& imports() { return imports_; }
  /// False if every operand is to be copied (TORCH_VULKAN_CUDA=staged).
  bool imports_memory() const { return imports_memory_; }

  /// Throws Error(kDevice) while `stream` is being captured into a CUDA graph.
  void refuse_capture(CuStream stream) const;

 private:
  CudaLink(Device& device, const CudaApi& cuda, CuContext context, int ordinal);

  Device& device_;
  const CudaApi& cuda_;
  CuContext context_;
  int ordinal_;
  bool imports_memory_ = true;
  CudaImports imports_;
  std::unique_ptr<CudaOrder> order_;
};

/// The link to the same GPU's CUDA device, made at the first call; null if there is none, and
/// `cuda_report` (cuda/device.h) says why. The device owns it.
CudaLink* cuda_link(Device& device);

}  // namespace tv
