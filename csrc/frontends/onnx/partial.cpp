// Importer: models of which others run what cannot be translated. Such a node becomes a node of the
// graph that refuses itself; the sizes of its results are the file's, or symbols of their own.

#include <algorithm>
#include <stdexcept>

#include "csrc/frontends/onnx/file/small_float.h"
#include "csrc/frontends/onnx/file/unsigned.h"
#include "csrc/frontends/onnx/importer.h"

namespace tv::onnx {
namespace {

using Names = std::set<std::string>;

// Names that a body reads of the graphs around it.
void read_by_body(const onnx_proto::GraphProto& body, Names known, Names& read) {
  for (const auto& value : body.input()) known.insert(value.name());
  for (const auto& tensor : body.initializer()) known.insert(tensor.name());
  for (const auto& tensor : body.sparse_initializer()) known.insert(tensor.values().name());
  for (const auto& node : body.node()) {
    for (const auto& name : node.input()) {
      if (!name.empty() && !known.count(name)) read.insert(name);
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) read_by_body(attribute.g(), known, read);
      for (const auto& graph : attribute.graphs()) read_by_body(graph, known, read);
    }
    known.insert(node.output().begin(), node.output().end());
  }
  for (const auto& value : body.output()) {
    if (!known.count(value.name())) read.insert(value.name());
  }
}

FileNode file_node(const onnx_proto::NodeProto& node) {
  FileNode made{.label = label(node), .op = node.op_type(), .reads = {}, .writes = {}};
  Names read;
  for (const auto& name : node.input()) {
    if (!name.empty() && read.insert(name).second) made.reads.push_back(name);
  }
  Names in_bodies;
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) read_by_body(attribute.g(), {}, in_bodies);
    for (const auto& graph : attribute.graphs()) read_by_body(graph, {}, in_bodies);
  }
  for (const auto& name : in_bodies) {
    if (read.insert(name).second) made.reads.push_back(name);
  }
  for (const auto& name : node.output()) made.writes.push_back(name);
  return made;
}

int32_t type_of(const onnx_proto::ValueInfoProto& value) {
  return value.type().tensor_type().elem_type();
}

}  // namespace

std::vector<Tensor> Importer::run_or_leave_out(const onnx_proto::NodeProto& node,
                                               std::vector<Tensor> inputs, Scope& scope) {
  const auto index = static_cast<int32_t>(result_.nodes.size());
  FileNode as = file_node(node);
  emitter_.set_origin(index, as.op);
  as.refusal = reason_to_leave_out(as, scope);
  std::vector<Tensor> outputs;
  if (as.refusal.empty()) {
    const auto before = emitter_.extent();
    try {
      outputs = translate(node, std::move(inputs), scope);
    } catch (const Refusal& refusal) {
      as.refusal = refusal.reason;
    } catch (const Error& error) {  // whoever runs the node says whether it is wrong
      if (error.kind() == ErrorKind::kInternal) throw;
      as.refusal = error.what();
    } catch (const std::out_of_range&) {
      as.refusal = "too few sizes or operands";
    }
    for (int i = 0; i < node.output_size() && as.refusal.empty(); ++i) {
      const Tensor& value = outputs.at(static_cast<size_t>(i));
      if (node.output(i).empty()) continue;
      if (!value.present || value.refused) {
        as.refusal = "output " + std::to_string(i) + " is not supported";
      } else if (!is_of_its_type(node, node.output(i), value)) {
        as.refusal = "output " + std::to_string(i) + " is of another type in an engine";
      }
    }
    if (!as.refusal.empty() && emitter_.extent() != before) again_.nodes[index] = as.refusal;
  }
  if (!as.refusal.empty()) outputs = leave_out(as, scope);
  result_.nodes.push_back(std::move(as));
  return outputs;
}

// Whether whoever reads a result outside of engines gets the type that the file says. What is still
// a tensor of the file nobody reads from an engine.
bool Importer::is_of_its_type(const onnx_proto::NodeProto& node, const std::string& name,
                              const Tensor& value) const {
  const auto& results = model_->proto.graph().output();
  const auto found = infos_.find(name);
  const int32_t type = found == infos_.end() ? 0 : type_of(*found->second);
  const bool is_constant = value.stored || (node.op_type() == "Constant" && !options_.broadcasts);
  if (value.widened && is_constant) {
    return std::none_of(results.begin(), results.end(),
                        [&](const auto& result) { return result.name() == name; });
  }
  if (value.widened && is_wider_at_border(value.widened))
    return found == infos_.end() || type == value.widened;
  // Codes are handed on as the numbers that they stand for, others would be as they are.
  if (!small_float(value.widened).empty()) {
    return is_held_as_codes(value.widened) && type == value.widened;
  }
  if (found == infos_.end()) return value.widened == 0;
  const DType held = dtype_of(type);
  // A runtime that has no other way to run the node allocates results by their types.
  return type == 0 || held == value.dtype || (held != DType::kOther && !options_.broadcasts);
}

std::string Importer::reason_to_leave_out(const FileNode& as, const Scope& scope) const {
  if (result_.opset > kNewestOpset) return newer_opset(result_.opset);
  const auto given = options_.left_out.find(static_cast<int32_t>(result_.nodes.size()));
  if (given != options_.left_out.end()) return given->second;
  for (const std::string& name : as.reads) {
    const Tensor* value = scope.find(name);
    if (!value || !value->refused) continue;
    const auto why = unknown_.find(name);
    return why != unknown_.end() ? why->second : "its input \"" + name + "\" is not known";
  }
  return "";
}

std::vector<Tensor> Importer::leave_out(const FileNode& as, const Scope& scope) {
  std::vector<ValueId> reads;
  std::vector<Expr> sizes;
  for (const std::string& name : as.reads) {
    const Tensor* value = scope.find(name);
    if (!value) continue;
    if (value->id != kNoValue) {
      reads.push_back(value->id);
    } else if (value->host) {
      sizes.insert(sizes.end(), value->host->ints.begin(), value->host->ints.end());
    }
  }
  for (const ValueId v : emitter_.sizes_from(sizes)) reads.push_back(v);
  const size_t known_symbols = result_.graph.symbols.size();
  std::vector<std::pair<DType, Shape>> types;
  for (const std::string& name : as.writes) types.push_back(type_in_file(name));
  std::vector<Tensor> outputs = emitter_.left_out(as.op, std::move(reads), types, as.refusal);
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = outputs[i];
    output.widened = widened_in_file(as.writes[i]);
    output.refused = output.dtype == DType::kOther;
    for (const Expr& size : output.shape) {
      for (const int32_t symbol : size.symbols()) {
        if (static_cast<size_t>(symbol) >= known_symbols) emitter_.sized_by(symbol, output.id);
      }
    }
  }
  return outputs;
}

// --- types ---

void Importer::read_infos() {
  const auto& graph = model_->proto.graph();
  for (const auto& value : graph.value_info()) infos_.emplace(value.name(), &value);
  for (const auto& value : graph.output()) infos_.emplace(value.name(), &value);
}

std::pair<DType, Shape> Importer::type_in_file(const std::string& name) {
  const std::pair<DType, Shape> unknown{DType::kOther, {}};
  const auto found = infos_.find(name);
  if (found == infos_.end()) {
    unknown_[name] = "the type and rank of its input \"" + name + "\" are not known before a run";
    return unknown;
  }
  const auto& type = found->second->type();
  if (!type.has_tensor_type()) {
    unknown_[name] = "its input \"" + name + "\" is no tensor";
    return unknown;
  }
  const DType dtype = dtype_at_border(type.tensor_type().elem_type());
  if (dtype == DType::kOther) {
    unknown_[name] =
        "its input \"" + name + "\" is of type " + type_name(type.tensor_type().elem_type());
    return unknown;
  }
  if (!type.tensor_type().has_shape() || type.tensor_type().shape().dim_size() > 64) {
    unknown_[name] = "the rank of its input \"" + name + "\" is not known before a run";
    return unknown;
  }
  Shape shape;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    const bool fixed =
        dim.has_dim_value() && dim.dim_value() >= 0 && dim.dim_value() <= int64_t{1} << 40;
    shape.push_back(fixed ? Expr(dim.dim_value())
                          : size_in_file(name, dim.dim_param(), static_cast<int>(shape.size())));
  }
  return {dtype, shape};
}

// As Tensor::widened, of what a node that is left out makes.
int32_t Importer::widened_in_file(const std::string& name) const {
  const auto found = infos_.find(name);
  return found == infos_.end() ? 0 : widened_at_border(type_of(*found->second));
}

DType Importer::dtype_at_border(int32_t type) const {
  return is_wider_at_border(type) ? dtype_of(type, /*as_weight=*/true) : held_dtype(type);
}

bool Importer::is_wider_at_border(int32_t type) const {
  return options_.widened || (options_.unsigned_integers && is_wider_unsigned(type));
}

int32_t Importer::widened_at_border(int32_t type) const {
  return is_wider_at_border(type) || is_held_as_codes(type) ? widened_type(type) : 0;
}

// A size that only a run tells; equal names stand for equal sizes.
Expr Importer::size_in_file(const std::string& name, const std::string& dim_name, int index) {
  if (const auto found = dims_.find(dim_name); !dim_name.empty() && found != dims_.end()) {
    return found->second;
  }
  auto& symbols = result_.graph.symbols;
  const auto same = merged_.find(static_cast<int32_t>(dynamic_dims_.size()));
  if (same != merged_.end()) {
    dynamic_dims_.push_back(dynamic_dims_.at(static_cast<size_t>(same->second)));
  } else {
    dynamic_dims_.push_back(static_cast<int32_t>(symbols.size()));
    symbols.push_back(
        {dim_name.empty() ? name + "_" + std::to_string(index) : dim_name, 0, 1, kUnbounded});
  }
  const Expr made = Expr::symbol(dynamic_dims_.back());
  if (!dim_name.empty()) dims_.emplace(dim_name, made);
  return made;
}

// --- inputs and outputs ---

Tensor Importer::add_unknown_input(const onnx_proto::ValueInfoProto& value,
                                   const std::string& reason) {
  unknown_[value.name()] = reason;
  result_.inputs.push_back({value.name(), DType::kOther, {}});
  Tensor made = emitter_.input(value.name(), DType::kOther, {});
  made.refused = true;
  return made;
}

void Importer::want_value(const Tensor& tensor) {
  const Graph& graph = result_.graph;
  if (!options_.partial || tensor.id == kNoValue) return;
  const std::vector<int32_t> made_by = producers(graph);
  Names found;
  std::set<ValueId> seen;
  std::vector<ValueId> rest = {tensor.id};
  while (!rest.empty()) {
    const ValueId v = rest.back();
    rest.pop_back();
    if (!seen.insert(v).second) continue;
    const Value& value = graph.value(v);
    if (value.kind == ValueKind::kInput) {
      const int64_t count = product(value.shape).constant().value_or(0);
      const bool holds_sizes = value.dtype != DType::kOther && value.dtype != DType::kBool;
      if (!holds_sizes || value.shape.size() > 1 || count > kMostShapeElements) return;
      found.insert(value.name);
    } else if (value.kind == ValueKind::kNode) {
      const Node& node = graph.nodes.at(static_cast<size_t>(made_by.at(static_cast<size_t>(v))));
      if (!node.origin.refusal.empty()) return;
      for (const ValueId read : node.all_inputs()) rest.push_back(read);
    }
  }
  again_.shape_inputs.merge(found);
}

void Importer::set_partial_outputs(const Scope& scope) {
  if (!again_.nodes.empty()) throw again_;
  result_.shape_inputs = again_.shape_inputs;
  for (const auto& [name, value] : scope.names) {
    result_.names[name] = {value.id, value.host, value.widened};
  }
  std::set<ValueId> taken;
  for (const auto& output : model_->proto.graph().output()) {
    const Tensor* value = scope.find(output.name());
    if (!value) fail_without_maker(output.name());
    result_.outputs.push_back(
        {output.name(), value->dtype, value->shape, border_format(value->widened)});
    const ValueId id = value->id;
    if (id == kNoValue || result_.graph.value(id).kind != ValueKind::kNode) continue;
    if (taken.insert(id).second) {
      result_.graph.outputs.push_back(
          {.value = id, .name = result_.graph.value(id).name, .strides = {}});
    }
  }
}

}  // namespace tv::onnx
