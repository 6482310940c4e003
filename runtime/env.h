#pragma once
// The one place that reads environment variables.

#include <span>
#include <string>
#include <string_view>

namespace tv {

/// An environment variable that torch_vulkan reads, and what it does (docs/settings.md).
struct EnvVariable {
  const char* name;
  const char* meaning;
};
std::span<const EnvVariable> env_variables();

/// The value of a variable of the list above, "" where it is not set.
std::string env(std::string_view name);
/// True where it is set to anything but "", "0", "false" or "off".
bool env_flag(std::string_view name);

/// The variables that drivers read and that change which kernels are right or fast, with their
/// values, as text.
std::string driver_environment();

/// Where caches shipped in an image are looked for: $TORCH_VULKAN_SYSTEM_CACHE, else
/// /usr/share/torch_vulkan/cache.
std::string system_cache_dir();

/// Sets the variables that drivers read, never over a user's own value. Call it before the Vulkan
/// loader is opened and before threads read the environment.
void set_driver_defaults();

}  // namespace tv
