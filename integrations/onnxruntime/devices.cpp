#include "integrations/onnxruntime/devices.h"

#include <cstdio>
#include <map>

#include "runtime/base/env.h"

namespace tv::ort {
namespace {

std::string text_of(const Hardware& hardware) {
  if (hardware.is_cpu) return "the CPU";
  char text[32];
  std::snprintf(text, sizeof text, "GPU %04x:%04x", hardware.vendor_id, hardware.device_id);
  return text;
}

}  // namespace

std::vector<std::pair<size_t, Hardware>> candidates(const OrtHardwareDevice* const* devices,
                                                    size_t count) {
  std::vector<std::pair<size_t, Hardware>> found;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> equal;
  bool cpu = false;
  for (size_t i = 0; i < count; ++i) {
    const Ort::ConstHardwareDevice device{devices[i]};
    const OrtHardwareDeviceType type = device.Type();
    if (type == OrtHardwareDeviceType_GPU) {
      Hardware gpu{.vendor_id = device.VendorId(), .device_id = device.DeviceId()};
      gpu.ordinal = equal[{gpu.vendor_id, gpu.device_id}]++;
      found.emplace_back(i, gpu);
    } else if (type == OrtHardwareDeviceType_CPU && !cpu) {
      cpu = true;
      found.emplace_back(i, Hardware{.is_cpu = true});
    }
  }
  return found;
}

std::shared_ptr<Device> open_on(const std::vector<Hardware>& hardware, const std::string& spec) {
  if (!spec.empty() || !env("TORCH_VULKAN_DEVICE").empty()) return open_device(spec);
  const std::vector<DeviceProfile> all = list_devices();
  std::map<std::pair<uint32_t, uint32_t>, int64_t> equal;
  std::string known, wanted;
  for (const DeviceProfile& device : all) {  // best first
    const int64_t ordinal = equal[{device.vendor_id, device.device_id}]++;
    for (const Hardware& given : hardware) {
      const bool same = given.is_cpu
                            ? device.is_cpu()
                            : !device.is_cpu() && given.vendor_id == device.vendor_id &&
                                  given.device_id == device.device_id && given.ordinal == ordinal;
      if (same) return open_device(device.uuid);
    }
    known += (known.empty() ? "" : ", ") + device.name;
  }
  for (const Hardware& given : hardware) wanted += (wanted.empty() ? "" : ", ") + text_of(given);
  throw Error(ErrorKind::kDevice, "no Vulkan device is " + wanted + "; there is " + known +
                                      ": the option device names one");
}

}  // namespace tv::ort
