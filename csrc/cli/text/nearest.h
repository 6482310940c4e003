#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tv::cli {

/// The entry of `known` that takes the fewest insertions, deletions, replacements and swaps of
/// neighbours to make of `text`, letters' case apart; "" if none is near.
std::string nearest(std::string_view text, const std::vector<std::string>& known);

}  // namespace tv::cli
