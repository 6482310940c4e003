#include "integrations/onnxruntime/graph_model.h"

#include <cstring>
#include <set>

#include "csrc/frontends/onnx/file/tensor.h"
#include "integrations/onnxruntime/aligned_memory.h"

namespace tv::ort {
namespace {

using onnx_proto::AttributeProto;
using onnx_proto::GraphProto;
using onnx_proto::NodeProto;
using onnx_proto::TensorProto;
using onnx_proto::ValueInfoProto;

/// A node that the runtime does not show whole.
struct Unreadable {
  std::string reason;
};

bool is_there(const Ort::ConstValueInfo& value) {
  return static_cast<const OrtValueInfo*>(value) != nullptr;
}

/// Bytes of a tensor; none for strings.
std::span<const uint8_t> bytes_of(const Ort::ConstValue& value) {
  const auto info = value.GetTensorTypeAndShapeInfo();
  const ONNXTensorElementDataType type = info.GetElementType();
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return {};
  const auto count = static_cast<int64_t>(info.GetElementCount());
  const int64_t size = onnx::stored_bytes(onnx_type(type), count);
  if (size == 0) return {};
  return {static_cast<const uint8_t*>(value.GetTensorRawData()), static_cast<size_t>(size)};
}

/// Name, type and sizes.
void set_header(TensorProto& tensor, const std::string& name, const Ort::ConstValue& value) {
  const auto info = value.GetTensorTypeAndShapeInfo();
  tensor.set_name(name);
  tensor.set_data_type(onnx_type(info.GetElementType()));
  for (const int64_t size : info.GetShape()) tensor.add_dims(size);
}

void set_data(TensorProto& tensor, const Ort::ConstValue& value) {
  const std::span<const uint8_t> bytes = bytes_of(value);
  tensor.set_raw_data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// The value of an initializer; null for what is none.
Ort::ConstValue initializer_of(const Ort::ConstValueInfo& info) {
  const OrtValue* value = nullptr;
  Ort::ThrowOnError(api().ort->ValueInfo_GetInitializerValue(info, &value));
  return Ort::ConstValue{value};
}

/// The type of a value, as far as the runtime knows it. `is_result`: of a node, whose rank of 0 a
/// runtime before API 24 also gives where it knows none.
void set_type(ValueInfoProto& into, const Ort::ConstValueInfo& value, bool is_result) {
  into.set_name(value.GetName());
  const Ort::ConstTypeInfo type = value.TypeInfo();
  if (static_cast<const OrtTypeInfo*>(type) == nullptr) return;
  if (type.GetONNXType() != ONNX_TYPE_TENSOR) return;
  const auto info = type.GetTensorTypeAndShapeInfo();
  auto& tensor = *into.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx_type(info.GetElementType()));
  const std::vector<int64_t> sizes = info.GetShape();
  const bool known = api().has_shape ? api().has_shape(info) : !sizes.empty() || !is_result;
  if (!known) return;
  auto& shape = *tensor.mutable_shape();
  const std::vector<const char*> names = info.GetSymbolicDimensions();
  for (size_t i = 0; i < sizes.size(); ++i) {
    auto& dim = *shape.add_dim();
    if (sizes[i] >= 0) {
      dim.set_dim_value(sizes[i]);
    } else if (names[i] && *names[i]) {
      dim.set_dim_param(names[i]);
    }
  }
}

template <typename T>
std::vector<T> list_of(const Ort::ConstOpAttr& attribute) {
  std::vector<T> values;
  const Ort::Status status = attribute.GetValueArray(values);
  if (!status.IsOK()) throw Unreadable{status.GetErrorMessage()};
  return values;
}

template <typename T>
T one_of(const Ort::ConstOpAttr& attribute) {
  T value{};
  const Ort::Status status = attribute.GetValue(value);
  if (!status.IsOK()) throw Unreadable{status.GetErrorMessage()};
  return value;
}

void set_tensor(AttributeProto& into, const Ort::ConstOpAttr& attribute) {
  Ort::Value value{nullptr};
  const Ort::Status status = attribute.GetTensorAttributeAsOrtValue(value);
  if (!status.IsOK()) throw Unreadable{status.GetErrorMessage()};
  set_header(*into.mutable_t(), "", value.GetConst());
  set_data(*into.mutable_t(), value.GetConst());
}

void set_attribute(AttributeProto& into, const Ort::ConstOpAttr& attribute) {
  into.set_name(attribute.GetName());
  OrtOpAttrType kind = ORT_OP_ATTR_UNDEFINED;
  const Ort::Status status{api().ort->OpAttr_GetType(attribute, &kind)};
  if (!status.IsOK()) throw Unreadable{status.GetErrorMessage()};
  switch (kind) {
    case ORT_OP_ATTR_INT:
      into.set_type(AttributeProto::INT);
      into.set_i(one_of<int64_t>(attribute));
      break;
    case ORT_OP_ATTR_INTS:
      into.set_type(AttributeProto::INTS);
      for (const int64_t value : list_of<int64_t>(attribute)) into.add_ints(value);
      break;
    case ORT_OP_ATTR_FLOAT:
      into.set_type(AttributeProto::FLOAT);
      into.set_f(one_of<float>(attribute));
      break;
    case ORT_OP_ATTR_FLOATS:
      into.set_type(AttributeProto::FLOATS);
      for (const float value : list_of<float>(attribute)) into.add_floats(value);
      break;
    case ORT_OP_ATTR_STRING:
      into.set_type(AttributeProto::STRING);
      into.set_s(one_of<std::string>(attribute));
      break;
    case ORT_OP_ATTR_STRINGS:
      into.set_type(AttributeProto::STRINGS);
      for (const std::string& value : list_of<std::string>(attribute)) into.add_strings(value);
      break;
    case ORT_OP_ATTR_TENSOR:
      into.set_type(AttributeProto::TENSOR);
      set_tensor(into, attribute);
      break;
    default:
      throw Unreadable{"attribute " + attribute.GetName() + " is of a kind that is not shown"};
  }
}

void set_graph(GraphProto& into, const Ort::ConstGraph& graph);

/// Throws Unreadable, after the names are set.
void set_node(NodeProto& into, const Ort::ConstNode& node) {
  into.set_name(node.GetName());
  into.set_op_type(node.GetOperatorType());
  into.set_domain(node.GetDomain());
  for (const auto& value : node.GetInputs()) into.add_input(is_there(value) ? value.GetName() : "");
  for (const auto& value : node.GetOutputs()) {
    into.add_output(is_there(value) ? value.GetName() : "");
  }
  std::set<std::string> bodies;
  for (const auto& body : node.GetSubgraphs()) {
    AttributeProto& attribute = *into.add_attribute();
    attribute.set_name(body.attr_name);
    attribute.set_type(AttributeProto::GRAPH);
    set_graph(*attribute.mutable_g(), body.sub_graph);
    bodies.insert(body.attr_name);
  }
  for (const auto& attribute : node.GetAttributes()) {
    if (!bodies.contains(attribute.GetName())) set_attribute(*into.add_attribute(), attribute);
  }
}

/// A body of a node.
void set_graph(GraphProto& into, const Ort::ConstGraph& graph) {
  std::set<std::string> constants;
  for (const auto& info : graph.GetInitializers()) {
    if (info.IsFromOuterScope() || !info.IsConstantInitializer()) continue;
    TensorProto& tensor = *into.add_initializer();
    const Ort::ConstValue value = initializer_of(info);
    set_header(tensor, info.GetName(), value);
    set_data(tensor, value);
    constants.insert(info.GetName());
  }
  for (const auto& value : graph.GetInputs()) {
    if (!constants.contains(value.GetName())) set_type(*into.add_input(), value, false);
  }
  for (const auto& value : graph.GetOutputs()) set_type(*into.add_output(), value, true);
  for (const auto& node : graph.GetNodes()) set_node(*into.add_node(), node);
}

/// Inputs, and initializers that a caller may override: these have a value only when they run.
void set_inputs(GraphProto& into, const Ort::ConstGraph& graph) {
  std::set<std::string> known;
  for (const auto& info : graph.GetInitializers()) {
    if (!info.IsConstantInitializer()) continue;
    TensorProto& tensor = *into.add_initializer();
    set_header(tensor, info.GetName(), initializer_of(info));
    tensor.set_data_location(TensorProto::EXTERNAL);
    known.insert(info.GetName());
  }
  for (const auto& values : {graph.GetInputs(), graph.GetInitializers()}) {
    for (const auto& value : values) {
      if (known.insert(value.GetName()).second) set_type(*into.add_input(), value, false);
    }
  }
}

}  // namespace

void Elements::show(const Ort::ConstGraph& graph) {
  for (const auto& info : graph.GetInitializers()) {
    if (!info.IsConstantInitializer()) continue;
    known_[info.GetName()] = bytes_of(initializer_of(info));
  }
}

void Elements::keep() {
  for (const auto& [name, bytes] : known_) {
    const std::shared_ptr<uint8_t> own = aligned_memory(static_cast<int64_t>(bytes.size()));
    if (!bytes.empty()) std::memcpy(own.get(), bytes.data(), bytes.size());
    kept_[name] = {{own.get(), bytes.size()}, own};
  }
}

onnx::WeightBytes Elements::of(const std::string& name) const {
  if (const auto kept = kept_.find(name); kept != kept_.end()) return kept->second;
  const auto found = known_.find(name);
  if (found == known_.end()) {
    throw Error(ErrorKind::kInternal, "the initializer \"" + name + "\" is not there");
  }
  return {found->second, nullptr};
}

GraphModel read_graph(const Ort::ConstGraph& graph) {
  GraphModel made{.elements = std::make_shared<Elements>()};
  auto model = std::make_shared<onnx::Model>();
  model->elements = [elements = made.elements](const std::string& name) {
    return elements->of(name);
  };
  model->proto.set_ir_version(graph.GetOnnxIRVersion());
  for (const auto& opset : graph.GetOperatorSets()) {
    auto& import = *model->proto.add_opset_import();
    import.set_domain(opset.domain);
    import.set_version(opset.version);
  }
  GraphProto& into = *model->proto.mutable_graph();
  into.set_name(graph.GetName());
  set_inputs(into, graph);
  for (const auto& value : graph.GetOutputs()) set_type(*into.add_output(), value, true);
  for (const auto& node : graph.GetNodes()) {
    const auto index = static_cast<int32_t>(made.nodes.size());
    made.nodes.push_back(node);
    const char* provider = nullptr;
    Ort::ThrowOnError(api().ort->Node_GetEpName(node, &provider));
    if (provider && *provider) {
      made.left_out[index] = std::string("it is assigned to ") + provider;
    }
    NodeProto& as = *into.add_node();
    try {
      set_node(as, node);
    } catch (const Unreadable& unreadable) {
      made.left_out[index] = unreadable.reason;
      for (const auto& value : node.GetImplicitInputs()) as.add_input(value.GetName());
    }
    for (const auto& value : node.GetOutputs()) {
      if (is_there(value) && !value.IsGraphOutput()) set_type(*into.add_value_info(), value, true);
    }
  }
  made.model = std::move(model);
  return made;
}

}  // namespace tv::ort
