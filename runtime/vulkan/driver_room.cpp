#include "runtime/vulkan/driver_room.h"

#include <pthread.h>

#include <algorithm>
#include <thread>

#include "runtime/base/room.h"

namespace tv {

size_t opening_bytes(const DeviceProfile& profile) {
  constexpr size_t kDriverBytes = size_t{256} << 20;
  if (!profile.is_cpu()) return kDriverBytes;
  constexpr size_t kMostThreads = 32;  // of lavapipe's
  pthread_attr_t attributes;
  size_t stack_bytes = size_t{8} << 20;
  if (pthread_getattr_default_np(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &stack_bytes);
    pthread_attr_destroy(&attributes);
  }
  stack_bytes = std::min(stack_bytes, size_t{64} << 20);  // more is mapped, and hardly ever used
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return kDriverBytes + 2 * std::min(cores, kMostThreads) * stack_bytes;
}

void require_pipeline_room() { require_room(kPipelineBytes, "the driver's compiler"); }

}  // namespace tv
