#include "runtime/vulkan/lavapipe.h"

#include <cstdio>
#include <sstream>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace tv {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxManifestBytes = 64 << 10;
// Minor and patch number of the Vulkan headers of Mesa 25.0, which a manifest names.
constexpr std::pair<int, int> kLastRight{4, 305};
constexpr uint32_t kDriverId = 13;  // VK_DRIVER_ID_MESA_LLVMPIPE
constexpr uint32_t kFirstWithLoops = 23;

void add_directory(const fs::path& directory, std::vector<fs::path>& files) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".json") files.push_back(entry->path());
  }
}

bool is_right(const fs::path& manifest) {
  try {
    const std::vector<uint8_t> bytes = read_file(manifest.string(), kMaxManifestBytes);
    const Json json = Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const auto field = [](const Json& from, const char* name) -> const Json* {
      const auto* object = from.get<Json::Object>();
      const auto found = object ? object->find(name) : Json::Object::const_iterator{};
      return object && found != object->end() ? &found->second : nullptr;
    };
    const Json* icd = field(json, "ICD");
    const Json* version = icd ? field(*icd, "api_version") : nullptr;
    const std::string* text = version ? version->get<std::string>() : nullptr;
    int minor = 0, patch = 0;
    if (!text || std::sscanf(text->c_str(), "1.%d.%d", &minor, &patch) != 2) return false;
    return std::pair(minor, patch) <= kLastRight;
  } catch (const Error&) {
    return false;  // the loader says what is wrong with it, or passes over it
  }
}

}  // namespace

std::vector<fs::path> driver_manifests(const char* chosen) {
  std::vector<fs::path> files;
  if (!chosen || !*chosen) {
    for (const char* directory :
         {"/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d"}) {
      add_directory(directory, files);
    }
    return files;
  }
  std::istringstream list(chosen);
  std::error_code error;
  for (std::string path; std::getline(list, path, ':');) {
    if (fs::is_directory(path, error))
      add_directory(path, files);
    else
      files.emplace_back(path);
  }
  return files;
}

bool lavapipe_takes_512_bits(std::span<const fs::path> manifests) {
  bool found = false;
  for (const fs::path& manifest : manifests) {
    if (manifest.filename().string().find("lvp") == std::string::npos) continue;
    if (!is_right(manifest)) return false;
    found = true;
  }
  return found;
}

bool lavapipe_wants_loops(const DeviceProfile& device) {
  return device.driver_id == kDriverId && device.driver_version >> 22 >= kFirstWithLoops;
}

}  // namespace tv
