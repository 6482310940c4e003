#pragma once
// The little of SVG that the reports draw with.

#include <string>
#include <string_view>

namespace tv {

/// Text as it may stand in XML; control characters become spaces.
std::string xml_escape(std::string_view text);
/// At most `width` characters (not bytes), with "…" where something is cut off.
std::string shortened(std::string_view text, size_t width);
/// The same with the end of the text kept: of paths, that says more.
std::string shortened_front(std::string_view text, size_t width);
/// The same with the middle cut off.
std::string shortened_middle(std::string_view text, size_t width);
/// A number with one decimal at most, as coordinates need it.
std::string coordinate(double value);
/// The colour of the i-th of several kinds.
const char* colour(size_t kind);

}  // namespace tv
