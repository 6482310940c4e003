#include "runtime/cuda/device.h"

#include "runtime/cuda/link.h"

namespace tv {
namespace {

struct CudaOfDevice final : DeviceCompanion {
  std::unique_ptr<CudaLink> link;
  std::vector<std::string> report;
};

std::unique_ptr<DeviceCompanion> look_for_cuda(Device& device) {
  auto found = std::make_unique<CudaOfDevice>();
  std::string reason;
  if (const CudaApi* cuda = cuda_api(&reason)) {
    found->link = CudaLink::open(device, *cuda, found->report);
  } else {
    found->report.push_back(reason);
  }
  return found;
}

const CudaOfDevice& cuda_of(Device& device) {
  return static_cast<CudaOfDevice&>(device.companion([&] { return look_for_cuda(device); }));
}

}  // namespace

CudaLink* cuda_link(Device& device) { return cuda_of(device).link.get(); }

std::vector<std::string> cuda_report(Device& device) { return cuda_of(device).report; }

bool cuda_finds(Device& device, uint64_t address, int64_t size_bytes) {
  CudaLink* link = cuda_link(device);
  if (!link) return false;
  const CudaScope scope(link->cuda(), link->context());
  return link->imports_memory() && link->imports().find(address, size_bytes) != 0;
}

CudaCounts cuda_counts(Device& device) {
  CudaLink* link = cuda_link(device);
  if (!link) return {};
  const CudaOrder::Counts order = link->order().counts();
  return {order.idle, order.polled, order.semaphores, link->imports().chunks()};
}

}  // namespace tv
