#pragma once
// What the code of an engine depends on, as text: the key of the engine cache.

#include <string>

#include "csrc/cache/canonical.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Digest of the program that builds engines: its sources, its kernels, the version of glslang.
const std::string& builder_digest();

/// The settings that the code of an engine depends on; equal text, equal code. Rows of
/// settings_table.h that are left out change what is built, or where: the graph says what became of
/// the partition's, paths change nothing.
std::string code_text(const Settings& settings);

/// Key material. Two equal texts stand for engines with equal code. `timed`: a cost model picks the
/// tactics. `weights`: the digest of immutable weights, else "".
std::string engine_key(const CanonicalGraph& graph, const Settings& settings,
                       const DeviceProfile& device, bool timed = false,
                       const std::string& weights = "");

/// The same for a given builder, which tests vary.
std::string engine_key_of(const std::string& builder, const CanonicalGraph& graph,
                          const Settings& settings, const DeviceProfile& device, bool timed = false,
                          const std::string& weights = "");

}  // namespace tv
