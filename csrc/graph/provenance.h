#pragma once
// Where a node of several nodes comes from.

#include <string>

namespace tv {

/// "layer.0.attention" of "layer.0.attention.query" and "layer.0.attention.key". Of tokens
/// (csrc/cache/names.h), which stand for paths not known yet, "#p1|#p2".
std::string common_module(const std::string& a, const std::string& b);

}  // namespace tv
