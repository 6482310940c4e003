#include "runtime/vulkan/process_state.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "runtime/base/error.h"

namespace tv {
namespace {

std::atomic<bool> forked{false};
std::atomic<bool> exiting{false};

/// Exit handlers of drivers must not run in a child: Mesa's wait for threads that only the parent
/// has, on locks that one of them may have held, and NVIDIA's disturb the parent. So those
/// registered before the fork are left out, as they are for a child of Python's multiprocessing.
void leave(int status, void*) {
  std::fflush(nullptr);
  _exit(status);
}

void mark_child() {
  if (forked.exchange(true, std::memory_order_relaxed)) return;
  on_exit(leave, nullptr);
}

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
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, mark_child); });
}

void mark_exiting() noexcept { exiting.store(true, std::memory_order_relaxed); }

}  // namespace tv
