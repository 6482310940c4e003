#pragma once

#include <string>

#include "csrc/graph/graph.h"
#include "csrc/lowering/lower.h"
#include "csrc/settings.h"
#include "runtime/spec/engine_spec.h"

namespace tv {

/// Writes what the compiler did under settings.debug_dir, one folder an engine; writes nothing
/// if that is empty. Throws Error(kUser) if the folder cannot be written.
class DebugDump {
 public:
  DebugDump(const Settings& settings, const std::string& engine_name);
  void write_graph(const char* pass, const Graph& graph) const;
  /// tactics.txt (with refusals), dispatches.txt and the GLSL of each module.
  void write_lowering(const LoweringReport& report, const EngineSpec& spec) const;

 private:
  void write(const std::string& file, const std::string& text) const;
  std::string dir_;
  mutable int graphs_ = 0;
};

}  // namespace tv
