#pragma once
// Engines of kernels on matrix units, for the interpreter: made by the compiler for the profile of
// a GPU that is not here.

#include <filesystem>
#include <string>
#include <vector>

#include "workloads/tactic_tools.h"

namespace tv::test {

/// An NVIDIA H200 as its driver describes it, as far as the compiler asks.
DeviceProfile h200_profile();

/// The module of a kernel's text that names GL_KHR_cooperative_matrix. With a glslang before 14 it
/// is compiled with GL_NV_cooperative_matrix, which says the same by other names.
std::vector<uint32_t> matrix_module(const std::string& name, const std::string& glsl,
                                    const Settings& settings);

/// Whether a tactic applies, but perhaps for such a glslang.
bool is_interpreted(const CandidateTactic& tactic);

/// A fault to put into kernels: this text in place of that.
struct KernelEdit {
  std::string from, to;
};

/// The engine of `graph` in which the first node with `op` takes this tactic. `cache`: a directory
/// of the caller's own. With an edit: of a graph whose only kernels are this node's, one of which
/// has the text.
EngineSpec engine_with_tactic(const Graph& graph, const std::string& op, const std::string& tactic,
                              Settings settings, const DeviceProfile& profile,
                              const std::filesystem::path& cache, const KernelEdit& edit = {});

/// The tactics that this node would take, in order.
std::vector<CandidateTactic> interpreted_tactics(const Graph& graph, const std::string& op,
                                                 const Settings& settings,
                                                 const DeviceProfile& profile);

}  // namespace tv::test
