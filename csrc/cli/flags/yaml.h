#pragma once

#include <string>
#include <string_view>

#include "runtime/base/json.h"

namespace tv::cli {

/// A document of YAML, read by yaml-cpp, with PyYAML's words for truth and null. Keys are text and
/// occur once; without any value, null. Throws CommandError with `what` and the line.
Json parse_yaml(std::string_view text, const std::string& what);

}  // namespace tv::cli
