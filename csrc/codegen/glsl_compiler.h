#pragma once
// GLSL → SPIR-V through libglslang (compile_kernel is declared in csrc/codegen/kernel.h).

#include <string>

namespace tv {

/// `source` with each line's number before it, for error messages and dumps.
std::string numbered(const std::string& source);

/// Version of the linked glslang, e.g. "12.0.0": part of the key of cached SPIR-V, and what a
/// tactic asks before it uses an extension.
std::string glslang_version();
/// The major number of glslang_version().
int glslang_major();

}  // namespace tv
