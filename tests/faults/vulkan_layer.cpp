// A Vulkan layer for tests/python/reliability/test_faults.py: the n-th call that a driver may
// refuse is refused, before it reaches the driver. In a process that calls no function of the layer
// FAULT_LOST_AT is n, and the device is lost then. Where FAULT_FREE_MIB is set, devices tell a
// memory budget (VK_EXT_memory_budget): so much is free.

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<long> left{0}, counted{0};
std::atomic<bool> stays{false};
std::atomic<int> refusal{VK_ERROR_OUT_OF_DEVICE_MEMORY};

/// FAULT_LOST_AT, as the layer is loaded.
const bool set_by_environment = [] {
  const char* text = std::getenv("FAULT_LOST_AT");
  if (!text) return false;
  refusal = VK_ERROR_DEVICE_LOST;
  left = std::atol(text);
  return true;
}();

/// Whether the call that is made now is the one to fail.
bool fails() {
  ++counted;
  const long now = left.load();
  if (now <= 0) return false;
  if (now == 1 && stays) return true;
  return left.fetch_sub(1) == 1;
}

// Those that may say that memory ran out.
#define MEMORY_CALLS(X)        \
  X(vkAllocateMemory)          \
  X(vkBindBufferMemory)        \
  X(vkMapMemory)               \
  X(vkFlushMappedMemoryRanges) \
  X(vkCreateBuffer)            \
  X(vkCreateShaderModule)      \
  X(vkCreatePipelineLayout)    \
  X(vkCreateComputePipelines)  \
  X(vkCreateCommandPool)       \
  X(vkAllocateCommandBuffers)  \
  X(vkBeginCommandBuffer)      \
  X(vkEndCommandBuffer)        \
  X(vkCreateSemaphore)         \
  X(vkCreateQueryPool)
// Those that may say that the device is lost, too.
#define DEVICE_CALLS(X) \
  X(vkQueueSubmit)      \
  X(vkWaitSemaphores)   \
  X(vkGetSemaphoreCounterValue)

#define ID(name) k_##name,
enum Id { MEMORY_CALLS(ID) kDeviceCalls, DEVICE_CALLS(ID) };

std::atomic<int> previous{-1};

template <Id id, typename Function>
struct Call;

template <Id id, typename... Arguments>
struct Call<id, VkResult(VKAPI_PTR*)(Arguments...)> {
  static inline VkResult(VKAPI_PTR* next)(Arguments...) = nullptr;
  static VKAPI_ATTR VkResult VKAPI_CALL call(Arguments... arguments) {
    const bool is_candidate = refusal == VK_ERROR_DEVICE_LOST ? id > kDeviceCalls : true;
    // Polls of one wait are one call: how many there are is chance.
    const bool polls_on = previous.exchange(id) == id && id == k_vkGetSemaphoreCounterValue;
    if (polls_on ? stays && left == 1 : is_candidate && fails())
      return static_cast<VkResult>(refusal.load());
    return next(arguments...);
  }
};

PFN_vkGetInstanceProcAddr next_instance_proc = nullptr;
PFN_vkGetDeviceProcAddr next_device_proc = nullptr;

template <typename Info>
Info* link_info(const void* chain, VkStructureType type) {
  for (auto* info = static_cast<const Info*>(chain); info != nullptr;
       info = static_cast<const Info*>(info->pNext)) {
    if (info->sType == type && info->function == VK_LAYER_LINK_INFO) return const_cast<Info*>(info);
  }
  return nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* memory,
                                               VkInstance* instance) {
  auto* link = link_info<VkLayerInstanceCreateInfo>(info->pNext,
                                                    VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  next_instance_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(
      next_instance_proc(VK_NULL_HANDLE, "vkCreateInstance"));
  return create(info, memory, instance);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                             const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* memory,
                                             VkDevice* device) {
  auto* link =
      link_info<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  const auto instance_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  next_device_proc = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create =
      reinterpret_cast<PFN_vkCreateDevice>(instance_proc(VK_NULL_HANDLE, "vkCreateDevice"));
  return create(physical, info, memory, device);
}

PFN_vkEnumerateDeviceExtensionProperties next_extensions = nullptr;
PFN_vkGetPhysicalDeviceMemoryProperties2 next_memory = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL device_extensions(VkPhysicalDevice device, const char* layer,
                                                 uint32_t* count, VkExtensionProperties* out) {
  const uint32_t room = *count;
  const VkResult result = next_extensions(device, layer, count, out);
  if (layer != nullptr || std::getenv("FAULT_FREE_MIB") == nullptr) return result;
  if (out != nullptr && *count < room) out[*count] = {VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, 1};
  ++*count;
  return result;
}

VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice device,
                                             VkPhysicalDeviceMemoryProperties2* out) {
  auto* budget = static_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(out->pNext);
  out->pNext = nullptr;
  next_memory(device, out);
  out->pNext = budget;
  const char* free_mib = std::getenv("FAULT_FREE_MIB");
  if (budget == nullptr || free_mib == nullptr) return;
  for (uint32_t i = 0; i < out->memoryProperties.memoryHeapCount; ++i) {
    budget->heapUsage[i] = uint64_t{5} << 20;
    budget->heapBudget[i] = budget->heapUsage[i] + (std::strtoull(free_mib, nullptr, 10) << 20);
  }
}

PFN_vkVoidFunction wrapped(VkDevice device, std::string_view name) {
#define WRAP(function)                                                                     \
  if (name == #function) {                                                                 \
    using Wrapper = Call<k_##function, PFN_##function>;                                    \
    Wrapper::next = reinterpret_cast<PFN_##function>(next_device_proc(device, #function)); \
    return Wrapper::next ? reinterpret_cast<PFN_vkVoidFunction>(&Wrapper::call) : nullptr; \
  }
  MEMORY_CALLS(WRAP)
  DEVICE_CALLS(WRAP)
  return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char* name) {
  if (std::string_view(name) == "vkGetDeviceProcAddr") {
    return reinterpret_cast<PFN_vkVoidFunction>(&device_proc);
  }
  if (const PFN_vkVoidFunction function = wrapped(device, name)) return function;
  return next_device_proc(device, name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance instance, const char* name) {
  const std::string_view wanted = name;
  if (wanted == "vkGetInstanceProcAddr")
    return reinterpret_cast<PFN_vkVoidFunction>(&instance_proc);
  if (wanted == "vkCreateInstance") return reinterpret_cast<PFN_vkVoidFunction>(&create_instance);
  if (wanted == "vkCreateDevice") return reinterpret_cast<PFN_vkVoidFunction>(&create_device);
  if (wanted == "vkGetDeviceProcAddr") return reinterpret_cast<PFN_vkVoidFunction>(&device_proc);
  const PFN_vkVoidFunction next = next_instance_proc ? next_instance_proc(instance, name) : nullptr;
  if (next && wanted == "vkEnumerateDeviceExtensionProperties") {
    next_extensions = reinterpret_cast<PFN_vkEnumerateDeviceExtensionProperties>(next);
    return reinterpret_cast<PFN_vkVoidFunction>(&device_extensions);
  }
  if (next && wanted == "vkGetPhysicalDeviceMemoryProperties2") {
    next_memory = reinterpret_cast<PFN_vkGetPhysicalDeviceMemoryProperties2>(next);
    return reinterpret_cast<PFN_vkVoidFunction>(&memory_properties);
  }
  return next;
}

}  // namespace

EXPORTED VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* layer) {
  layer->loaderLayerInterfaceVersion = 2;
  layer->pfnGetInstanceProcAddr = &instance_proc;
  layer->pfnGetDeviceProcAddr = &device_proc;
  layer->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}

/// The n-th call from now gives `result`, each from then on where `on` is set; n = 0: none; a huge
/// n only counts. VK_ERROR_DEVICE_LOST is for submissions and waits alone.
EXPORTED void tv_refuse_vulkan(long n, int on, int result) {
  stays = on != 0;
  refusal = result;
  counted = 0;
  previous = -1;
  left = n;
}

EXPORTED long tv_counted_vulkan() { return counted.load(); }
