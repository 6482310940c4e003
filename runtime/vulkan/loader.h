#pragma once
// Vulkan's functions, found at run time: nothing links libvulkan, so the library loads without it.

#include <string>

#include "runtime/vulkan/compat.h"

namespace tv {

#define TV_VK_GLOBAL_FUNCTIONS(X) \
  X(vkCreateInstance)             \
  X(vkEnumerateInstanceVersion)   \
  X(vkEnumerateInstanceLayerProperties)

#define TV_VK_INSTANCE_FUNCTIONS(X)           \
  X(vkDestroyInstance)                        \
  X(vkEnumeratePhysicalDevices)               \
  X(vkGetPhysicalDeviceProperties)            \
  X(vkGetPhysicalDeviceProperties2)           \
  X(vkGetPhysicalDeviceFeatures2)             \
  X(vkGetPhysicalDeviceMemoryProperties)      \
  X(vkGetPhysicalDeviceMemoryProperties2)     \
  X(vkGetPhysicalDeviceQueueFamilyProperties) \
  X(vkEnumerateDeviceExtensionProperties)     \
  X(vkCreateDevice)                           \
  X(vkGetDeviceProcAddr)

// Null where the extension that brings them is not there.
#define TV_VK_OPTIONAL_INSTANCE_FUNCTIONS(X) \
  X(vkCreateDebugUtilsMessengerEXT)          \
  X(vkDestroyDebugUtilsMessengerEXT)         \
  X(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)

#define TV_VK_DEVICE_FUNCTIONS(X)   \
  X(vkDestroyDevice)                \
  X(vkDeviceWaitIdle)               \
  X(vkGetDeviceQueue)               \
  X(vkQueueSubmit)                  \
  X(vkQueueWaitIdle)                \
  X(vkAllocateMemory)               \
  X(vkFreeMemory)                   \
  X(vkMapMemory)                    \
  X(vkFlushMappedMemoryRanges)      \
  X(vkInvalidateMappedMemoryRanges) \
  X(vkBindBufferMemory)             \
  X(vkGetBufferMemoryRequirements)  \
  X(vkCreateBuffer)                 \
  X(vkDestroyBuffer)                \
  X(vkGetBufferDeviceAddress)       \
  X(vkCreateShaderModule)           \
  X(vkDestroyShaderModule)          \
  X(vkCreatePipelineLayout)         \
  X(vkDestroyPipelineLayout)        \
  X(vkCreateComputePipelines)       \
  X(vkDestroyPipeline)              \
  X(vkCreateCommandPool)            \
  X(vkDestroyCommandPool)           \
  X(vkAllocateCommandBuffers)       \
  X(vkFreeCommandBuffers)           \
  X(vkBeginCommandBuffer)           \
  X(vkEndCommandBuffer)             \
  X(vkCmdBindPipeline)              \
  X(vkCmdPushConstants)             \
  X(vkCmdDispatch)                  \
  X(vkCmdPipelineBarrier)           \
  X(vkCmdCopyBuffer)                \
  X(vkCmdFillBuffer)                \
  X(vkCreateSemaphore)              \
  X(vkDestroySemaphore)             \
  X(vkGetSemaphoreCounterValue)     \
  X(vkWaitSemaphores)               \
  X(vkSignalSemaphore)              \
  X(vkQueueBindSparse)              \
  X(vkCreateQueryPool)              \
  X(vkDestroyQueryPool)             \
  X(vkCmdResetQueryPool)            \
  X(vkCmdWriteTimestamp)            \
  X(vkGetQueryPoolResults)

// Null where the extension that brings them is not enabled.
#define TV_VK_OPTIONAL_DEVICE_FUNCTIONS(X) \
  X(vkGetMemoryFdKHR)                      \
  X(vkGetSemaphoreFdKHR)

#define TV_VK_MEMBER(name) PFN_##name name = nullptr;

struct GlobalApi {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
  TV_VK_GLOBAL_FUNCTIONS(TV_VK_MEMBER)
};

struct InstanceApi {
  VkInstance instance = VK_NULL_HANDLE;
  TV_VK_INSTANCE_FUNCTIONS(TV_VK_MEMBER)
  TV_VK_OPTIONAL_INSTANCE_FUNCTIONS(TV_VK_MEMBER)
};

struct DeviceApi {
  VkDevice device = VK_NULL_HANDLE;
  TV_VK_DEVICE_FUNCTIONS(TV_VK_MEMBER)
  TV_VK_OPTIONAL_DEVICE_FUNCTIONS(TV_VK_MEMBER)
};

#undef TV_VK_MEMBER

/// Opens the loader (once; never closed, because drivers leave threads and exit handlers behind).
/// Throws Error(kDevice) that says what to install where there is none.
const GlobalApi& global_api();

InstanceApi load_instance_api(VkInstance instance);
DeviceApi load_device_api(const InstanceApi& api, VkDevice device);

/// "VK_ERROR_OUT_OF_DEVICE_MEMORY" for the results that functions used here may give.
std::string result_name(VkResult result);

}  // namespace tv
