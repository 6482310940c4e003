#pragma once
// The key of the engine cache: everything that the code of an engine depends on, as text.

#include <string>

#include "csrc/cache/canonical.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Digest of the program that builds engines: its sources, its kernels, the version of glslang.
const std::string& builder_digest();

/// The settings that the code of an engine depends on; equal text, equal code. The other rows of
/// settings_table.h do not affect it, except through the graph, as those of the partition do.
std::string code_text(const Settings& settings);

/// Key material: equal texts stand for engines with equal code. `timed`: a cost model chooses the
/// tactics. `weights`: the digest of immutable weights, else "".
std::string engine_key(const CanonicalGraph& graph, const Settings& settings,
                       const DeviceProfile& device, bool timed = false,
                       const std::string& weights = "");

/// The same for a given builder, for tests.
std::string engine_key_of(const std::string& builder, const CanonicalGraph& graph,
                          const Settings& settings, const DeviceProfile& device, bool timed = false,
                          const std::string& weights = "");

}  // namespace tv
