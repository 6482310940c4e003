#pragma once

#include <string>

namespace tv::onnx_proto {
class NodeProto;
}  // namespace tv::onnx_proto

namespace tv::onnx {

/// The module that a node was exported from, "layer1.0.conv1": torch.onnx writes it into the node's
/// metadata, its older exporter into the name ("/layer1/conv1/Conv"). Others: the node's name, or
/// that of its first output.
std::string module_path(const onnx_proto::NodeProto& node);

}  // namespace tv::onnx
