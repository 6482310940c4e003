#include "runtime/base/debug.h"

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "runtime/base/env.h"

namespace tv {
namespace {

DebugModes modes_from_environment() {
  DebugModes modes;
  modes.poison_arena = env_flag("TORCH_VULKAN_POISON_ARENA");
  modes.full_barriers = env_flag("TORCH_VULKAN_FULL_BARRIERS");
  modes.check_hazards = env_flag("TORCH_VULKAN_CHECK_HAZARDS");
  modes.own_pipelines = env_flag("TORCH_VULKAN_OWN_PIPELINES");
  const std::string removed = env("TORCH_VULKAN_REMOVE_BARRIER");
  if (!removed.empty()) modes.remove_barrier = std::strtoll(removed.c_str(), nullptr, 10);
  const std::string submit_us = env("TORCH_VULKAN_SUBMIT_US");
  if (!submit_us.empty()) modes.submit_us = std::strtoll(submit_us.c_str(), nullptr, 10);
  const std::string device_bytes = env("TORCH_VULKAN_DEVICE_BYTES");
  if (!device_bytes.empty()) modes.device_bytes = std::strtoll(device_bytes.c_str(), nullptr, 10);
  return modes;
}

struct State {
  std::mutex mutex;
  DebugModes modes = modes_from_environment();
};

State& state() {
  static State state;
  return state;
}

std::atomic<uint64_t> generation{1};

}  // namespace

DebugModes debug_modes() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.modes;
}

void set_debug_modes(const DebugModes& modes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.modes = modes;
  generation.fetch_add(1, std::memory_order_release);
}

bool loses_device() {
  static const std::string when = env("TORCH_VULKAN_LOSE_DEVICE");
  static const bool stays = when.ends_with('+');
  static std::atomic<int64_t> left{std::strtoll(when.c_str(), nullptr, 10)};
  const int64_t now = left.load(std::memory_order_relaxed);
  if (now <= 0) return false;
  if (stays && now == 1) return true;
  return left.fetch_sub(1) == 1;
}

uint64_t debug_generation() { return generation.load(std::memory_order_acquire); }

}  // namespace tv
