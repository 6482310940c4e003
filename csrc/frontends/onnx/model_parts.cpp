#include "csrc/frontends/onnx/model_parts.h"

#include <limits>
#include <map>
#include <set>

#include "csrc/frontends/onnx/file/model.h"
#include "csrc/frontends/onnx/file/tensor.h"
#include "runtime/base/error.h"

namespace tv::onnx {
namespace {

/// TensorProto.DataType of a type; 0 if ONNX has none.
int32_t type_of(DType dtype) {
  constexpr int32_t kTypes = 64;  // more than there are
  for (int32_t type = 1; type < kTypes; ++type) {
    if (dtype != DType::kOther && dtype_of(type) == dtype) return type;
  }
  return 0;
}

bool is_constant(const Host& host) {
  return std::all_of(host.ints.begin(), host.ints.end(),
                     [](const Expr& value) { return value.is_constant(); });
}

}  // namespace

/// Makes one part.
class ModelParts::Cutter {
 public:
  Cutter(const ModelParts& parts, std::span<const size_t> nodes)
      : parts_(parts), file_(parts.model_->proto.graph()), kept_(nodes.begin(), nodes.end()) {
    for (const size_t n : std::set<size_t>(kept_)) add_constants(n);
    for (const size_t n : kept_) {
      for (const std::string& name : parts.imported_.nodes.at(n).writes) made_.insert(name);
    }
  }

  std::optional<std::vector<uint8_t>> run();

 private:
  void add_constants(size_t reader);
  bool add_reads();
  bool add_input(const std::string& name);
  void add_constant(const std::string& name, const Host& host);
  void add_weights();
  void embed(onnx_proto::TensorProto& made, const onnx_proto::TensorProto& tensor) const;
  void embed(onnx_proto::NodeProto& made, const onnx_proto::NodeProto& node) const;
  void embed(onnx_proto::GraphProto& made, const onnx_proto::GraphProto& graph) const;
  void add_outputs();
  bool set_type(const std::string& name, onnx_proto::ValueInfoProto& info) const;

  const ModelParts& parts_;
  const onnx_proto::GraphProto& file_;
  std::set<size_t> kept_;
  std::set<std::string> made_, read_;
  onnx_proto::ModelProto part_;
};

// Nodes that read nothing and make what a node reads.
void ModelParts::Cutter::add_constants(size_t reader) {
  const std::vector<FileNode>& nodes = parts_.imported_.nodes;
  const auto& reads = nodes.at(reader).reads;
  const std::set<std::string> names(reads.begin(), reads.end());
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!nodes[n].reads.empty()) continue;
    for (const std::string& name : nodes[n].writes) {
      if (names.contains(name)) kept_.insert(n);
    }
  }
}

bool ModelParts::Cutter::set_type(const std::string& name, onnx_proto::ValueInfoProto& info) const {
  const auto found = parts_.imported_.names.find(name);
  if (found == parts_.imported_.names.end() || found->second.id == kNoValue) return false;
  const Value& value = parts_.imported_.graph.value(found->second.id);
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type_of(value.dtype));
  if (tensor->elem_type() == 0) return false;
  tensor->mutable_shape();
  for (const Expr& dim : value.shape) {
    const auto size = dim.constant();
    if (!size) return false;
    tensor->mutable_shape()->add_dim()->set_dim_value(*size);
  }
  return true;
}

void ModelParts::Cutter::add_constant(const std::string& name, const Host& host) {
  onnx_proto::TensorProto& tensor = *part_.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type_of(host.dtype));
  for (const int64_t size : host.dims) tensor.add_dims(size);
  const std::vector<uint8_t> bytes = host_bytes(host);
  tensor.set_raw_data(bytes.data(), bytes.size());
}

bool ModelParts::Cutter::add_input(const std::string& name) {
  const auto found = parts_.imported_.names.find(name);
  const std::shared_ptr<const Host> host =
      found == parts_.imported_.names.end() ? nullptr : found->second.host;
  if (host && is_constant(*host) && type_of(host->dtype) != 0) {
    add_constant(name, *host);
    return true;
  }
  onnx_proto::ValueInfoProto info;
  info.set_name(name);
  const bool known = set_type(name, info);
  if (known) {
    *part_.mutable_graph()->add_input() = info;
    return true;
  }
  for (const auto& input : file_.input()) {  // of a type that engines do not hold
    if (input.name() != name) continue;
    *part_.mutable_graph()->add_input() = input;
    return true;
  }
  return false;
}

bool ModelParts::Cutter::add_reads() {
  std::set<std::string> in_file;
  for (const auto& tensor : file_.initializer()) in_file.insert(tensor.name());
  for (const auto& tensor : file_.sparse_initializer()) in_file.insert(tensor.values().name());
  for (const size_t n : kept_) {
    for (const std::string& name : parts_.imported_.nodes.at(n).reads) {
      if (!read_.insert(name).second || made_.contains(name) || in_file.contains(name)) continue;
      if (!add_input(name)) return false;
    }
  }
  return true;
}

// The bytes of external data come inside: of a tensor, and of all that a node's attributes hold.
// `made` is a copy of what the file has, which loads them.
void ModelParts::Cutter::embed(onnx_proto::TensorProto& made,
                               const onnx_proto::TensorProto& tensor) const {
  if (tensor.data_location() != onnx_proto::TensorProto::EXTERNAL) return;
  const auto stored = check_tensor(parts_.model_, tensor);
  if (!stored->load_raw) return;  // of a type that is not read: it stays where it is
  const WeightBytes bytes = stored->load_raw();
  made.clear_external_data();
  made.clear_data_location();
  made.set_raw_data(bytes.bytes.data(), bytes.bytes.size());
}

void ModelParts::Cutter::embed(onnx_proto::NodeProto& made,
                               const onnx_proto::NodeProto& node) const {
  for (int i = 0; i < node.attribute_size(); ++i) {
    const onnx_proto::AttributeProto& from = node.attribute(i);
    onnx_proto::AttributeProto& to = *made.mutable_attribute(i);
    if (from.has_t()) embed(*to.mutable_t(), from.t());
    if (from.has_g()) embed(*to.mutable_g(), from.g());
    for (int n = 0; n < from.tensors_size(); ++n) embed(*to.mutable_tensors(n), from.tensors(n));
    for (int n = 0; n < from.graphs_size(); ++n) embed(*to.mutable_graphs(n), from.graphs(n));
  }
}

void ModelParts::Cutter::embed(onnx_proto::GraphProto& made,
                               const onnx_proto::GraphProto& graph) const {
  for (int i = 0; i < graph.initializer_size(); ++i) {
    embed(*made.mutable_initializer(i), graph.initializer(i));
  }
  for (int i = 0; i < graph.node_size(); ++i) embed(*made.mutable_node(i), graph.node(i));
}

void ModelParts::Cutter::add_weights() {
  onnx_proto::GraphProto& graph = *part_.mutable_graph();
  for (const auto& tensor : file_.initializer()) {
    if (!read_.contains(tensor.name()) || made_.contains(tensor.name())) continue;
    embed(*graph.add_initializer() = tensor, tensor);
  }
  for (const auto& tensor : file_.sparse_initializer()) {
    if (read_.contains(tensor.values().name())) *graph.add_sparse_initializer() = tensor;
  }
}

void ModelParts::Cutter::add_outputs() {
  std::set<std::string> wanted;
  for (const auto& output : file_.output()) wanted.insert(output.name());
  const std::vector<FileNode>& nodes = parts_.imported_.nodes;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!kept_.contains(n)) wanted.insert(nodes[n].reads.begin(), nodes[n].reads.end());
  }
  // Of nodes that read something: a constant is no result.
  std::set<std::string> added;
  for (const size_t n : kept_) {
    if (nodes[n].reads.empty()) continue;
    for (const std::string& name : nodes[n].writes) {
      if (name.empty() || !wanted.contains(name) || !added.insert(name).second) continue;
      onnx_proto::ValueInfoProto info;
      if (!set_type(name, info)) info.Clear();
      info.set_name(name);
      *part_.mutable_graph()->add_output() = info;
    }
  }
}

std::optional<std::vector<uint8_t>> ModelParts::Cutter::run() {
  const onnx_proto::ModelProto& file = parts_.model_->proto;
  part_.set_ir_version(file.ir_version());
  *part_.mutable_opset_import() = file.opset_import();
  *part_.mutable_functions() = file.functions();
  part_.mutable_graph()->set_name(file_.name().empty() ? "part" : file_.name());
  for (const size_t n : kept_) {
    const onnx_proto::NodeProto& node = file_.node(static_cast<int>(n));
    embed(*part_.mutable_graph()->add_node() = node, node);
  }
  if (!add_reads()) return std::nullopt;
  add_weights();
  add_outputs();
  if (part_.graph().output_size() == 0) return std::nullopt;
  if (part_.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw Error(ErrorKind::kUser, "[onnx] a part of the model has more than 2 GiB");
  }
  std::vector<uint8_t> bytes(part_.ByteSizeLong());
  if (!part_.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error(ErrorKind::kInternal, "[onnx] a part of the model cannot be written");
  }
  return bytes;
}

ModelParts::ModelParts(const std::string& path, ImportOptions options)
    : model_(read_model(path, options.directory)) {
  options.partial = true;
  imported_ = import_model(model_, std::move(options));
}

ModelParts::~ModelParts() = default;

std::vector<size_t> ModelParts::nodes() const {
  std::vector<size_t> found;
  for (size_t n = 0; n < imported_.nodes.size(); ++n) {
    if (!imported_.nodes[n].reads.empty()) found.push_back(n);
  }
  return found;
}

std::optional<std::vector<uint8_t>> ModelParts::cut(std::span<const size_t> nodes) const {
  return nodes.empty() ? std::nullopt : Cutter(*this, nodes).run();
}

}  // namespace tv::onnx
