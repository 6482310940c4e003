#include "csrc/frontends/onnx/file/module_path.h"

#include <algorithm>
#include <vector>

#include "onnx_ml.pb.h"

namespace tv::onnx {
namespace {

/// The texts in a Python list of them: "['', 'layer1', 'layer1.conv1', 'conv2d']".
std::vector<std::string> texts(const std::string& list) {
  std::vector<std::string> out;
  size_t at = 0;
  while ((at = list.find('\'', at)) != std::string::npos) {
    const size_t end = list.find('\'', at + 1);
    if (end == std::string::npos) break;
    out.push_back(list.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return out;
}

bool printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

std::string module_path(const onnx_proto::NodeProto& node) {
  for (const auto& property : node.metadata_props()) {
    if (property.key() != "pkg.torch.onnx.name_scopes") continue;
    const std::vector<std::string> scopes = texts(property.value());
    // The last one is the operator; before it come the modules, the outermost without a name.
    if (scopes.size() < 2 || !printable(scopes[scopes.size() - 2])) break;
    if (!scopes[scopes.size() - 2].empty()) return scopes[scopes.size() - 2];
    break;
  }
  const std::string& name = node.name();
  const size_t last = name.rfind('/');
  if (name.size() > 1 && name[0] == '/' && last > 0) {
    std::string path = name.substr(1, last - 1);
    std::replace(path.begin(), path.end(), '/', '.');
    return path;
  }
  return name.empty() && node.output_size() > 0 ? node.output(0) : name;
}

}  // namespace tv::onnx
