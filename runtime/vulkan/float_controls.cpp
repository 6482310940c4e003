#include "runtime/vulkan/float_controls.h"

namespace tv {
namespace {

constexpr size_t kHeaderWords = 5;
constexpr uint32_t kSpirv14 = 0x00010400;  // float controls are part of SPIR-V since then
constexpr uint32_t kOpEntryPoint = 15, kOpExecutionMode = 16, kOpCapability = 17;
constexpr uint32_t kCapabilityDenormPreserve = 4464, kModeDenormPreserve = 4459;
constexpr uint32_t kCapabilitySpecialPreserve = 4466, kModeSpecialPreserve = 4461;

uint32_t instruction(uint32_t op, uint32_t words) { return words << 16 | op; }

}  // namespace

FloatControls offered_float_controls(const Device& device) {
  VkPhysicalDeviceFloatControlsProperties offered{};
  offered.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &offered;
  Instance::get().api().vkGetPhysicalDeviceProperties2(device.physical().handle, &properties);
  return {
      // NONE: the other widths would have to be set, too.
      .denormals = offered.shaderDenormPreserveFloat32 == VK_TRUE &&
                   offered.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE,
      .special_values = offered.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE,
  };
}

std::vector<uint32_t> with_float_controls(std::span<const uint32_t> module,
                                          FloatControls controls) {
  std::vector<uint32_t> result(module.begin(), module.end());
  if (module.size() < kHeaderWords || module[1] < kSpirv14) return result;
  size_t end = 0;  // behind the entry point
  uint32_t entry = 0;
  for (size_t at = kHeaderWords; at < module.size();) {
    const size_t words = module[at] >> 16;
    if (words == 0 || words > module.size() - at) return result;
    if ((module[at] & 0xFFFFU) == kOpEntryPoint && words > 2) {
      if (end != 0) return result;
      end = at + words;
      entry = module[at + 2];
    }
    at += words;
  }
  if (end == 0) return result;
  const auto ask = [&](uint32_t capability, uint32_t mode) {
    const uint32_t modes[] = {instruction(kOpExecutionMode, 4), entry, mode, 32};
    const uint32_t capabilities[] = {instruction(kOpCapability, 2), capability};
    result.insert(result.begin() + static_cast<ptrdiff_t>(end), std::begin(modes), std::end(modes));
    result.insert(result.begin() + kHeaderWords, std::begin(capabilities), std::end(capabilities));
    end += std::size(capabilities);
  };
  if (controls.denormals) ask(kCapabilityDenormPreserve, kModeDenormPreserve);
  if (controls.special_values) ask(kCapabilitySpecialPreserve, kModeSpecialPreserve);
  return result;
}

}  // namespace tv
