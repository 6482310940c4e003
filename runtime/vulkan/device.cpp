#include "runtime/vulkan/device.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <map>

#include "runtime/base/debug.h"
#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/base/room.h"
#include "runtime/vulkan/device_impl.h"
#include "runtime/vulkan/device_lost.h"
#include "runtime/vulkan/driver_room.h"
#include "runtime/vulkan/process_state.h"

namespace tv {
namespace {

bool is_out_of_memory(VkResult result) {
  return result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY;
}

/// Devices that this process opened, by index into Instance::devices().
struct OpenDevices {
  std::mutex mutex;
  std::map<size_t, std::shared_ptr<Device>> devices;
};

OpenDevices& open_devices() {
  // Never freed by a static destructor, which might run after the driver's own; `close_devices`
  // does.
  static OpenDevices* open = new OpenDevices();
  return *open;
}

/// Runs before the driver's exit handlers, because it is registered after the driver was loaded.
void close_devices() {
  if (!vulkan_usable()) return;
  OpenDevices& open = open_devices();
  bool all_closed = true;
  {
    const std::lock_guard lock(open.mutex);
    for (auto& [index, device] : open.devices) {
      all_closed = all_closed && device.use_count() == 1;
      device->wait_idle();
      device.reset();
    }
    open.devices.clear();
  }
  if (all_closed) Instance::get().destroy();
  mark_exiting();  // what engines still hold is abandoned to the system
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string describe_all(const std::vector<PhysicalDevice>& devices) {
  std::string text;
  for (size_t i = 0; i < devices.size(); ++i) {
    text += (i ? ", " : "") + ("device " + std::to_string(i)) + ": " + devices[i].profile.name +
            " (uuid " + devices[i].profile.uuid + ")";
  }
  return text;
}

bool is_index(const std::string& spec) {
  return !spec.empty() && spec.size() < 6 &&
         std::all_of(spec.begin(), spec.end(), [](unsigned char c) { return std::isdigit(c); });
}

std::string without_dashes(const std::string& text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out), [](char c) { return c != '-'; });
  return out;
}

size_t choose(const std::vector<PhysicalDevice>& devices, const std::string& spec) {
  if (spec.empty()) return 0;
  const std::string wanted = lower(spec);
  if (is_index(spec)) {
    const size_t index = std::stoul(spec);
    if (index < devices.size()) return index;
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].profile.uuid == without_dashes(wanted)) return i;
  }
  if (!is_index(spec)) {
    std::vector<size_t> matches;
    for (size_t i = 0; i < devices.size(); ++i) {
      if (lower(devices[i].profile.name).find(wanted) != std::string::npos) matches.push_back(i);
    }
    const bool same_model = std::all_of(matches.begin(), matches.end(), [&](size_t i) {
      return devices[i].profile.name == devices[matches[0]].profile.name;
    });
    if (!matches.empty() && same_model) return matches[0];
    if (!matches.empty()) {
      throw Error(ErrorKind::kUser, "[device] \"" + spec +
                                        "\" names more than one device; this machine has " +
                                        describe_all(devices));
    }
  }
  throw Error(ErrorKind::kUser, "[device] there is no device \"" + spec + "\"; this machine has " +
                                    describe_all(devices) +
                                    ". Give a number, a part of a name, or a UUID");
}

}  // namespace

std::vector<DeviceProfile> list_devices() {
  std::vector<DeviceProfile> profiles;
  for (const PhysicalDevice& d : Instance::get().devices()) profiles.push_back(d.profile);
  return profiles;
}

std::shared_ptr<Device> open_device(const std::string& named) {
  const std::string spec = named.empty() ? env("TORCH_VULKAN_DEVICE") : named;
  const std::vector<PhysicalDevice>& devices = Instance::get().devices();
  const size_t index = choose(devices, spec);
  OpenDevices& open = open_devices();
  const std::lock_guard lock(open.mutex);
  std::shared_ptr<Device>& device = open.devices[index];
  if (!device || device->lost()) {
    require_room(opening_bytes(devices[index].profile), "opening " + devices[index].profile.name);
    device = std::make_shared<Device>(devices[index]);
    static const int registered = std::atexit(close_devices);
    (void)registered;
  }
  return device;
}

const DeviceProfile& profile(const Device& device) { return device.profile(); }

bool is_lost(const Device& device) { return device.lost(); }

Device::Device(const PhysicalDevice& physical) : physical_(physical) {
  const InstanceApi& instance = Instance::get().api();
  FeatureChain offered(physical.extensions);
  instance.vkGetPhysicalDeviceFeatures2(physical.handle, &offered.core);
  FeatureChain enabled(physical.extensions);
  enable_features(offered, enabled);

  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queues[2] = {};
  for (VkDeviceQueueCreateInfo& queue : queues) {
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
  }
  queues[0].queueFamilyIndex = physical.queue_family;
  queues[1].queueFamilyIndex = physical.transfer_family.value_or(0);
  std::vector<const char*> extensions;
  for (const std::string& e : physical.extensions) extensions.push_back(e.c_str());
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &enabled.core;
  info.queueCreateInfoCount = physical.transfer_family ? 2 : 1;
  info.pQueueCreateInfos = queues;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VkDevice device = VK_NULL_HANDLE;
  check(instance.vkCreateDevice(physical.handle, &info, nullptr, &device), "device");
  api_ = load_device_api(instance, device);
  api_.vkGetDeviceQueue(device, physical.queue_family, 0, &queue_);
  if (physical.transfer_family)
    api_.vkGetDeviceQueue(device, *physical.transfer_family, 0, &transfer_queue_);

  const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &push;
  VkPipelineLayout handle = VK_NULL_HANDLE;
  check(api_.vkCreatePipelineLayout(device, &layout, nullptr, &handle), "device");
  layout_ = OwnedPipelineLayout(api_, handle);
  timeline_ = make_timeline();
  copied_ = make_timeline();
  computed_ = make_timeline();
}

Device::~Device() {
  if (!api_.device || !vulkan_usable()) return;
  wait_idle();
  companion_.reset();
  pipelines_.clear();
  free_idle_scratch();
  timeline_.reset();
  copied_.reset();
  computed_.reset();
  layout_.reset();
  api_.vkDestroyDevice(api_.device, nullptr);
}

bool Device::free_idle_scratch() noexcept {
  bool any = false;
  for (ScratchPool* pool : {&arenas_, &uploads_, &readbacks_, &slots_})
    any = pool->free_idle() || any;
  return any;
}

void Device::wait_idle() {
  const std::lock_guard lock(queue_mutex_);
  api_.vkDeviceWaitIdle(api_.device);
}

bool Device::finished(uint64_t submission) {
  uint64_t value = 0;
  const VkResult result = api_.vkGetSemaphoreCounterValue(api_.device, timeline_.get(), &value);
  if (is_out_of_memory(result)) return false;  // nobody knows
  check(result, "run");
  return value >= submission;
}

void Device::wait(uint64_t submission) {
  if (submission == 0) return;
  // A GPU answers sooner to polling; a CPU driver needs the core for its own threads.
  if (!profile().is_cpu()) {
    constexpr auto kPolling = std::chrono::milliseconds(5);
    const auto end = std::chrono::steady_clock::now() + kPolling;
    do {
      for (int i = 0; i < 64; ++i) {
        if (finished(submission)) return;
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  wait_for(timeline_.get(), submission, "run");
}

void Device::wait_for(VkSemaphore semaphore, uint64_t value, const char* what) {
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore;
  info.pValues = &value;
  VkResult result = api_.vkWaitSemaphores(api_.device, &info, UINT64_MAX);
  if (is_out_of_memory(result)) {
    // What is under way uses memory that callers free behind an error: there is no way around it.
    const std::lock_guard lock(queue_mutex_);
    result = api_.vkDeviceWaitIdle(api_.device);
    if (result != VK_SUCCESS) result = VK_ERROR_DEVICE_LOST;
  }
  check(result, what);
}

void Device::settle(uint64_t submission) noexcept {
  if (!vulkan_usable() || lost()) return;
  try {
    wait(submission);
  } catch (const Error&) {  // the call that needs the device reports it
  }
}

void Device::bind_sparse(VkBuffer buffer, const std::vector<VkSparseMemoryBind>& binds) {
  const OwnedSemaphore done = make_timeline();
  const VkSemaphore semaphore = done.get();
  const uint64_t one = 1;
  VkTimelineSemaphoreSubmitInfo values{};
  values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &one;
  VkSparseBufferMemoryBindInfo memory{};
  memory.buffer = buffer;
  memory.bindCount = static_cast<uint32_t>(binds.size());
  memory.pBinds = binds.data();
  VkBindSparseInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BIND_SPARSE_INFO;
  info.pNext = &values;
  info.bufferBindCount = 1;
  info.pBufferBinds = &memory;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &semaphore;
  VkResult result = VK_SUCCESS;
  {
    const std::lock_guard lock(queue_mutex_);
    result = api_.vkQueueBindSparse(queue_, 1, &info, VK_NULL_HANDLE);
  }
  check(result, "bind memory");
  wait_for(semaphore, one, "bind memory");
}

OwnedSemaphore Device::make_timeline(bool exportable) {
  VkExportSemaphoreCreateInfo shared{};
  shared.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO;
  shared.handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  if (exportable) type.pNext = &shared;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  check(api_.vkCreateSemaphore(api_.device, &info, nullptr, &semaphore), "semaphore");
  return {api_, semaphore};
}

DeviceCompanion& Device::companion(const std::function<std::unique_ptr<DeviceCompanion>()>& make) {
  std::call_once(companion_once_, [&] { companion_ = make(); });
  return *companion_;
}

OwnedCommandPool Device::make_command_pool(bool transfer) {
  VkCommandPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  info.queueFamilyIndex = physical_.queue_family;
  if (transfer && physical_.transfer_family) info.queueFamilyIndex = *physical_.transfer_family;
  VkCommandPool pool = VK_NULL_HANDLE;
  check(api_.vkCreateCommandPool(api_.device, &info, nullptr, &pool), "device");
  return {api_, pool};
}

OwnedQueryPool Device::make_timestamps(uint32_t count) {
  if (physical_.timestamp_period_ns == 0.0F) {
    throw Error(ErrorKind::kUnsupported, "[profile] " + profile().name + " has no timestamps");
  }
  VkQueryPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = count;
  VkQueryPool pool = VK_NULL_HANDLE;
  check(api_.vkCreateQueryPool(api_.device, &info, nullptr, &pool), "profile");
  return {api_, pool};
}

void Device::mark_lost() {
  if (lost()) return;
  // Behind this nobody waits, and memory is freed: what still runs has to end before. On a device
  // that is lost this returns at once.
  const std::lock_guard lock(queue_mutex_);
  api_.vkDeviceWaitIdle(api_.device);
  lost_.store(true, std::memory_order_release);
}

void Device::check(VkResult result, const char* what) {
  if (result >= 0) return;
  const std::string prefix = std::string("[") + what + "] ";
  if (result == VK_ERROR_DEVICE_LOST) {
    mark_lost();
    throw DeviceLostError(
        prefix + profile().name +
        " was lost (a crash, a hang or a reset of the driver): the next call from Python opens it "
        "anew; in C++ an engine has to be created again");
  }
  const std::string name = result_name(result);
  if (is_out_of_memory(result))
    throw OutOfMemoryError(prefix + profile().name + " is out of memory: " + name);
  throw Error(ErrorKind::kDevice, prefix + profile().name + " failed: " + name);
}

}  // namespace tv
