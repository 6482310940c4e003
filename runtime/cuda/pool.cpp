// Vulkan's memory as a CUDA allocator, with the two functions that torch's pluggable allocators
// have (torch.cuda.memory.CUDAPluggableAllocator). They are called by torch alone.

#include <sys/types.h>

#include "runtime/base/error.h"
#include "runtime/cuda/link.h"
#include "runtime/vulkan/device.h"
#include "runtime/vulkan/device_impl.h"

namespace tv {
namespace {

/// The link to CUDA's device `ordinal`; null if there is none.
CudaLink* link_of(int ordinal) {
  const CudaApi* cuda = cuda_api();
  CuDevice handle = 0;
  CuUuid uuid{};
  if (!cuda || cuda->cuDeviceGet(&handle, ordinal) != kCuSuccess ||
      cuda->cuDeviceGetUuid(&uuid, handle) != kCuSuccess) {
    return nullptr;
  }
  try {
    return cuda_link(*open_device(uuid_text(uuid)));
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace
}  // namespace tv

extern "C" {

/// Null where there is no memory, which torch reports.
void* tv_cuda_allocate(ssize_t size_bytes, int device, void* /*stream*/) {
  tv::CudaLink* link = tv::link_of(device);
  if (!link || size_bytes <= 0) return nullptr;
  const tv::CudaScope scope(link->cuda(), link->context());
  return reinterpret_cast<void*>(link->imports().allocate(size_bytes));
}

void tv_cuda_free(void* address, ssize_t /*size_bytes*/, int device, void* /*stream*/) {
  tv::CudaLink* link = tv::link_of(device);
  if (!link || !address) return;
  const tv::CudaScope scope(link->cuda(), link->context());
  link->imports().free(reinterpret_cast<tv::CuDevicePtr>(address));
}
}
