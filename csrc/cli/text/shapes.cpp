#include "csrc/cli/text/shapes.h"

#include <charconv>

#include "csrc/cli/text/command_error.h"

namespace tv::cli {
namespace {

/// "name:value" pairs between commas; quotes keep commas and colons in a name. The colon is the
/// last one of a shape's pair, the first one of a file's.
std::vector<std::pair<std::string, std::string>> pairs(const std::string& flag,
                                                       const std::string& text, bool last_colon,
                                                       const char* want) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto bad = [&](const std::string& piece) {
    throw CommandError(flag + ": got '" + piece + "', want " + want);
  };
  size_t at = 0;
  while (at <= text.size()) {
    std::string name;
    size_t from = at;
    if (at < text.size() && (text[at] == '\'' || text[at] == '"')) {
      const size_t close = text.find(text[at], at + 1);
      if (close == std::string::npos) bad(text.substr(at));
      name = text.substr(at + 1, close - at - 1);
      from = close + 1;
    }
    size_t end = text.find(',', from);
    if (end == std::string::npos) end = text.size();
    const std::string piece = text.substr(from, end - from);
    const size_t colon = last_colon ? piece.rfind(':') : piece.find(':');
    if (colon == std::string::npos || (from != at && colon != 0)) bad(text.substr(at, end - at));
    if (from == at) name = piece.substr(0, colon);
    if (name.empty()) bad(text.substr(at, end - at));
    out.emplace_back(name, piece.substr(colon + 1));
    at = end + 1;
  }
  return out;
}

}  // namespace

NamedShapes parse_shapes(const std::string& flag, const std::string& text) {
  constexpr const char* kWant = "NAME:SIZExSIZE…, such as x:1x3x224x224,mask:1x128";
  NamedShapes shapes;
  for (const auto& [name, sizes] : pairs(flag, text, /*last_colon=*/true, kWant)) {
    std::vector<int64_t> shape;
    const char* at = sizes.data();
    const char* end = at + sizes.size();
    while (at != end) {
      int64_t size = -1;
      const auto [next, error] = std::from_chars(at, end, size);
      const bool more = next != end && *next == 'x' && next + 1 != end;
      if (error != std::errc() || size < 0 || (next != end && !more)) {
        throw CommandError(flag + ": got the shape '" + sizes + "' of '" + name + "', want " +
                           kWant);
      }
      shape.push_back(size);
      at = more ? next + 1 : next;
    }
    if (!shapes.emplace(name, shape).second) {
      throw CommandError(flag + ": '" + name + "' is there twice");
    }
  }
  return shapes;
}

std::map<std::string, std::string> parse_files(const std::string& flag, const std::string& text) {
  std::map<std::string, std::string> files;
  for (const auto& [name, file] :
       pairs(flag, text, /*last_colon=*/false, "NAME:FILE, such as --loadInputs=x:image.npy")) {
    if (!files.emplace(name, file).second) {
      throw CommandError(flag + ": '" + name + "' is there twice");
    }
  }
  return files;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

}  // namespace tv::cli
