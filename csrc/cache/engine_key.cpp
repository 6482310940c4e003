#include "csrc/cache/engine_key.h"

#include "csrc/codegen/glsl_compiler.h"
#include "csrc/codegen/kernel_source.h"
#include "csrc/precision.h"
#include "csrc/setting_values.h"
#include "csrc/version.h"
#include "runtime/base/json.h"
#include "runtime/base/sha256.h"
#include "runtime/vulkan/driver_environment.h"

namespace tv {

const std::string& builder_digest() {
  static const std::string digest = [] {
    std::string kernels;
    for (const auto& [name, text] : kernel_sources()) kernels += name + "\n" + text + "\n";
    return std::string("version ") + kBuilderVersion + "\nsources " + kSourceDigest + "\nkernels " +
           sha256_hex(kernels) + "\nglslang " + glslang_version();
  }();
  return digest;
}

std::string code_text(const Settings& settings) {
  Json::Object code;
  Settings keyed = settings;
  keyed.enabled_precisions = effective_precisions(settings);
  each_setting(keyed, [&](const SettingRow& row, const auto& value) {
    if (row.in_key) code.emplace(row.name, setting_json(value));
  });
  return Json(code).dump();
}

namespace {

/// All that a converter may ask of the device: more than the fingerprints. Another board of the
/// kind is the same device.
std::string device_text(DeviceProfile device) {
  device.uuid.clear();
  device.memory_bytes = 0;
  return device.to_json();
}

}  // namespace

std::string engine_key_of(const std::string& builder, const CanonicalGraph& graph,
                          const Settings& settings, const DeviceProfile& device, bool timed,
                          const std::string& weights) {
  std::string key = "torch_vulkan engine\n" + builder + "\n";
  key += "settings " + code_text(settings) + "\n";
  key += "device " + device_text(device) + "\n";
  key += "environment " + driver_environment() + "\n";
  key += "weights " + weights + "\n";
  key += std::string("tactics ") + (timed ? "timed" : "by rule") + "\n";
  return key + graph.text;
}

std::string engine_key(const CanonicalGraph& graph, const Settings& settings,
                       const DeviceProfile& device, bool timed, const std::string& weights) {
  return engine_key_of(builder_digest(), graph, settings, device, timed, weights);
}

}  // namespace tv
