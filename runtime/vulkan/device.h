#pragma once
// Vulkan devices: enumeration, choice, and the one logical device per physical device and process.

#include <memory>
#include <string>
#include <vector>

#include "runtime/vulkan/device_profile.h"

namespace tv {

class Device;  // internals: runtime/vulkan/device_impl.h

/// The Vulkan devices of this machine, best first (discrete, integrated, virtual, CPU). Throws
/// Error(kDevice) that says what to install where there is no loader or no driver, and a clear
/// Error(kDevice) in a child forked after Vulkan was initialised. Thread-safe.
std::vector<DeviceProfile> list_devices();

/// Opens (once per process; later calls share it) the device that `spec` names: "" the one that
/// TORCH_VULKAN_DEVICE names, else the best; a
/// decimal index into list_devices(), a UUID, or part of a name, case-insensitively. Throws
/// Error(kUser) listing what there is where nothing or more than one device type matches.
std::shared_ptr<Device> open_device(const std::string& spec);

const DeviceProfile& profile(const Device& device);

/// True once the device was lost; open_device then opens it anew.
bool is_lost(const Device& device);

}  // namespace tv
