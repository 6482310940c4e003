#include "runtime/cuda/link.h"

#include "runtime/base/env.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

/// CUDA's number of the device with this UUID; -1 if there is none.
int find_device(const CudaApi& cuda, const std::string& uuid, CuDevice& device,
                std::vector<std::string>& report) {
  int count = 0;
  const CuResult counted = cuda.cuDeviceGetCount(&count);
  report.push_back("cuDeviceGetCount: " + cuda_result_name(cuda, counted) + ", " +
                   std::to_string(count));
  for (int i = 0; i < count; ++i) {
    CuUuid found{};
    if (cuda.cuDeviceGet(&device, i) != kCuSuccess) continue;
    if (cuda.cuDeviceGetUuid(&found, device) != kCuSuccess) continue;
    report.push_back("CUDA device " + std::to_string(i) + ": uuid " + uuid_text(found));
    if (uuid_text(found) == uuid) return i;
  }
  report.push_back("no CUDA device has the Vulkan device's uuid " + uuid);
  return -1;
}

}  // namespace

CudaLink::CudaLink(Device& device, const CudaApi& cuda, CuContext context, int ordinal)
    : device_(device), cuda_(cuda), context_(context), ordinal_(ordinal), imports_(device, cuda) {}

CudaLink::~CudaLink() { device_.settle(); }

std::unique_ptr<CudaLink> CudaLink::open(Device& device, const CudaApi& cuda,
                                         std::vector<std::string>& report, CudaOrderMode mode) {
  const std::string choice = env("TORCH_VULKAN_CUDA");
  if (choice == "host") {
    report.push_back("TORCH_VULKAN_CUDA=host");
    return nullptr;
  }
  if (!device.api().vkGetMemoryFdKHR) {
    report.push_back(device.profile().name + " has no VK_KHR_external_memory_fd");
    return nullptr;
  }
  CuDevice handle = 0;
  const int ordinal = find_device(cuda, device.profile().uuid, handle, report);
  if (ordinal < 0) return nullptr;
  CuContext context = nullptr;
  const CuResult result = cuda.cuDevicePrimaryCtxRetain(&context, handle);
  report.push_back("cuDevicePrimaryCtxRetain: " + cuda_result_name(cuda, result));
  if (result != kCuSuccess) return nullptr;
  const CudaScope scope(cuda, context);
  std::unique_ptr<CudaLink> link(new CudaLink(device, cuda, context, ordinal));
  link->imports_memory_ = choice != "staged";
  if (choice == "semaphores") mode = CudaOrderMode::kSemaphores;
  try {
    link->order_ = std::make_unique<CudaOrder>(device, cuda, mode);
  } catch (const Error& error) {
    report.push_back(error.what());
    return nullptr;
  }
  for (const std::string& line : link->order_->report()) report.push_back(line);
  return link;
}

void CudaLink::refuse_capture(CuStream stream) const {
  int status = 0;
  const CuResult result = cuda_.cuStreamIsCapturing(stream, &status);
  if (result == kCuSuccess && status == 0) return;
  throw Error(
      ErrorKind::kDevice,
      "[torch_vulkan::execute] a Vulkan engine cannot be captured into a CUDA graph" +
          (result == kCuSuccess ? std::string() : " (" + cuda_result_name(cuda_, result) + ")") +
          "; call it outside of the capture. Its own commands are recorded already: there "
          "is nothing that a graph would save");
}

}  // namespace tv
