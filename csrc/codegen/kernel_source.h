#pragma once
// The text of the kernel templates, compiled into the library (cmake/embed_kernels.cmake).

#include <functional>
#include <map>
#include <string>

namespace tv {

/// File name in converters/kernels/ → text.
const std::map<std::string, std::string, std::less<>>& kernel_sources();

}  // namespace tv
