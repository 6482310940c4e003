#pragma once
// The environment variables that Vulkan drivers read.

#include <string>

namespace tv {

/// Those that change which kernels are right or fast, with their values, as text.
std::string driver_environment();

/// Sets them, never over a user's own value. Call it before the Vulkan loader is opened and before
/// threads read the environment.
void set_driver_defaults();

}  // namespace tv
