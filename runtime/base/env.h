#pragma once
// torch_vulkan's own environment variables, and the one place of C++ that reads them. Those of
// drivers are read in vulkan/driver_environment.cpp; Python's clients of the compile service read
// four more (docs/settings.md).

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

/// The value of a variable of the list above, "" if it is not set.
std::string env(std::string_view name);
/// True if it is set to anything but "", "0", "false" or "off".
bool env_flag(std::string_view name);

/// The variable that comes before a key of a configuration file: TORCH_VULKAN_FP16 for "fp16".
std::string variable_of_key(std::string_view key);
/// Its value, "" if it is not set.
std::string env_of_key(std::string_view key);

/// $XDG_CACHE_HOME/torch_vulkan, else ~/.cache/torch_vulkan; "" if there is no home. Never /tmp.
std::string default_cache_dir();

/// Where caches shipped in an image are looked for: $TORCH_VULKAN_SYSTEM_CACHE, else
/// /usr/share/torch_vulkan/cache.
std::string system_cache_dir();

}  // namespace tv
