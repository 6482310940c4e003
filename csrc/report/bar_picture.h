#pragma once

#include <span>
#include <string>

namespace tv {

struct Bar {
  double length = 0;         ///< 0 or more; an infinite one is as long as the longest
  std::string label, title;  ///< beside the bar, and what a pointer over it shows
  size_t kind = 0;           ///< its colour
};

/// A bar chart as SVG with an axis, one bar below the other.
std::string bar_picture(const std::string& title, const std::string& axis,
                        std::span<const Bar> bars);

}  // namespace tv
