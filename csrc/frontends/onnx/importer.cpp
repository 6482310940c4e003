#include "csrc/frontends/onnx/importer.h"

#include <algorithm>

#include "csrc/frontends/onnx/file/fail.h"
#include "csrc/frontends/onnx/file/module_path.h"
#include "csrc/frontends/onnx/file/small_float.h"
#include "csrc/frontends/onnx/kit/scales.h"

namespace tv::onnx {
namespace {

// Names go into messages, files and Python: what is no UTF-8 is refused.
bool is_utf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i]);
    const int extra = first < 0x80       ? 0
                      : first >> 5 == 6  ? 1
                      : first >> 4 == 14 ? 2
                      : first >> 3 == 30 ? 3
                                         : -1;
    if (extra < 0 || i + static_cast<size_t>(extra) >= text.size() ||
        (extra == 1 && first < 0xc2)) {
      return false;
    }
    for (int k = 1; k <= extra; ++k) {
      if ((static_cast<uint8_t>(text[i + static_cast<size_t>(k)]) & 0xc0) != 0x80) return false;
    }
    i += static_cast<size_t>(extra) + 1;
  }
  return true;
}

/// uint16, uint32 and uint64.
bool is_unsigned(int32_t widened) {
  const DType held = dtype_of(widened, true);
  return held == DType::kI32 || held == DType::kI64;
}

/// Whether an operator takes an input that is held in another type.
bool takes(Widened way, size_t input, int32_t widened) {
  switch (way) {
    case Widened::kRefused:
      return false;
    case Widened::kMoved:
      return input == 0;
    case Widened::kRead:
    case Widened::kSaid:
      return true;
    case Widened::kCut:
    case Widened::kKept:
    case Widened::kCompared:
      return is_unsigned(widened);
    case Widened::kExponent:
      return input == 1 && is_unsigned(widened);
  }
  return false;
}

void check_widened(Widened way, const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].widened || takes(way, i, inputs[i].widened)) continue;
    refuse("input " + std::to_string(i) + " is of type " + type_name(inputs[i].widened));
  }
}

bool is_default_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

/// As `translations` lists it.
std::string name_of_operator(const onnx_proto::NodeProto& node) {
  return (is_default_domain(node.domain()) ? "" : node.domain() + "::") + node.op_type();
}

void check_node_text(const onnx_proto::NodeProto& node) {
  bool good = is_utf8(node.name()) && is_utf8(node.op_type()) && is_utf8(node.domain());
  for (const auto& name : node.input()) good = good && is_utf8(name);
  for (const auto& name : node.output()) good = good && is_utf8(name);
  for (const auto& attribute : node.attribute()) good = good && is_utf8(attribute.name());
  if (!good) fail("[onnx] a node whose names are not UTF-8");
}

}  // namespace

std::string label(const onnx_proto::NodeProto& node) {
  const std::string& name = !node.name().empty()     ? node.name()
                            : node.output_size() > 0 ? node.output(0)
                                                     : node.name();
  return "[" + node.op_type() + " \"" + name + "\"]";
}

const Tensor* Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope; scope = scope->outer) {
    if (const auto found = scope->names.find(name); found != scope->names.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

Importer::Importer(std::shared_ptr<const Model> model, const ImportOptions& options,
                   const std::map<int32_t, int32_t>& merged)
    : model_(std::move(model)),
      options_(options),
      merged_(merged),
      emitter_({result_.graph, result_.weights, result_.elements_read}, options.broadcasts) {
  if (options.partial && merged_.size() >= kMaxMerged) emitter_.keep_symbols();
}

std::string newer_opset(int64_t version) {
  return "opset " + std::to_string(version) + " of ai.onnx; engines take 7 to " +
         std::to_string(kNewestOpset);
}

int64_t Importer::opset(const Scope& scope) const {
  for (const char* domain : {"", "ai.onnx"}) {
    if (const auto found = scope.opsets.find(domain); found != scope.opsets.end()) {
      return found->second;
    }
  }
  fail("[onnx] the model imports no opset of ai.onnx");
}

ImportedModel Importer::run() {
  try {
    return import();
  } catch (const SameSymbol& same) {
    const auto dimension = [&](int32_t symbol) {
      const auto found = std::find(dynamic_dims_.begin(), dynamic_dims_.end(), symbol);
      return static_cast<int32_t>(found - dynamic_dims_.begin());
    };
    throw SameSymbol{dimension(same.kept), dimension(same.replaced)};
  }
}

ImportedModel Importer::import() {
  const auto& proto = model_->proto;
  Scope scope;
  for (const auto& import : proto.opset_import()) scope.opsets[import.domain()] = import.version();
  const bool names_onnx = scope.opsets.count("") + scope.opsets.count("ai.onnx") > 0;
  if (!names_onnx && proto.opset_import_size() == 0) scope.opsets[""] = 1;
  result_.graph.name = is_utf8(proto.graph().name()) ? proto.graph().name() : "";
  result_.graph.names_of_file = true;
  result_.producer = is_utf8(proto.producer_name()) ? proto.producer_name() : "";
  if (names_onnx) result_.opset = opset(scope);
  if (names_onnx && result_.opset < 7) {
    throw Error(ErrorKind::kUnsupported, "[onnx] opset " + std::to_string(result_.opset) +
                                             "; want 7 or newer: onnx.version_converter converts");
  }
  // In partial imports every node of such a model is left to others.
  if (result_.opset > kNewestOpset && !options_.partial) {
    throw Error(ErrorKind::kUnsupported, "[onnx] " + newer_opset(result_.opset));
  }
  add_initializers(proto.graph(), scope);
  add_inputs(scope);
  if (options_.partial) read_infos();
  run_nodes(proto.graph().node(), scope);
  emitter_.set_origin(-1, "");
  if (options_.partial) {
    set_partial_outputs(scope);
    settle_usual_sizes();
    return std::move(result_);
  }
  if (!refusals_.empty()) {
    std::string text = "[onnx] " + std::to_string(refusals_.size()) +
                       (refusals_.size() == 1 ? " node cannot" : " nodes cannot") +
                       " be converted:";
    for (const std::string& line : refusals_) text += "\n  " + line;
    throw Error(ErrorKind::kUnsupported, text);
  }
  set_outputs(scope);
  settle_usual_sizes();
  return std::move(result_);
}

// --- inputs, weights, outputs ---

Expr Importer::input_dim(const onnx_proto::ValueInfoProto& value, int index,
                         const DimRange* range) {
  const auto& dim = value.type().tensor_type().shape().dim(index);
  const std::string where =
      "[onnx] input \"" + value.name() + "\", dimension " + std::to_string(index);
  if (range && (range->min < 0 || range->opt < range->min || range->max < range->opt)) {
    throw GivenInputError(where + ": got the range " + std::to_string(range->min) + " … " +
                          std::to_string(range->opt) + " … " + std::to_string(range->max));
  }
  if (dim.has_dim_value()) {
    if (dim.dim_value() < 0 || dim.dim_value() > int64_t{1} << 40) {
      fail(where + " has size " + std::to_string(dim.dim_value()));
    }
    if (range && (range->min != dim.dim_value() || range->max != dim.dim_value())) {
      throw GivenInputError(where + " is " + std::to_string(dim.dim_value()) +
                            " in the file; got " + std::to_string(range->min) + " to " +
                            std::to_string(range->max));
    }
    return dim.dim_value();
  }
  const std::string& name = dim.dim_param();
  if (!is_utf8(name)) fail(where + ": a name that is not UTF-8");
  if (!name.empty()) {
    if (const auto found = dims_.find(name); found != dims_.end()) {
      const auto size = found->second.constant();
      if (range && size && (range->min != *size || range->max != *size)) {
        throw GivenInputError(where + " is named " + name + ", which is " + std::to_string(*size) +
                              " elsewhere");
      }
      return found->second;
    }
  }
  Expr made;
  if (range && range->min == range->max) {
    made = range->min;
  } else {
    auto& symbols = result_.graph.symbols;
    const std::string symbol = name.empty() ? value.name() + "_" + std::to_string(index) : name;
    const bool may_be_empty = options_.may_be_empty && !options_.never_empty.contains(symbol);
    const DimRange given = range ? *range : DimRange{.min = may_be_empty ? 0 : 1};
    const auto same = merged_.find(static_cast<int32_t>(dynamic_dims_.size()));
    if (same != merged_.end()) {
      dynamic_dims_.push_back(dynamic_dims_.at(static_cast<size_t>(same->second)));
      Symbol& kept = symbols[static_cast<size_t>(dynamic_dims_.back())];
      kept.min = std::max(kept.min, given.min);
      kept.max = std::min(kept.max, given.max);
      if (kept.min > kept.max)
        throw GivenInputError(where + " must be equal to " + kept.name + ", and cannot be");
      kept.opt = std::clamp(kept.opt, kept.min, kept.max);
    } else {
      dynamic_dims_.push_back(static_cast<int32_t>(symbols.size()));
      symbols.push_back({symbol, given.min, given.opt, given.max});
    }
    if (range) given_.insert(dynamic_dims_.back());
    made = Expr::symbol(dynamic_dims_.back());
  }
  if (!name.empty()) dims_.emplace(name, made);
  return made;
}

Shape Importer::input_shape(const onnx_proto::ValueInfoProto& value) {
  const auto& type = value.type().tensor_type();
  const auto given = options_.inputs.find(value.name());
  const std::vector<DimRange>* ranges = given == options_.inputs.end() ? nullptr : &given->second;
  if (!type.has_shape()) {
    if (!ranges) refuse("input \"" + value.name() + "\" has no shape: give one for it");
    Shape shape;
    for (const DimRange& range : *ranges) {
      if (range.min != range.max) refuse("input \"" + value.name() + "\" has no rank in the file");
      shape.emplace_back(range.min);
    }
    return shape;
  }
  if (type.shape().dim_size() > 64) fail("[onnx] input \"" + value.name() + "\" of rank above 64");
  if (ranges && static_cast<int>(ranges->size()) != type.shape().dim_size()) {
    throw GivenInputError("[onnx] input \"" + value.name() + "\" has rank " +
                          std::to_string(type.shape().dim_size()) + "; got " +
                          std::to_string(ranges->size()) + " sizes");
  }
  Shape shape;
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    shape.push_back(input_dim(value, i, ranges ? &(*ranges)[static_cast<size_t>(i)] : nullptr));
  }
  return shape;
}

Tensor Importer::constant_input(const std::string& name, const ConstantInput& given, DType dtype) {
  Host host{.dtype = given.dtype, .dims = given.dims, .ints = {}, .floats = given.floats};
  host.ints.assign(given.ints.begin(), given.ints.end());
  const int64_t count = checked_count(given.dims, "[onnx] input \"" + name + "\"");
  if (given.dtype != dtype || count != static_cast<int64_t>(host.count())) {
    fail("[onnx] input \"" + name + "\" is given as a constant of another type or size");
  }
  return emitter_.from_host(std::move(host));
}

Tensor Importer::add_input(const onnx_proto::ValueInfoProto& value) {
  const std::string& name = value.name();
  if (!value.type().has_tensor_type()) {
    refuse("input \"" + name + "\" is no tensor (sequences, maps and optionals are not supported)");
  }
  const int32_t type = value.type().tensor_type().elem_type();
  const DType dtype = dtype_at_border(type);
  if (dtype == DType::kOther) refuse("input \"" + name + "\": tensors of type " + type_name(type));
  if (const auto given = options_.constants.find(name); given != options_.constants.end()) {
    return constant_input(name, given->second, dtype);
  }
  const Shape shape = input_shape(value);
  Tensor made = emitter_.input(name, dtype, shape);
  made.widened = widened_at_border(type);
  result_.inputs.push_back({name, dtype, shape, border_format(made.widened)});
  return made;
}

void Importer::add_inputs(Scope& scope) {
  std::set<std::string> seen;
  for (const auto& value : model_->proto.graph().input()) {
    if (!is_utf8(value.name()) || value.name().empty()) fail("[onnx] an input without a name");
    if (scope.names.count(value.name())) continue;  // an initializer: its default value is used
    if (!seen.insert(value.name()).second) fail("[onnx] two inputs \"" + value.name() + "\"");
    Tensor made{.present = true, .refused = true};
    try {
      made = add_input(value);
    } catch (const Refusal& refusal) {
      if (options_.partial) made = add_unknown_input(value, refusal.reason);
      refusals_.push_back(refusal.reason);
    }
    scope.names[value.name()] = made;
  }
  const auto check = [&](const std::string& name) {
    if (seen.count(name)) return;
    std::string known;
    for (const std::string& other : seen) known += (known.empty() ? "" : ", ") + other;
    throw GivenInputError("[onnx] the model has no input \"" + name + "\"; it has " +
                          (known.empty() ? "none" : known));
  };
  for (const auto& [name, ranges] : options_.inputs) check(name);
  for (const auto& [name, constant] : options_.constants) check(name);
}

std::shared_ptr<const Stored> Importer::stored(const onnx_proto::TensorProto& tensor) const {
  return check_tensor(model_, tensor);
}

void Importer::add_initializers(const onnx_proto::GraphProto& graph, Scope& scope) {
  for (const auto& tensor : graph.initializer()) {
    if (!is_utf8(tensor.name()) || tensor.name().empty()) {
      fail("[onnx] an initializer without a name");
    }
    Tensor made{.present = true, .refused = true};
    auto data = stored(tensor);
    if (data->dtype != DType::kOther) {
      made = emitter_.stored(std::move(data));
    } else {
      refusals_.push_back("initializer \"" + tensor.name() + "\": tensors of type " +
                          type_name(tensor.data_type()));
      unknown_[tensor.name()] = refusals_.back();
    }
    if (!scope.names.emplace(tensor.name(), made).second) {
      fail("[onnx] two initializers \"" + tensor.name() + "\"");
    }
  }
  for (const auto& tensor : graph.sparse_initializer()) {
    refusals_.push_back("initializer \"" + tensor.values().name() + "\" is sparse");
    unknown_[tensor.values().name()] = refusals_.back();
    scope.names[tensor.values().name()] = {.present = true, .refused = true};
  }
}

void Importer::fail_without_maker(const std::string& output) {
  fail("[onnx] no node makes the output \"" + output + "\"");
}

void Importer::set_outputs(const Scope& scope) {
  std::set<ValueId> taken(result_.graph.inputs.begin(), result_.graph.inputs.end());
  std::set<std::string> names;
  for (const auto& output : model_->proto.graph().output()) {
    const Tensor* value = scope.find(output.name());
    if (!value) fail_without_maker(output.name());
    if (!names.insert(output.name()).second) fail("[onnx] two outputs \"" + output.name() + "\"");
    const int32_t type = output.type().tensor_type().elem_type();
    const bool goes_out = is_held_as_codes(type) || is_wider_at_border(type);
    if (value->widened && !(goes_out && value->widened == type)) {
      refuse("output \"" + output.name() + "\" is of type " + type_name(value->widened));
    }
    emitter_.set_source(output.name(), "output " + output.name());
    ValueId id = emitter_.id(*value);
    const bool is_node = result_.graph.value(id).kind == ValueKind::kNode;
    if (!is_node || !taken.insert(id).second) id = emitter_.id(emitter_.copy(*value));
    result_.graph.outputs.push_back({.value = id, .name = output.name(), .strides = {}});
    const DType in_file = dtype_at_border(type);
    const DType dtype = result_.graph.value(id).dtype;
    const bool fits = in_file == DType::kOther || in_file == dtype;
    result_.outputs.push_back({output.name(), fits && in_file != DType::kOther ? in_file : dtype,
                               result_.graph.value(id).shape, border_format(value->widened)});
  }
}

// --- nodes ---

void Importer::refused(const onnx_proto::NodeProto& node, const std::string& reason) {
  const std::string text = label(node) + " " + reason;
  if (options_.partial) throw Refusal{text};  // in a body: all that it is part of is left out
  if (refusal_texts_.insert(text).second && refusals_.size() < 1000) refusals_.push_back(text);
}

void Importer::define(Scope& scope, const std::string& name, Tensor value,
                      const std::string& node) {
  if (name.empty()) return;
  if (!scope.names.emplace(name, std::move(value)).second) {
    fail(node + " makes \"" + name + "\", which there is already");
  }
}

void Importer::run_nodes(const google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>& nodes,
                         Scope& scope) {
  struct Deeper {
    int& depth;
    explicit Deeper(int& d) : depth(d) {
      if (++depth > 32) fail("[onnx] functions and bodies nest deeper than 32");
    }
    ~Deeper() { --depth; }
  } deeper(depth_);
  for (const auto& node : nodes) run_node(node, scope);
}

void Importer::run_node(const onnx_proto::NodeProto& node, Scope& scope) {
  if (++steps_ > 300000) fail("[onnx] more than 300000 nodes (loops are unrolled)");
  check_node_text(node);
  const std::string who = label(node);
  std::vector<Tensor> inputs, outputs;
  bool skipped = false;
  for (const auto& name : node.input()) {
    const Tensor* found = name.empty() ? nullptr : scope.find(name);
    if (!name.empty() && !found) {
      fail(who + " reads \"" + name +
           "\", which no node before it makes (nodes must be sorted, "
           "and cycles are none)");
    }
    inputs.push_back(found ? *found : Tensor{});
    skipped = skipped || inputs.back().refused;
  }
  const bool in_main_graph = depth_ == 1;
  try {
    if (skipped && options_.partial && !in_main_graph) refuse("reads what is not known");
    if (skipped && translations().count(name_of_operator(node)) && !options_.partial) {
      outputs.assign(static_cast<size_t>(node.output_size()), {.present = true, .refused = true});
    } else {
      emitter_.set_source(
          node.name().empty() ? (node.output_size() ? node.output(0) : "node") : node.name(), who,
          module_path(node));
      outputs = options_.partial && in_main_graph ? run_or_leave_out(node, std::move(inputs), scope)
                                                  : translate(node, std::move(inputs), scope);
    }
  } catch (const Refusal& refusal) {
    refused(node, refusal.reason);
    outputs.assign(static_cast<size_t>(node.output_size()), {.present = true, .refused = true});
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.starts_with("[")) throw;
    throw Error(error.kind(), who + " " + what);
  }
  for (int i = 0; i < node.output_size(); ++i) {
    Tensor& value = outputs.at(static_cast<size_t>(i));
    if (!value.present && !node.output(i).empty()) {
      refused(node, "output " + std::to_string(i) + " is not supported");
      value = {.present = true, .refused = true};
    }
    name_value(value, node.output(i));
    define(scope, node.output(i), std::move(value), who);
  }
}

// A value of the graph goes by the file's name for it, for those who compare layer by layer.
void Importer::name_value(const Tensor& tensor, const std::string& name) {
  if (tensor.id == kNoValue || name.empty() || !named_.insert(tensor.id).second) return;
  Value& value = result_.graph.value(tensor.id);
  if (value.kind == ValueKind::kNode) value.name = name;
}

std::vector<Tensor> Importer::translate(const onnx_proto::NodeProto& node,
                                        std::vector<Tensor> inputs, Scope& scope) {
  for (const auto& function : model_->proto.functions()) {
    if (function.name() == node.op_type() && function.domain() == node.domain() &&
        function.overload() == node.overload()) {
      return run_function(function, node, inputs);
    }
  }
  const bool is_standard = is_default_domain(node.domain());
  const auto found = translations().find(name_of_operator(node));
  if (found == translations().end()) {
    refuse(is_standard ? "there is no translation of this operator"
                       : "operators of domain " + node.domain() + " are not supported");
  }
  const Widened way = found->second.widened;
  check_widened(way, inputs);
  const bool cuts = way == Widened::kCut;
  const bool same_type = cuts || way == Widened::kMoved || way == Widened::kKept;
  const int32_t widened = same_type && !inputs.empty() ? inputs[0].widened : 0;
  OpContext context(*this, emitter_, node, std::move(inputs), scope);
  found->second.translate(context);
  std::vector<Tensor> outputs = context.outputs();
  for (Tensor& output : outputs) {
    if (way == Widened::kSaid) continue;
    if (cuts && widened) output = wrapped(emitter_, output, widened);
    output.widened = widened;
  }
  return outputs;
}

}  // namespace tv::onnx
