#include "csrc/codegen/kernel_files.h"

#include <cctype>
#include <sstream>

#include "csrc/codegen/kernel_source.h"
#include "csrc/user_code.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

const std::string& kernel_file(const std::string& file, const std::string& wanted_by) {
  const auto& sources = kernel_sources();
  const auto it = sources.find(file);
  if (it == sources.end()) {
    throw Error(ErrorKind::kInternal,
                "[codegen] " + wanted_by + ": there is no kernel file " + file);
  }
  return it->second;
}

/// Functions that some files define.
Functions functions_of(std::initializer_list<const char*> files) {
  Functions found;
  for (const char* file : files) {
    std::istringstream in(kernel_file(file, "math"));
    for (std::string line; std::getline(in, line);) {
      const size_t at = line.find("tv_"), end = line.find('(');
      if (line.starts_with(' ') || line.starts_with('/') || at > end || end == line.npos) continue;
      found.insert(line.substr(at, end - at));
    }
  }
  return found;
}

}  // namespace

void expand(const std::string& file, const std::string& wanted_by, std::set<std::string>& seen,
            std::string& extensions, std::string& text) {
  if (!seen.insert(file).second) return;
  // Messages about a user's text name its own lines: string 1 of the source.
  const std::string* user = file == wanted_by + ".comp" ? find_user_kernel(wanted_by) : nullptr;
  std::istringstream in(user != nullptr ? *user : kernel_file(file, wanted_by));
  if (user != nullptr) text += "#line 1 1\n";
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("#extension")) {
      extensions += line + "\n";
      if (user != nullptr) text += "\n";
    } else if (line.starts_with("#include")) {
      const size_t from = line.find('"'), to = line.rfind('"');
      if (from == to) throw Error(ErrorKind::kInternal, "[codegen] " + file + ": " + line);
      expand(line.substr(from + 1, to - from - 1), file, seen, extensions, text);
      if (user != nullptr) text += "#line " + std::to_string(number + 1) + " 1\n";
    } else {
      text += line + "\n";
    }
  }
}

bool calls_any(const std::string& text, const Functions& functions) {
  for (size_t at = text.find("tv_"); at != std::string::npos; at = text.find("tv_", at + 1)) {
    size_t end = at;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
      ++end;
    if (functions.contains(std::string_view(text).substr(at, end - at))) return true;
  }
  return false;
}

const std::vector<MathLibrary>& math_libraries() {
  static const std::vector<MathLibrary> libraries = {
      {"math.glsl", functions_of({"math.glsl", "trig.glsl", "special.glsl"})},
      {"gamma.glsl", functions_of({"gamma.glsl"})},
      {"incomplete_gamma.glsl", functions_of({"incomplete_gamma.glsl"})},
      {"bessel.glsl", functions_of({"bessel.glsl"})},
      {"orthogonal.glsl", functions_of({"orthogonal.glsl"})},
      {"small_floats.glsl", functions_of({"small_floats.glsl"})}};
  return libraries;
}

const Functions& value_checks() {
  static const Functions functions = {"tv_place", "tv_divisor", "tv_bad_index"};
  return functions;
}

}  // namespace tv
