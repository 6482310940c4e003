#include "integrations/onnxruntime/weight_source.h"

#include <algorithm>
#include <cstring>

#include "csrc/frontends/onnx/file/tensor.h"
#include "runtime/base/sha256.h"

namespace tv::ort {
namespace {

using onnx_proto::AttributeProto;
using onnx_proto::GraphProto;
using onnx_proto::NodeProto;
using onnx_proto::TensorProto;

/// The tensor of a Constant node; null for others.
const TensorProto* constant_of(const NodeProto& node) {
  if (node.op_type() != "Constant" || !node.domain().empty()) return nullptr;
  for (const AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == "value" && attribute.has_t()) return &attribute.t();
  }
  return nullptr;
}

/// Digest of messages without what only people read.
class NetworkDigest {
 public:
  NetworkDigest(const std::shared_ptr<const onnx::Model>& model, const std::set<std::string>& free)
      : model_(model), free_(free) {}

  std::string run() {
    const auto& proto = model_->proto;
    for (const auto& opset : proto.opset_import()) add(opset);
    for (const auto& function : proto.functions()) add(function);
    add_graph(proto.graph(), true);
    return sha256_hex(std::span<const uint8_t>(sha_.finish()));
  }

 private:
  template <typename Message>
  void add(const Message& message) {
    add_bytes(message.SerializeAsString());
  }

  void add_bytes(std::string_view bytes) {
    const uint64_t size = bytes.size();
    sha_.update({reinterpret_cast<const uint8_t*>(&size), sizeof size});
    sha_.update({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }

  void add_tensor(const TensorProto& tensor, const std::string& name, bool elements) {
    TensorProto header;
    header.set_name(name);
    header.set_data_type(tensor.data_type());
    *header.mutable_dims() = tensor.dims();
    add(header);
    if (!elements) return;
    const auto stored = onnx::check_tensor(model_, tensor);
    if (!stored->load_raw) return add(tensor);  // strings, and others that are in the message
    const onnx::WeightBytes raw = stored->load_raw();
    add_bytes({reinterpret_cast<const char*>(raw.bytes.data()), raw.bytes.size()});
  }

  void add_node(const NodeProto& node, bool main) {
    NodeProto bare;
    *bare.mutable_input() = node.input();
    *bare.mutable_output() = node.output();
    bare.set_op_type(node.op_type());
    bare.set_domain(node.domain());
    bare.set_overload(node.overload());
    for (const AttributeProto& attribute : node.attribute()) {
      if (!attribute.has_t() && !attribute.has_g() && attribute.graphs().empty()) {
        *bare.add_attribute() = attribute;
      }
    }
    for (AttributeProto& attribute : *bare.mutable_attribute()) attribute.clear_doc_string();
    add(bare);
    const bool is_free = main && constant_of(node) && free_.contains(node.output(0));
    for (const AttributeProto& attribute : node.attribute()) {
      if (attribute.has_t()) add_tensor(attribute.t(), attribute.name(), !is_free);
      if (attribute.has_g()) add_graph(attribute.g(), false);
      for (const GraphProto& graph : attribute.graphs()) add_graph(graph, false);
    }
  }

  void add_graph(const GraphProto& graph, bool main) {
    add_bytes(std::to_string(graph.node_size()) + " " + std::to_string(graph.initializer_size()));
    for (const auto* values : {&graph.input(), &graph.output()}) {
      add_bytes(std::to_string(values->size()));
      for (auto value : *values) {
        value.clear_doc_string();
        value.clear_metadata_props();
        add(value);
      }
    }
    for (const TensorProto& tensor : graph.initializer()) {
      add_tensor(tensor, tensor.name(), !main || !free_.contains(tensor.name()));
    }
    for (const auto& tensor : graph.sparse_initializer()) add(tensor);
    for (const NodeProto& node : graph.node()) add_node(node, main);
  }

  const std::shared_ptr<const onnx::Model>& model_;
  const std::set<std::string>& free_;
  Sha256 sha_;
};

bool same_bytes(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// Names that a node of no engine reads, and results: what they hold stays as it is.
std::set<std::string> read_by_others(const onnx::GroupedDivision& division) {
  std::set<int32_t> fused;
  for (const onnx::Group& group : division.groups)
    fused.insert(group.nodes.begin(), group.nodes.end());
  std::set<std::string> names;
  for (size_t n = 0; n < division.model.nodes.size(); ++n) {
    if (fused.contains(static_cast<int32_t>(n))) continue;
    const auto& reads = division.model.nodes[n].reads;
    names.insert(reads.begin(), reads.end());
  }
  for (const onnx::Binding& output : division.model.outputs) names.insert(output.name);
  return names;
}

/// Why weights stay what they are; "": they need not.
std::string why_frozen(const onnx::GroupedDivision& division, const GraphProto& given,
                       const SourceModel& source) {
  // What the runtime made of the file's tensors would have to be made again.
  for (const TensorProto& tensor : given.initializer()) {
    if (!source.has(tensor.name())) {
      return "the runtime computed \"" + tensor.name() +
             "\" when it optimised the model (ORT_DISABLE_ALL leaves it as it is)";
    }
  }
  for (const NodeProto& node : given.node()) {
    const auto is_body = [](const AttributeProto& a) { return a.has_g() || a.graphs_size() > 0; };
    if (std::ranges::any_of(node.attribute(), is_body)) {
      return node.op_type() + " \"" + node.name() + "\" has bodies";
    }
  }
  // The frontend's own constants follow from elements that it has read.
  for (const onnx::Weight& weight : division.model.weights) {
    if (!source.has(weight.name) && !weight.name.starts_with("constant")) {
      return "\"" + weight.name + "\" goes by another name in the model";
    }
  }
  return "";
}

}  // namespace

SourceModel::SourceModel(std::shared_ptr<const onnx::Model> model, std::string shown)
    : model_(std::move(model)), shown_(std::move(shown)) {
  const GraphProto& graph = model_->proto.graph();
  for (const TensorProto& tensor : graph.initializer()) tensors_.emplace(tensor.name(), &tensor);
  for (const NodeProto& node : graph.node()) {
    if (node.op_type() != "Constant" || node.output_size() != 1) continue;
    names_.insert(node.output(0));
    if (const TensorProto* tensor = constant_of(node)) tensors_.emplace(node.output(0), tensor);
  }
  for (const auto& [name, tensor] : tensors_) names_.insert(name);
}

std::optional<onnx::WeightBytes> SourceModel::weight(const std::string& name, DType dtype,
                                                     const std::vector<int64_t>& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  const auto stored = onnx::check_tensor(model_, *found->second);
  if (stored->dtype != dtype || stored->dims != shape || !stored->load_raw) return std::nullopt;
  return onnx::read_weight(*stored);
}

std::string SourceModel::network(const std::set<std::string>& free) const {
  return NetworkDigest(model_, free).run();
}

std::vector<int64_t> sizes_of(const Binding& weight) {
  std::vector<int64_t> sizes;
  for (const Expr& size : weight.shape) {
    const auto known = size.constant();
    if (!known) throw Error(ErrorKind::kUser, "the weight \"" + weight.name + "\" has no sizes");
    sizes.push_back(*known);
  }
  return sizes;
}

WeightSource source_of(const onnx::GroupedDivision& division, const GraphProto& given,
                       const SourceModel& source) {
  WeightSource made;
  for (const onnx::Weight& weight : division.model.weights) {
    const auto given = source.weight(weight.name, weight.dtype, weight.shape);
    if (given && same_bytes(given->bytes, weight.load().bytes)) {
      made.digests.emplace(weight.name, sha256_hex(given->bytes));
    }
  }
  made.frozen = why_frozen(division, given, source);
  if (made.frozen.empty()) {
    const std::set<std::string> others = read_by_others(division);
    for (const auto& [name, digest] : made.digests) {
      if (!others.contains(name) && !division.model.elements_read.contains(name)) {
        made.free.insert(name);
      }
    }
  }
  made.network = source.network(made.free);
  return made;
}

void take_weights(CompiledBlock& compiled, const WeightSource& known, const SourceModel& model,
                  bool refit) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kUser, model.shown() + ": " + what);
  };
  if (refit && model.network(known.free) != known.network) {
    fail(known.frozen.empty()
             ? "it is of another network than the EPContext node (operators, sizes, or weights "
               "that an engine's code or a node of another provider depends on)"
             : "it is not the model that the EPContext node was made of, and the node takes no "
               "other weights: " +
                   known.frozen);
  }
  for (size_t i = 0; i < compiled.spec.weights.size(); ++i) {
    const Binding& binding = compiled.spec.weights[i];
    const auto digest = known.digests.find(binding.name);
    if (digest == known.digests.end()) continue;  // the context has it
    const auto given = model.weight(binding.name, binding.dtype, sizes_of(binding));
    if (!given) fail("it has no weight \"" + binding.name + "\" of the EPContext node's type");
    if (!refit && sha256_hex(given->bytes) != digest->second) {
      fail("its weight \"" + binding.name +
           "\" is not that of the model that the EPContext node was made of (refit_from_onnx takes "
           "other weights)");
    }
    compiled.weights[i] = *given;
  }
}

}  // namespace tv::ort
