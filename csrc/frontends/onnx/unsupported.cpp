// What of an imported graph the converters refuse: apart, because it needs all of the compiler.

#include "csrc/partition/unsupported.h"

#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::onnx {

std::vector<std::string> unsupported_nodes(const ImportedModel& model, const Settings& settings,
                                           const DeviceProfile& device) {
  std::vector<std::string> lines;
  for (const Node& node : model.graph.nodes) {
    const std::string reason = unsupported(NodeContext{model.graph, node, device, settings});
    if (reason.empty()) continue;
    const std::string line = node.source + " " + node.op + ": " + reason;
    if (lines.empty() || lines.back() != line) lines.push_back(line);
  }
  return lines;
}

}  // namespace tv::onnx
