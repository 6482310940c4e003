#pragma once
// The text of the kernel templates, compiled into the library (cmake/embed_kernels.cmake).

#include <functional>
#include <map>
#include <string>

namespace tv {

/// Kernel's file name, without the folder below converters/ → text.
const std::map<std::string, std::string, std::less<>>& kernel_sources();

}  // namespace tv
