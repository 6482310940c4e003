// From a physical device to a DeviceProfile and the list of what to enable.

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/env.h"
#include "runtime/vulkan/instance.h"

namespace tv {
namespace {

DeviceType device_type(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return DeviceType::kIntegrated;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return DeviceType::kDiscrete;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return DeviceType::kVirtual;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return DeviceType::kCpu;
    default:
      return DeviceType::kOther;
  }
}

std::string hex(const uint8_t* bytes, size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string component_name(int32_t type) {
  switch (type) {
    case VK_COMPONENT_TYPE_FLOAT16_KHR:
      return "float16";
    case VK_COMPONENT_TYPE_FLOAT32_KHR:
      return "float32";
    case VK_COMPONENT_TYPE_FLOAT64_KHR:
      return "float64";
    case VK_COMPONENT_TYPE_SINT8_KHR:
      return "int8";
    case VK_COMPONENT_TYPE_SINT16_KHR:
      return "int16";
    case VK_COMPONENT_TYPE_SINT32_KHR:
      return "int32";
    case VK_COMPONENT_TYPE_SINT64_KHR:
      return "int64";
    case VK_COMPONENT_TYPE_UINT8_KHR:
      return "uint8";
    case VK_COMPONENT_TYPE_UINT16_KHR:
      return "uint16";
    case VK_COMPONENT_TYPE_UINT32_KHR:
      return "uint32";
    case VK_COMPONENT_TYPE_UINT64_KHR:
      return "uint64";
    case kComponentBFloat16:
      return "bfloat16";
    default:
      return "";
  }
}

/// Whether a kernel may say so of this width and leave the others as they are.
bool has_float16_controls(const VkPhysicalDeviceVulkan12Properties& v12) {
  constexpr auto kNone = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
  return v12.shaderRoundingModeRTEFloat16 && v12.roundingModeIndependence != kNone &&
         v12.shaderDenormPreserveFloat16 && v12.denormBehaviorIndependence != kNone;
}

std::vector<CoopMatShape> coop_matrices(const InstanceApi& api, VkPhysicalDevice handle,
                                        bool bfloat16) {
  const auto query = api.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR;
  uint32_t count = 0;
  if (!query || query(handle, &count, nullptr) != VK_SUCCESS) return {};
  VkCooperativeMatrixPropertiesKHR empty{};
  empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  std::vector<VkCooperativeMatrixPropertiesKHR> found(count, empty);
  if (query(handle, &count, found.data()) < 0) return {};
  std::vector<CoopMatShape> shapes;
  for (const auto& p : found) {
    CoopMatShape shape{p.MSize,
                       p.NSize,
                       p.KSize,
                       component_name(p.AType),
                       component_name(p.BType),
                       component_name(p.CType),
                       component_name(p.ResultType)};
    const bool known =
        !shape.a.empty() && !shape.b.empty() && !shape.c.empty() && !shape.result.empty();
    const bool uses_bfloat16 = shape.a == "bfloat16" || shape.c == "bfloat16";
    if (p.scope != VK_SCOPE_SUBGROUP_KHR || p.saturatingAccumulation || !known) continue;
    if (uses_bfloat16 && !bfloat16) continue;
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// Sets what is wanted of the extensions that the device offers.
void choose_extensions(const InstanceApi& api, VkPhysicalDevice handle, PhysicalDevice& device) {
  uint32_t count = 0;
  api.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> offered(count);
  api.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, offered.data());
  // A validation layer older than the extension takes its structures for errors.
  const bool newest = !env_flag("TORCH_VULKAN_VALIDATION");
  for (const auto& e : offered) {
    const auto is = [&](const char* name) { return !std::strcmp(e.extensionName, name); };
    if (is(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME) ||
        is(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME) ||
        is(VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME) ||
        (newest && (is(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME) ||
                    is(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME)))) {
      device.extensions.push_back(e.extensionName);
    }
    // Only asked of the physical device: nothing to enable.
    if (is(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME)) device.memory_budget = true;
  }
}

/// Shader cores that run workgroups, from the vendors' extensions that tell; 0 if none does.
uint32_t compute_units(const InstanceApi& api, VkPhysicalDevice handle) {
  uint32_t count = 0;
  api.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> offered(count);
  api.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, offered.data());
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nv{};
  nv.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV;
  VkPhysicalDeviceShaderCoreProperties2AMD amd{};
  amd.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  for (const auto& e : offered) {
    if (!std::strcmp(e.extensionName, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
      nv.pNext = properties.pNext;
      properties.pNext = &nv;
    } else if (!std::strcmp(e.extensionName, VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME)) {
      amd.pNext = properties.pNext;
      properties.pNext = &amd;
    }
  }
  if (!properties.pNext) return 0;
  api.vkGetPhysicalDeviceProperties2(handle, &properties);
  return std::max(nv.shaderSMCount, amd.activeComputeUnitCount);
}

/// A compute queue, of a family without graphics where there is one: it has less in its way.
bool choose_queue(const InstanceApi& api, VkPhysicalDevice handle, PhysicalDevice& device) {
  uint32_t count = 0;
  api.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  api.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, families.data());
  bool found = false;
  for (uint32_t i = 0; i < count; ++i) {
    if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
    const bool alone = !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT);
    if (!found || alone) {
      device.queue_family = i;
      device.sparse_binding = families[i].queueFlags & VK_QUEUE_SPARSE_BINDING_BIT;
      device.timestamp_period_ns = families[i].timestampValidBits >= 48 ? 1.0F : 0.0F;
    }
    if (alone) return true;
    found = true;
  }
  return found;
}

/// A family whose queues only copy: what they do runs beside the kernels.
std::optional<uint32_t> transfer_family(const InstanceApi& api, VkPhysicalDevice handle) {
  constexpr VkQueueFlags kHarmless =
      VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT;
  uint32_t count = 0;
  api.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  api.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, families.data());
  for (uint32_t i = 0; i < count; ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if ((flags & VK_QUEUE_TRANSFER_BIT) && !(flags & ~kHarmless)) return i;
  }
  return {};
}

uint64_t largest_device_heap(const VkPhysicalDeviceMemoryProperties& memory) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) {
      bytes = std::max<uint64_t>(bytes, memory.memoryHeaps[i].size);
    }
  }
  return bytes;
}

std::string missing_feature(const FeatureChain& f, uint32_t api_version) {
  if (api_version < VK_API_VERSION_1_3) return "Vulkan 1.3";
  if (!f.v12.bufferDeviceAddress) return "bufferDeviceAddress";
  if (!f.core.features.shaderInt64) return "shaderInt64";
  if (!f.v13.maintenance4) return "maintenance4";
  return "";
}

void set_limits(const VkPhysicalDeviceLimits& limits, DeviceProfile& p) {
  p.max_push_constants = limits.maxPushConstantsSize;
  p.max_shared_bytes = limits.maxComputeSharedMemorySize;
  p.max_workgroup_invocations = limits.maxComputeWorkGroupInvocations;
  for (int i = 0; i < 3; ++i) {
    p.max_workgroup_size[i] = limits.maxComputeWorkGroupSize[i];
    p.max_grid[i] = limits.maxComputeWorkGroupCount[i];
  }
}

/// The device's properties of each version of Vulkan, to be read in one call.
struct PropertyChain {
  VkPhysicalDeviceProperties2 core{};
  VkPhysicalDeviceVulkan11Properties v11{};
  VkPhysicalDeviceVulkan12Properties v12{};
  VkPhysicalDeviceVulkan13Properties v13{};

  PropertyChain() {
    v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES;
    v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
    v12.pNext = &v13;
    v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
    v11.pNext = &v12;
    core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    core.pNext = &v11;
  }
  PropertyChain(const PropertyChain&) = delete;
  PropertyChain& operator=(const PropertyChain&) = delete;
};

void set_identity(const PropertyChain& properties, DeviceProfile& p) {
  const VkPhysicalDeviceProperties& basic = properties.core.properties;
  p.type = device_type(basic.deviceType);
  p.uuid = hex(properties.v11.deviceUUID, VK_UUID_SIZE);
  p.vendor_id = basic.vendorID;
  p.device_id = basic.deviceID;
  p.driver_id = properties.v12.driverID;
  p.driver_version = basic.driverVersion;
  p.driver_name = properties.v12.driverName;
  p.driver_info = properties.v12.driverInfo;
}

void set_subgroups(const PropertyChain& properties, const FeatureChain& features,
                   DeviceProfile& p) {
  const VkPhysicalDeviceVulkan13Properties& v13 = properties.v13;
  p.subgroup_size = properties.v11.subgroupSize;
  p.subgroup_size_control = features.v13.subgroupSizeControl && features.v13.computeFullSubgroups &&
                            (v13.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
  p.min_subgroup_size = p.subgroup_size_control ? v13.minSubgroupSize : p.subgroup_size;
  p.max_subgroup_size = p.subgroup_size_control ? v13.maxSubgroupSize : p.subgroup_size;
}

void set_number_types(const PropertyChain& properties, const FeatureChain& features,
                      DeviceProfile& p) {
  p.float16 = features.v12.shaderFloat16;
  p.float16_controls = p.float16 && has_float16_controls(properties.v12);
  p.int64 = features.core.features.shaderInt64;
  p.int16 = features.core.features.shaderInt16;
  p.int8 = features.v12.shaderInt8;
  p.float64 = features.core.features.shaderFloat64;
  p.storage16 = features.v11.storageBuffer16BitAccess;
  p.storage8 = features.v12.storageBuffer8BitAccess;
}

void set_matrix_units(const InstanceApi& api, VkPhysicalDevice handle, const FeatureChain& features,
                      DeviceProfile& p) {
  if (!features.coop.cooperativeMatrix) return;
  p.coop_matrices = coop_matrices(api, handle, features.bfloat16.shaderBFloat16CooperativeMatrix);
  p.coop_matrix2 = features.coop2.cooperativeMatrixWorkgroupScope &&
                   features.coop2.cooperativeMatrixFlexibleDimensions &&
                   features.coop2.cooperativeMatrixTensorAddressing;
}

void set_memory(const VkPhysicalDeviceMemoryProperties& memory, DeviceProfile& p) {
  p.memory_bytes = largest_device_heap(memory);
  // lavapipe's device addresses are plain pointers, its heap is the machine's memory.
  if (p.driver_id == VK_DRIVER_ID_MESA_LLVMPIPE && !env_flag("TORCH_VULKAN_STAGING")) {
    p.host_pointers = true;
    p.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
}

}  // namespace

FeatureChain::FeatureChain(const std::vector<std::string>& extensions) {
  core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
  coop.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  bfloat16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR;
  coop2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV;
  core.pNext = &v11;
  v11.pNext = &v12;
  v12.pNext = &v13;
  void** tail = &v13.pNext;
  for (const std::string& e : extensions) {
    if (e == VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME) {
      *tail = &coop;
      tail = &coop.pNext;
    } else if (e == VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME) {
      *tail = &bfloat16;
      tail = &bfloat16.pNext;
    } else if (e == VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME) {
      *tail = &coop2;
      tail = &coop2.pNext;
    }
  }
}

void enable_features(const FeatureChain& offered, FeatureChain& enabled) {
#define TV_ENABLE(part, feature) enabled.part.feature = offered.part.feature
  TV_ENABLE(core.features, shaderInt64);
  TV_ENABLE(core.features, shaderInt16);
  TV_ENABLE(core.features, shaderFloat64);
  TV_ENABLE(core.features, sparseBinding);
  TV_ENABLE(v11, storageBuffer16BitAccess);
  TV_ENABLE(v11, uniformAndStorageBuffer16BitAccess);
  TV_ENABLE(v11, storagePushConstant16);
  TV_ENABLE(v12, storageBuffer8BitAccess);
  TV_ENABLE(v12, uniformAndStorageBuffer8BitAccess);
  TV_ENABLE(v12, storagePushConstant8);
  TV_ENABLE(v12, shaderFloat16);
  TV_ENABLE(v12, shaderInt8);
  TV_ENABLE(v12, scalarBlockLayout);
  TV_ENABLE(v12, bufferDeviceAddress);
  TV_ENABLE(v12, timelineSemaphore);
  TV_ENABLE(v12, vulkanMemoryModel);
  TV_ENABLE(v12, vulkanMemoryModelDeviceScope);
  TV_ENABLE(v12, shaderSubgroupExtendedTypes);
  TV_ENABLE(v13, subgroupSizeControl);
  TV_ENABLE(v13, computeFullSubgroups);
  TV_ENABLE(v13, synchronization2);
  TV_ENABLE(v13, maintenance4);
  TV_ENABLE(v13, shaderIntegerDotProduct);
  TV_ENABLE(coop, cooperativeMatrix);
  TV_ENABLE(bfloat16, shaderBFloat16Type);
  TV_ENABLE(bfloat16, shaderBFloat16CooperativeMatrix);
  TV_ENABLE(coop2, cooperativeMatrixWorkgroupScope);
  TV_ENABLE(coop2, cooperativeMatrixFlexibleDimensions);
  TV_ENABLE(coop2, cooperativeMatrixReductions);
  TV_ENABLE(coop2, cooperativeMatrixConversions);
  TV_ENABLE(coop2, cooperativeMatrixPerElementOperations);
  TV_ENABLE(coop2, cooperativeMatrixTensorAddressing);
  TV_ENABLE(coop2, cooperativeMatrixBlockLoads);
#undef TV_ENABLE
}

PhysicalDevice describe(const InstanceApi& api, VkPhysicalDevice handle, std::string& refusal) {
  PhysicalDevice device;
  device.handle = handle;
  DeviceProfile& p = device.profile;

  VkPhysicalDeviceProperties basic{};
  api.vkGetPhysicalDeviceProperties(handle, &basic);
  p.name = basic.deviceName;
  p.api_version = basic.apiVersion;
  if (basic.apiVersion < VK_API_VERSION_1_3) {
    refusal = p.name + " lacks Vulkan 1.3";
    return device;
  }

  PropertyChain properties;
  api.vkGetPhysicalDeviceProperties2(handle, &properties.core);
  device.max_buffer_bytes = properties.v13.maxBufferSize;

  choose_extensions(api, handle, device);
  FeatureChain features(device.extensions);
  api.vkGetPhysicalDeviceFeatures2(handle, &features.core);
  const std::string missing = missing_feature(features, basic.apiVersion);
  if (!missing.empty() || !choose_queue(api, handle, device)) {
    refusal = p.name + " lacks " + (missing.empty() ? "a compute queue" : missing);
    return device;
  }
  if (!env_flag("TORCH_VULKAN_ONE_QUEUE")) device.transfer_family = transfer_family(api, handle);
  api.vkGetPhysicalDeviceMemoryProperties(handle, &device.memory);
  device.sparse_binding = device.sparse_binding && features.core.features.sparseBinding;
  device.timestamp_period_ns *= basic.limits.timestampPeriod;

  set_identity(properties, p);
  set_subgroups(properties, features, p);
  set_number_types(properties, features, p);
  set_matrix_units(api, handle, features, p);
  p.compute_units = compute_units(api, handle);
  set_limits(properties.core.properties.limits, p);
  set_memory(device.memory, p);
  return device;
}

}  // namespace tv
