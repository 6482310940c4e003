#include "python/bindings/script/import.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <map>

#include "csrc/converter.h"
#include "python/bindings/script/nodes.h"
#include "python/bindings/script/types.h"
#include "runtime/base/error.h"

namespace tv::script {
namespace {

using torch::jit::Node;
using torch::jit::Value;
namespace prim = c10::prim;

std::string op_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// The overload that takes a number where `name` takes a tensor; nothing if there is none.
std::optional<c10::OperatorName> with_scalar(const c10::OperatorName& name) {
  static const std::map<std::string, std::string> overloads = {
      {"Tensor", "Scalar"}, {"Tensor_mode", "Scalar_mode"}, {"Tensor_Tensor", "Tensor_Scalar"}};
  const auto found = overloads.find(name.overload_name);
  if (found == overloads.end()) return std::nullopt;
  c10::OperatorName scalar{name.name, found->second};
  if (!c10::Dispatcher::singleton().findSchema(scalar)) return std::nullopt;
  return scalar;
}

struct Described {
  std::string name;
  std::optional<ObservedTensor> type;
  Shape shape;
};

class Importer {
 public:
  Importer(const ImportContext& context, Sizes& sizes) : context_(context), sizes_(sizes) {}

  /// `kept`: why it stays native; "": where it can be expressed it does not.
  void add(Node* node, const std::string& kept) {
    if (context_.hosts.contains(node)) return;
    if (node->kind() == prim::ListConstruct) return;  // the list's readers take its parts
    if (unpacks_unknown(node)) return;                // its results are leaves where they are read
    const std::string why = kept.empty() ? refusal(context_, node) : kept;
    if (why.empty()) {
      add_calls(node);
    } else {
      add_native(node, why);
    }
  }

  Imported finish(const std::vector<Value*>& returned) {
    for (Value* value : returned) {
      for (const ValueId id : ids_of(value))
        graph().outputs.push_back({id, value->debugName(), {}});
    }
    graph().symbols = sizes_.symbols();
    result_.values = std::move(ids_);
    return std::move(result_);
  }

 private:
  Graph& graph() { return result_.graph; }

  // Takes a list that comes from outside of the nodes.
  bool unpacks_unknown(const Node* node) const {
    return is_free(node, context_.recording) &&
           std::any_of(node->inputs().begin(), node->inputs().end(), [this](const Value* input) {
             return input->type()->kind() == c10::TypeKind::ListType && holds_tensors(input) &&
                    input->node()->kind() != prim::ListConstruct && !ids_.contains(input);
           });
  }

  // --- values ---

  std::vector<ValueId> ids_of(Value* value) {
    const auto found = ids_.find(value);
    if (found != ids_.end()) return found->second;
    std::vector<ValueId> made;
    if (value->node()->kind() == prim::ListConstruct) {
      for (Value* item : value->node()->inputs()) made.push_back(id_of(item));
    } else {
      made = {add_leaf(value)};
    }
    return ids_[value] = made;
  }

  ValueId id_of(Value* value) {
    if (value->type()->kind() == c10::TypeKind::NoneType) return kNoValue;
    const auto ids = ids_of(value);
    if (ids.size() != 1) throw Error(ErrorKind::kUnsupported, "it takes a list of tensors");
    return ids.front();
  }

  Shape shape_of(const std::vector<Numbers>& dims) {
    Shape shape;
    for (const Numbers& values : dims) shape.push_back(expr_of(sizes_, values));
    return shape;
  }

  // Of what comes from outside.
  Shape given_shape(const Value* value, size_t i) {
    Shape shape;
    for (const Numbers& values : context_.runs.sizes(value, i)) {
      shape.push_back(sizes_.given(values));
    }
    return shape;
  }

  Described describe(Value* value) {
    Described made{value->debugName(), std::nullopt, {}};
    if (const auto constant = torch::jit::toIValue(value); constant && constant->isTensor()) {
      const at::Tensor& t = constant->toTensor();
      made.type = ObservedTensor{t.scalar_type(),
                                 t.sizes().vec(),
                                 t.strides().vec(),
                                 t.device(),
                                 t.layout() == at::kStrided && !t.is_quantized(),
                                 false};
      made.shape = Shape(t.sizes().begin(), t.sizes().end());
      return made;
    }
    const ObservedValue* observed = context_.recording.observed(value);
    if (!observed || !observed->is_tensor || observed->tensors.empty() || observed->varies)
      return made;
    made.type = observed->tensors.front();
    made.shape = given_shape(value, 0);
    return made;
  }

  ValueId add_leaf(Value* value) {
    Described made = describe(value);
    const auto weight = context_.weights.find(value);
    const bool is_weight =
        weight != context_.weights.end() || value->node()->kind() == prim::Constant;
    if (weight != context_.weights.end()) made.name = weight->second;
    const ValueId id = add_value(made, is_weight ? ValueKind::kWeight : ValueKind::kInput);
    (is_weight ? graph().weights : graph().inputs).push_back(id);
    if (is_weight) result_.weights.emplace(id, value);
    return id;
  }

  ValueId add_value(const Described& what, ValueKind kind) {
    tv::Value value;
    value.name = what.name;
    value.kind = kind;
    if (what.type) {
      value.dtype = to_dtype(*what.type);
      value.shape = what.shape;
    }
    return graph().add_value(std::move(value));
  }

  // --- nodes ---

  // The tensors that a node's numbers come from, those of the nodes inside it included.
  void collect_roots(const Node* node, std::vector<Value*>& roots) {
    for (const Value* input : node->inputs()) collect_root(const_cast<Value*>(input), roots);
    for (const torch::jit::Block* block : node->blocks()) {
      for (const Node* inner : block->nodes()) collect_roots(inner, roots);
      for (const Value* out : block->outputs()) collect_root(const_cast<Value*>(out), roots);
    }
  }

  void collect_root(Value* value, std::vector<Value*>& roots) {
    const Node* from = value->node();
    if (from->kind() == prim::Constant || !seen_.insert(value).second) return;
    const bool passes_on = context_.hosts.contains(from) || from->kind() == prim::ListConstruct;
    if (passes_on) {
      for (const Value* input : from->inputs()) collect_root(const_cast<Value*>(input), roots);
    } else if (ids_.contains(value)) {
      roots.push_back(value);
    }
  }

  std::vector<ValueId> roots_of(const Node* node) {
    seen_.clear();
    std::vector<Value*> roots;
    collect_roots(node, roots);
    std::vector<ValueId> ids;
    for (Value* value : roots) {
      for (const ValueId id : ids_.at(value)) {
        if (id != kNoValue) ids.push_back(id);
      }
    }
    return ids;
  }

  void add_native(Node* node, const std::string& why) {
    tv::Node made = start(node->kind().toQualString(), node);
    made.origin.refusal = why;
    made.args.push_back(tensor_list_arg("inputs", roots_of(node)));
    for (Value* output : node->outputs()) {
      const ObservedValue* observed = context_.recording.observed(output);
      std::vector<ValueId> ids;
      const size_t count = observed && observed->is_list ? observed->tensors.size() : 1;
      for (size_t i = 0; i < count; ++i) {
        std::optional<ObservedTensor> type;
        if (observed && i < observed->tensors.size() && !observed->varies)
          type = observed->tensors[i];
        ids.push_back(add_output(made, type, type ? given_shape(output, i) : Shape{}));
      }
      ids_[output] = ids;
    }
    if (node->outputs().empty()) add_output(made, std::nullopt, {});
    graph().nodes.push_back(std::move(made));
  }

  ValueId add_output(tv::Node& node, const std::optional<ObservedTensor>& type, Shape shape) {
    const ValueId id = add_value({node.name, type, std::move(shape)}, ValueKind::kNode);
    node.outputs.push_back(id);
    return id;
  }

  tv::Node start(std::string op, Node* node) {
    tv::Node made;
    made.op = std::move(op);
    const std::string base = node->outputs().empty() ? "effect" : node->output(0)->debugName();
    made.name = base + "_" + std::to_string(graph().nodes.size());
    made.source = source_of(node);
    made.module_path = module_path_of(node);
    if (result_.nodes.empty() || result_.nodes.back() != node) result_.nodes.push_back(node);
    made.origin.index = static_cast<int32_t>(result_.nodes.size()) - 1;
    made.origin.op = op_of(node);
    return made;
  }

  void add_calls(Node* node) {
    const RecordedCalls& recorded = *context_.recording.recorded(node);
    std::vector<std::vector<ValueId>> made;
    const auto resolve = [&](const Ref& ref) {
      if (ref.call >= 0) return made.at(ref.call).at(ref.index);
      const auto ids = ids_of(node->input(ref.index));
      return ids.at(ref.element < 0 ? 0 : ref.element);
    };
    const std::vector<ValueId> order = roots_of(node);
    for (size_t c = 0; c < recorded.calls.size(); ++c) {
      made.push_back(add_call(node, c, resolve, order));
    }
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      std::vector<ValueId> ids;
      for (const Ref& ref : recorded.outputs.at(i)) ids.push_back(resolve(ref));
      ids_[node->output(i)] = ids;
    }
  }

  // The number that a tensor argument stands for: a constant without dimensions is one.
  // In each execution; none: it is no number.
  std::vector<c10::IValue> number_of(const Node* node, size_t c, size_t a) const {
    const CallArgument& argument = context_.recording.recorded(node)->calls[c].arguments[a];
    if (!argument.is_tensor || argument.is_list) return {};
    if (!argument.refs.front()) {
      if (argument.value.isNone()) return {};
      return context_.runs.argument(node, c, a);
    }
    const Ref& ref = *argument.refs.front();
    if (ref.call >= 0 || ref.element >= 0) return {};
    const Value* value = node->input(ref.index);
    const auto constant = torch::jit::toIValue(value);
    if (constant && constant->isTensor() && constant->toTensor().dim() == 0 &&
        !constant->toTensor().is_complex()) {
      return std::vector<c10::IValue>(context_.runs.all.size(), constant->toTensor().item());
    }
    if (!context_.hosts.contains(value->node()) || constant) return {};
    auto numbers = context_.runs.number(value);
    if (numbers.front().isNone()) return {};
    return numbers;
  }

  template <typename Resolve>
  std::vector<ValueId> add_call(Node* node, size_t c, const Resolve& resolve,
                                const std::vector<ValueId>& order) {
    const Call& call = context_.recording.recorded(node)->calls[c];
    c10::OperatorName name = call.name;
    std::vector<std::vector<c10::IValue>> numbers;
    for (size_t i = 0; i < call.arguments.size(); ++i) numbers.push_back(number_of(node, c, i));
    const auto count = std::count_if(numbers.begin(), numbers.end(),
                                     [](const auto& number) { return !number.empty(); });
    // (tensor, number): the number is the second of the two.
    const bool as_scalar = count == 1 && numbers.size() > 1 && !numbers[1].empty();
    if (const auto scalar = as_scalar ? with_scalar(name) : std::nullopt) {
      name = *scalar;
    }
    const auto& schema = c10::Dispatcher::singleton().findSchema(name)->schema();
    tv::Node made = start(op_name(name), node);
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const c10::Argument& formal = schema.arguments().at(i);
      const CallArgument& argument = call.arguments[i];
      if (!takes_tensors(formal)) {
        const auto& values = numbers[i].empty() ? context_.runs.argument(node, c, i) : numbers[i];
        made.args.push_back(
            attr_arg(formal.name(), to_attr(formal, values, context_.runs.fitted, sizes_)));
        continue;
      }
      if (!argument.is_tensor && !argument.value.isNone()) {
        throw Error(ErrorKind::kUnsupported,
                    "it takes a " + argument.value.tagKind() + " where a tensor is wanted");
      }
      std::vector<ValueId> ids;
      for (const auto& ref : argument.refs) ids.push_back(ref ? resolve(*ref) : kNoValue);
      if (!numbers[i].empty()) ids = {add_number(node, call, formal, numbers[i])};
      if (argument.is_list) {
        made.args.push_back(tensor_list_arg(formal.name(), ids));
      } else {
        made.args.push_back(tensor_arg(formal.name(), ids.empty() ? kNoValue : ids.front()));
      }
    }
    made.origin.after = order;
    std::vector<ValueId> ids;
    for (size_t o = 0; o < call.outputs.size(); ++o) {
      if (call.outputs[o]) {
        Shape shape = shape_of(context_.runs.sizes(node, c, o));
        ids.push_back(add_output(made, call.outputs[o], std::move(shape)));
      } else {
        made.outputs.push_back(kNoValue);
        ids.push_back(kNoValue);
      }
    }
    graph().nodes.push_back(std::move(made));
    return ids;
  }

  // A number where the operator has no form that takes one.
  ValueId add_number(Node* node, const Call& call, const c10::Argument& formal,
                     const std::vector<c10::IValue>& numbers) {
    const c10::IValue& number = numbers.front();
    const bool floating = number.isDouble();
    ObservedTensor type{floating ? at::kFloat : at::kInt, {}, {}, at::kCPU, true, true};
    const auto& result = call.outputs.front();
    if (result && result->dtype != at::kBool) type.dtype = result->dtype;
    tv::Node made = start("aten::full", node);
    made.args.push_back(attr_arg("size", std::vector<Expr>{}));
    made.args.push_back(
        attr_arg("fill_value", to_attr(formal, numbers, context_.runs.fitted, sizes_)));
    made.args.push_back(attr_arg("dtype", to_dtype(type)));
    for (const char* rest : {"layout", "device", "pin_memory"}) {
      made.args.push_back(attr_arg(rest, std::monostate{}));
    }
    const ValueId id = add_output(made, type, {});
    graph().nodes.push_back(std::move(made));
    return id;
  }

  const ImportContext& context_;
  Sizes& sizes_;
  Imported result_;
  std::unordered_map<const Value*, std::vector<ValueId>> ids_;
  std::unordered_set<const Value*> seen_;
};

}  // namespace

Imported import_nodes(const ImportContext& context, const std::vector<Node*>& nodes,
                      const Refusals& native, const std::vector<Value*>& returned, Sizes& sizes) {
  Importer importer(context, sizes);
  for (Node* node : nodes) {
    const auto kept = native.find(node);
    importer.add(node, kept == native.end() ? "" : kept->second);
  }
  return importer.finish(returned);
}

}  // namespace tv::script
