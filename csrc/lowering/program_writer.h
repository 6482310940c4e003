#pragma once

#include <map>
#include <string>
#include <vector>

#include "csrc/cost_model.h"
#include "csrc/lowering/buffers.h"
#include "csrc/lowering/requests.h"

namespace tv {

/// Appends the launches of nodes to a specification: generates their kernels, shares modules and
/// pipelines, and splits launches into the weight program and the dispatch list.
class ProgramWriter {
 public:
  /// All of them must outlive the writer.
  struct Parts {
    const Settings& settings;
    const DeviceProfile& device;
    ValueTable& table;
    BufferTable& buffers;
    EngineSpec& spec;
  };
  explicit ProgramWriter(const Parts& parts) : parts_(parts) {}

  /// Marks what the tactic writes as constant or not (mark_constant_steps). `where`: dispatches run
  /// where it is 1, and have no workgroups where it is 0.
  void add(const Node& node, const Tactic& tactic, const Expr& where = 1);
  /// The text of each module so far.
  std::vector<TacticProgram::Kernel> kernels() const;

 private:
  Dispatch make_dispatch(const Node& node, const StepRequest& request, bool constant);
  uint32_t module_of(const std::string& kernel, std::string glsl);
  uint32_t pipeline_of(Pipeline pipeline);

  struct Module {
    std::string kernel;
    const std::string* glsl;  // key in module_ids_
  };
  Parts parts_;
  std::vector<Module> modules_;
  std::map<std::string, uint32_t> module_ids_;  // GLSL text → module
};

}  // namespace tv
