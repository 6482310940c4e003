#pragma once
// Differences between versions of Mesa's lavapipe.

#include <filesystem>
#include <span>
#include <vector>

#include "runtime/vulkan/device_profile.h"

namespace tv {

/// The drivers' manifests that the Vulkan loader reads: the files that `chosen` lists, separated by
/// colons (VK_DRIVER_FILES), else those of the system's directories.
std::vector<std::filesystem::path> driver_manifests(const char* chosen);

/// True if each of lavapipe's manifests is of a Mesa that is right with 512-bit vectors: 22.3 to
/// 25.0 are. 25.2 writes past an array of its own where two 32-bit numbers of such vectors are
/// packed into a 64-bit one, and ends the process ("stack smashing detected"). False without a
/// manifest. Known before the Vulkan loader is opened.
bool lavapipe_takes_512_bits(std::span<const std::filesystem::path> manifests);

/// True for lavapipe of Mesa 23 and later, which takes minutes to compile long straight-line code.
bool lavapipe_wants_loops(const DeviceProfile& device);

}  // namespace tv
