#pragma once
// Shapes and files by name, as trtexec writes them: "x:1x3x224x224,ids:1x128".

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tv::cli {

using NamedShapes = std::map<std::string, std::vector<int64_t>>;

/// "x:1x3x224x224,'a:b':8" - a name may be quoted, "s:" alone is a scalar. Throws CommandError
/// naming `flag`.
NamedShapes parse_shapes(const std::string& flag, const std::string& text);

/// "x:x.npy,y:y.bin". Throws CommandError naming `flag`.
std::map<std::string, std::string> parse_files(const std::string& flag, const std::string& text);

/// "1x3x224x224"; "scalar" for no dimensions.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace tv::cli
