#pragma once

#include <string>
#include <string_view>

#include "runtime/base/json.h"

namespace tv::cli {

/// The part of YAML that configurations are written in: mappings and lists by indentation or in
/// brackets, plain and quoted words, comments. Anchors, tags, texts of several lines and several
/// documents are refused. Throws CommandError with `what` and the line.
Json parse_yaml(std::string_view text, const std::string& what);

}  // namespace tv::cli
