#pragma once
// The files that kernels are written in: templates, what they include, and what these define.

#include <set>
#include <string>
#include <vector>

namespace tv {

/// Appends a file with its includes replaced by text, each once; its #extension lines go to
/// `extensions`, as GLSL wants them before anything else. Throws Error(kInternal) where there is no
/// such file; the message says `wanted_by`.
void expand(const std::string& file, const std::string& wanted_by, std::set<std::string>& seen,
            std::string& extensions, std::string& text);

/// Names of functions.
using Functions = std::set<std::string, std::less<>>;

/// Whether the text has the name of one of them.
bool calls_any(const std::string& text, const Functions& functions);

/// Libraries that a kernel gets where it calls one of their functions: parsing all of math.glsl
/// takes longer than everything else in most kernels. arith.glsl alone is always there.
struct MathLibrary {
  const char* file;
  Functions functions;
};
const std::vector<MathLibrary>& math_libraries();

/// What kernels call to say that a value is none that the operator takes.
const Functions& value_checks();

}  // namespace tv
