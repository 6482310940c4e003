#include "runtime/process_state.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "runtime/error.h"

namespace tv {
namespace {

std::atomic<bool> forked{false};
std::atomic<bool> exiting{false};

}  // namespace

bool vulkan_usable() noexcept {
  return !forked.load(std::memory_order_relaxed) && !exiting.load(std::memory_order_relaxed);
}

void require_vulkan_usable() {
  if (forked.load(std::memory_order_relaxed)) {
    throw Error(ErrorKind::kDevice,
                "[device] Vulkan was initialised before this process was forked, and a driver does "
                "not survive a fork; start workers with the 'spawn' or 'forkserver' method, or use "
                "torch_vulkan only after the fork");
  }
  if (exiting.load(std::memory_order_relaxed)) {
    throw Error(ErrorKind::kDevice, "[device] the process is exiting");
  }
}

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  });
}

void mark_exiting() noexcept { exiting.store(true, std::memory_order_relaxed); }

}  // namespace tv
