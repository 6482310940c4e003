// What ONNX Runtime looks up in this library, and the factory of providers.

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <limits>
#include <memory>

#include "csrc/version.h"
#include "integrations/onnxruntime/context.h"
#include "integrations/onnxruntime/devices.h"
#include "integrations/onnxruntime/ort.h"
#include "integrations/onnxruntime/provider.h"

namespace tv::ort {

Api& api() {
  static Api known;
  return known;
}

namespace {

constexpr const char* kOrdinal = "ordinal";

Options options_of(const OrtSessionOptions* session) {
  OrtKeyValuePairs* entries = nullptr;
  Ort::ThrowOnError(api().ort->GetSessionOptionsConfigEntries(session, &entries));
  const Ort::KeyValuePairs all(entries);
  std::string prefix = std::string("ep.") + kName + ".";
  std::transform(prefix.begin(), prefix.end(), prefix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::map<std::string, std::string> given, others;
  for (const auto& [key, value] : all.GetKeyValuePairs()) {
    const bool own = key.starts_with(prefix);
    (own ? given : others).emplace(own ? key.substr(prefix.size()) : key, value);
  }
  return read_options(given, others);
}

Hardware hardware_of(const OrtHardwareDevice* device, const OrtKeyValuePairs* metadata) {
  const Ort::ConstHardwareDevice given{device};
  const char* ordinal = metadata ? api().ort->GetKeyValue(metadata, kOrdinal) : nullptr;
  return {.is_cpu = given.Type() != OrtHardwareDeviceType_GPU,
          .vendor_id = given.VendorId(),
          .device_id = given.DeviceId(),
          .ordinal = ordinal ? std::atoll(ordinal) : 0};
}

/// A text that no provider of this library wrote fits no device.
Fit fit_of_text(const char* info, const DeviceProfile& device) {
  try {
    return info ? fit_of(info, device) : Fit::kNot;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return Fit::kNot;
  }
}

class Factory : public OrtEpFactory {
 public:
  Factory() : OrtEpFactory{} {
    ort_version_supported = ORT_API_VERSION;
    GetName = [](const OrtEpFactory*) noexcept { return kName; };
    GetVendor = [](const OrtEpFactory*) noexcept { return "torch_vulkan"; };
    GetVendorId = [](const OrtEpFactory*) noexcept { return uint32_t{0}; };
    GetVersion = [](const OrtEpFactory*) noexcept { return kBuilderVersion; };
    GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                             size_t count, OrtEpDevice** made, size_t most,
                             size_t* number) noexcept -> OrtStatus* {
      return guarded([&] { list_devices(self, devices, count, made, most, number); });
    };
    CreateEp = [](OrtEpFactory*, const OrtHardwareDevice* const* devices,
                  const OrtKeyValuePairs* const* metadata, size_t count,
                  const OrtSessionOptions* session, const OrtLogger* logger,
                  OrtEp** made) noexcept -> OrtStatus* {
      return guarded([&] {
        std::vector<Hardware> hardware;
        for (size_t i = 0; i < count; ++i) {
          hardware.push_back(hardware_of(devices[i], metadata ? metadata[i] : nullptr));
        }
        Options options = options_of(session);
        std::shared_ptr<Device> device = open_on(hardware, options.device);
        *made = new Provider(std::move(options), std::move(device), logger);
      });
    };
    ValidateCompiledModelCompatibilityInfo =
        [](OrtEpFactory*, const OrtHardwareDevice* const* devices, size_t count, const char* info,
           OrtCompiledModelCompatibility* found) noexcept -> OrtStatus* {
      return guarded([&] {
        std::vector<Hardware> hardware;
        for (size_t i = 0; i < count; ++i) hardware.push_back(hardware_of(devices[i], nullptr));
        const Fit fit = fit_of_text(info, profile(*open_on(hardware, "")));
        *found = fit == Fit::kOptimal ? OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL
                 : fit == Fit::kRuns
                     ? OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION
                     : OrtCompiledModelCompatibility_EP_UNSUPPORTED;
      });
    };
    ReleaseEp = [](OrtEpFactory*, OrtEp* made) noexcept { delete static_cast<Provider*>(made); };
    // Memory is the host's: allocators, copies and streams are the runtime's own.
    CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                         OrtAllocator** made) noexcept -> OrtStatus* {
      *made = nullptr;
      return nullptr;
    };
    ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) noexcept {};
    CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** made) noexcept -> OrtStatus* {
      *made = nullptr;
      return nullptr;
    };
    IsStreamAware = [](const OrtEpFactory*) noexcept { return false; };
  }

 private:
  /// Vulkan is not opened: a process that registers the library can still fork.
  static void list_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                           size_t count, OrtEpDevice** made, size_t most, size_t* number) {
    *number = 0;
    for (const auto& [at, hardware] : candidates(devices, count)) {
      if (*number == most) break;
      Ort::KeyValuePairs metadata;
      metadata.Add(kOrdinal, std::to_string(hardware.ordinal).c_str());
      // Of EPContext models, asked for by the first of these in runtimes before 1.31.
      metadata.Add("weightless_support", "all");
      metadata.Add("weightless_supported_modes", "all");
      Ort::ThrowOnError(
          api().ep->CreateEpDevice(self, devices[at], metadata, nullptr, &made[*number]));
      ++*number;
    }
  }
};

/// 23 of "1.23.2"; 0 of what is no such version, more than any of a major version above 1.
int minor_of(const std::string& version) {
  int major = 0, minor = 0;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) != 2) return 0;
  return major > 1 ? std::numeric_limits<int>::max() : minor;
}

}  // namespace
}  // namespace tv::ort

extern "C" {

OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                             OrtEpFactory** factories, size_t most, size_t* number) noexcept {
  using namespace tv::ort;
  *number = 0;
  const std::string version = base->GetVersionString();
  const int minor = minor_of(version);
  if (minor < ORT_API_VERSION) {  // of whose functions only the oldest are sure to be there
    const OrtApi* oldest = base->GetApi(1);
    const std::string message = std::string(kName) + ": this is ONNX Runtime " + version +
                                "; want 1." + std::to_string(ORT_API_VERSION) + " or newer";
    return oldest ? oldest->CreateStatus(ORT_NOT_IMPLEMENTED, message.c_str()) : nullptr;
  }
  const OrtApi* ort = base->GetApi(ORT_API_VERSION);
  api().ort = ort;
  api().ep = ort->GetEpApi();
  Ort::InitApi(ort);
  const OrtApi* later = minor < 24 ? nullptr : base->GetApi(24);  // else it complains
  if (later) {
    // The table only grows: the first of API 24 stands behind the last of the headers' version.
    using HasShape = bool (*)(const OrtTensorTypeAndShapeInfo*);
    static_assert(ORT_API_VERSION == 23);
    api().has_shape = *reinterpret_cast<const HasShape*>(later + 1);
  }
  api().has_profiler = minor >= 25;
  return guarded([&] {
    if (most < 1) throw tv::Error(tv::ErrorKind::kUser, "there is no room for a factory");
    factories[0] = new Factory();
    *number = 1;
  });
}

OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  delete static_cast<tv::ort::Factory*>(factory);
  return nullptr;
}

}  // extern "C"
