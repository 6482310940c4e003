#include "csrc/division/file_names.h"

namespace tv::onnx {

FileNames names_of(const std::vector<FileNode>& nodes, const Model& model) {
  FileNames made;
  for (const auto& output : model.proto.graph().output()) made.outputs.insert(output.name());
  for (const auto& tensor : model.proto.graph().initializer()) {
    made.initializers.insert(tensor.name());
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const std::string& name : nodes[n].writes) {
      if (!name.empty()) made.maker[name] = static_cast<int32_t>(n);
    }
    for (const std::string& name : nodes[n].reads) {
      made.readers[name].push_back(static_cast<int32_t>(n));
    }
  }
  return made;
}

}  // namespace tv::onnx
