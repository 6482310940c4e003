#pragma once
// Operators and kernels that users add while a program runs: from Python (tv.custom_op) or in a
// library of their own (tv.load_library), which includes this header and csrc/builder.h.

#include <string>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// Adds a kernel template that `Step::kernel` refers to by `name`; it comes before those of
/// converters/. Messages of the GLSL compiler have the line numbers of `text`. Throws Error(kUser)
/// if the name is taken.
void add_kernel(const std::string& name, const std::string& text);

/// Removes it again; nothing may use it yet.
void remove_kernel(const std::string& name);

/// Registers a template at static initialisation, as RegisterConverter registers a converter:
/// `const RegisterKernel kernel{"images_grey", R"(void main() { … })"};`
struct RegisterKernel {
  RegisterKernel(const std::string& name, const std::string& text);
};

/// The text of such a template; null if there is none.
const std::string* find_user_kernel(const std::string& name);

/// Loads a shared library whose static initialisers register converters and kernels; returns the
/// names of the operators that it added. Throws Error(kUser) if it cannot be loaded, or adds an
/// operator or a kernel that exists already.
std::vector<std::string> load_user_library(const std::string& path);

/// Sets the digest of the code behind an operator, for the cache's key.
void set_code_digest(const std::string& op, const std::string& digest);

/// User code behind the operators of a graph, for the cache's key: their shaders' text or their
/// libraries' contents. "": there is none.
std::string user_code_text(const Graph& graph);

/// Inside load_user_library, where an exception would end the process: keeps `message` for later
/// and returns true; else false.
bool keep_load_error(const std::string& message);

}  // namespace tv
