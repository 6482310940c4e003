#include "csrc/division/division.h"

#include "csrc/frontends/onnx/file/model.h"

namespace tv::onnx {
namespace {

ImportOptions options_of(const DivisionRequest& request) {
  ImportOptions options = request.import;
  options.partial = true;
  for (const auto& [name, value] : options.constants) options.inputs.erase(name);
  return options;
}

}  // namespace

ImportedModel import_of(const DivisionRequest& request) {
  return import_model(request.model, options_of(request));
}

Division divide(const DivisionRequest& request, const Settings& settings,
                const DeviceProfile& device, const std::function<bool(Division&)>& is_whole) {
  ImportOptions import = options_of(request);
  Division made;
  for (;;) {
    made.model = import_model(request.model, import);
    if (is_whole && is_whole(made)) return made;
    made.plan = plan(made.model.graph, settings, device);
    const size_t before = import.left_out.size();
    for (const NativeNode& native : made.plan.parts.native) {
      const int32_t at = made.plan.graph.nodes[static_cast<size_t>(native.node)].origin.index;
      if (at >= 0 && made.model.nodes.at(static_cast<size_t>(at)).refusal.empty()) {
        import.left_out.emplace(at, native.reason);
      }
    }
    if (import.left_out.size() == before) return made;
  }
}

}  // namespace tv::onnx
