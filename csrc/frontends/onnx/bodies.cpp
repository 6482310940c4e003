// Importer: functions and the bodies of control flow, which are inlined.

#include <algorithm>

#include "csrc/frontends/onnx/file/fail.h"
#include "csrc/frontends/onnx/importer.h"

namespace tv::onnx {
namespace {

using Attributes = std::map<std::string, const onnx_proto::AttributeProto*>;

// Replaces references to the function's attributes; one that the caller left out goes.
void bind_attributes(onnx_proto::NodeProto& node, const Attributes& given, int depth) {
  if (depth > 32) fail("[onnx] bodies nest deeper than 32");
  google::protobuf::RepeatedPtrField<onnx_proto::AttributeProto> bound;
  for (auto& attribute : *node.mutable_attribute()) {
    if (!attribute.ref_attr_name().empty()) {
      const auto found = given.find(attribute.ref_attr_name());
      if (found == given.end()) continue;
      auto* copy = bound.Add();
      *copy = *found->second;
      copy->set_name(attribute.name());
      continue;
    }
    auto* copy = bound.Add();
    copy->Swap(&attribute);
    for (auto& inner : *copy->mutable_g()->mutable_node()) bind_attributes(inner, given, depth + 1);
  }
  node.mutable_attribute()->Swap(&bound);
}

bool refers_to_attributes(const onnx_proto::NodeProto& node) {
  for (const auto& attribute : node.attribute()) {
    if (!attribute.ref_attr_name().empty()) return true;
    for (const auto& inner : attribute.g().node()) {
      if (refers_to_attributes(inner)) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Tensor> Importer::run_function(const onnx_proto::FunctionProto& function,
                                           const onnx_proto::NodeProto& node,
                                           const std::vector<Tensor>& inputs) {
  if (static_cast<int>(inputs.size()) > function.input_size()) {
    fail("has " + std::to_string(inputs.size()) + " inputs, its function takes " +
         std::to_string(function.input_size()));
  }
  Attributes given;
  for (const auto& attribute : function.attribute_proto()) given[attribute.name()] = &attribute;
  for (const auto& attribute : node.attribute()) given[attribute.name()] = &attribute;
  const auto* nodes = &function.node();
  const bool refers = std::any_of(nodes->begin(), nodes->end(), refers_to_attributes);
  if (refers) {
    // Stored tensors refer to nodes (constants of attributes), so the copy lives with the model.
    auto body = std::make_shared<google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>>(*nodes);
    model_->bodies.push_back(body);
    for (auto& inner : *body) bind_attributes(inner, given, 0);
    nodes = body.get();
  }

  Scope scope;
  for (const auto& import : function.opset_import()) {
    scope.opsets[import.domain()] = import.version();
    const bool is_onnx = import.domain().empty() || import.domain() == "ai.onnx";
    if (is_onnx && import.version() > kNewestOpset) refuse(newer_opset(import.version()));
  }
  for (int i = 0; i < function.input_size(); ++i) {
    const auto k = static_cast<size_t>(i);
    scope.names[function.input(i)] = k < inputs.size() ? inputs[k] : Tensor{};
  }
  run_nodes(*nodes, scope);
  std::vector<Tensor> outputs;
  for (int i = 0; i < node.output_size() && i < function.output_size(); ++i) {
    const Tensor* value = scope.find(function.output(i));
    if (!value) fail("no node of its function makes the output \"" + function.output(i) + "\"");
    outputs.push_back(*value);
  }
  outputs.resize(static_cast<size_t>(node.output_size()));
  return outputs;
}

std::vector<Tensor> Importer::run_body(const onnx_proto::GraphProto& body, const Scope& outer,
                                       const std::vector<Tensor>& inputs) {
  if (static_cast<int>(inputs.size()) != body.input_size()) {
    fail("its body takes " + std::to_string(body.input_size()) + " inputs, want " +
         std::to_string(inputs.size()));
  }
  Scope scope{.outer = &outer, .names = {}, .opsets = outer.opsets};
  add_initializers(body, scope);
  for (int i = 0; i < body.input_size(); ++i) {
    scope.names[body.input(i).name()] = inputs[static_cast<size_t>(i)];
  }
  run_nodes(body.node(), scope);
  std::vector<Tensor> outputs;
  for (const auto& output : body.output()) {
    const Tensor* value = scope.find(output.name());
    if (!value) fail("no node of its body makes the output \"" + output.name() + "\"");
    if (value->widened) {
      refuse("output \"" + output.name() + "\" of its body is of type " +
             type_name(value->widened));
    }
    outputs.push_back(*value);
  }
  return outputs;
}

}  // namespace tv::onnx
