#include "python/bindings/recording/record.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <sstream>

#include "python/bindings/recording/trap.h"

namespace tv::script {
namespace {

using c10::IValue;
using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;
namespace prim = c10::prim;

ObservedTensor observed_tensor(const at::Tensor& tensor) {
  const bool strided = tensor.layout() == at::kStrided;
  const bool plain = strided && !tensor.is_quantized() && !tensor.is_nested();
  const bool whole = plain && tensor.has_storage() && tensor.is_contiguous() &&
                     tensor.storage_offset() == 0 && tensor.nbytes() == tensor.storage().nbytes();
  return {tensor.scalar_type(),
          strided ? tensor.sizes().vec() : std::vector<int64_t>{},
          strided ? tensor.strides().vec() : std::vector<int64_t>{},
          tensor.device(),
          plain,
          whole};
}

// A list of tensors some of which may be None, whoever made its type.
bool is_optional_list(const IValue& value) {
  if (!value.isList()) return false;
  const c10::TypePtr type = value.toList().elementType();
  return type->kind() == c10::TypeKind::OptionalType &&
         type->containedType(0)->kind() == c10::TypeKind::TensorType;
}

// The calls of the node that runs at the moment.
class Recorder : public Listener {
 public:
  Recorder(Recording& recording, const RecordOptions& options)
      : recording_(recording), options_(options) {}

  void begin(const Node* node, const std::vector<IValue>& inputs) {
    node_ = node;
    recorded_ = {};
    refs_.clear();
    held_.clear();
    for (size_t i = 0; i < inputs.size(); ++i) {
      refuse_if_ambiguous(inputs, i);
      bind(inputs[i], -1, static_cast<int>(i));
    }
  }

  void end(const Node* node, const std::vector<IValue>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) note(node->output(i), outputs[i]);
    if (node_ != node) return;
    for (const IValue& output : outputs) recorded_.outputs.push_back(refs_to(output));
    drop_calls_without_effect();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto& refs = recorded_.outputs[i];
      if (outputs[i].isTensor() && refs.size() == 1 && refs[0].call < 0 && refs[0].element < 0) {
        roots_[node->output(i)] = root_of(node->input(refs[0].index));
      }
    }
    finish();
    node_ = nullptr;
  }

  void note(const Value* value, const IValue& seen) {
    ObservedValue observed;
    if (seen.isTensor()) {
      observed.is_tensor = true;
      const at::Tensor& tensor = seen.toTensor();
      if (tensor.defined()) observed.tensors.push_back(observed_tensor(tensor));
      if (is_number(tensor)) observed.number = tensor.item();
    } else if (seen.isTensorList()) {
      observed.is_list = true;
      for (const at::Tensor& tensor : seen.toTensorVector()) {
        observed.tensors.push_back(observed_tensor(tensor));
      }
    } else if (is_optional_list(seen)) {
      observed.is_list = true;
      for (const IValue& tensor : seen.toListRef()) {
        if (tensor.isTensor()) observed.tensors.push_back(observed_tensor(tensor.toTensor()));
      }
    } else if (!seen.isObject()) {
      observed.value = seen.isList() || seen.isTuple() ? seen.deepcopy() : seen;
    }
    const auto [place, fresh] = recording_.values.emplace(value, observed);
    if (fresh) return;
    if (!same(place->second, observed)) place->second.varies = true;
    if (text(place->second.number) != text(observed.number)) place->second.number_varies = true;
  }

  bool keeps_whole(const c10::OperatorHandle& op) override {
    return options_.keeps_whole(registered_name(op.operator_name()));
  }

  bool without_data() const override { return options_.on_meta; }

  void prepare(const c10::OperatorHandle& op, std::vector<IValue>& stack) override {
    if (!options_.on_meta || !node_ || node_->kind() == prim::NumToTensor) return;
    const auto& formals = op.schema().arguments();
    const size_t first = stack.size() - formals.size();
    bool takes_tensors = false, takes_meta = false;
    for (size_t i = 0; i < formals.size(); ++i) {
      for (const at::Tensor& tensor : tensors_in(stack[first + i])) {
        takes_tensors = true;
        takes_meta = takes_meta || tensor.is_meta();
      }
    }
    if (takes_tensors && !takes_meta) return;  // arithmetic on numbers
    for (size_t i = 0; i < formals.size(); ++i) {
      if (names_device(*formals[i].type())) stack[first + i] = c10::Device(c10::kMeta);
    }
  }

  void ran(const c10::OperatorHandle& op, const std::vector<IValue>& inputs,
           const std::vector<IValue>& outputs) override {
    if (!node_) return;
    const int index = static_cast<int>(recorded_.calls.size());
    Call call{op.operator_name(), {}, {}};
    if (op.schema().is_mutable())
      refuse("it calls " + registered_name(call.name) + ", which writes to a tensor");
    for (const IValue& input : inputs) call.arguments.push_back(argument(input));
    int position = 0;
    for (const IValue& output : outputs) {
      if (output.isTensor()) {
        bind(output, index, position++);
        call.outputs.push_back(output.toTensor().defined()
                                   ? std::optional(observed_tensor(output.toTensor()))
                                   : std::nullopt);
      } else if (output.isTensorList()) {
        for (const at::Tensor& tensor : output.toTensorVector()) {
          bind(tensor, index, position++);
          call.outputs.push_back(observed_tensor(tensor));
        }
      } else {
        refuse("it computes a number from a tensor's contents");
      }
    }
    recorded_.calls.push_back(std::move(call));
  }

 private:
  static bool same(const ObservedValue& a, const ObservedValue& b) {
    if (a.is_tensor != b.is_tensor || a.is_list != b.is_list ||
        a.tensors.size() != b.tensors.size()) {
      return false;
    }
    for (size_t i = 0; i < a.tensors.size(); ++i) {
      if (text_of(a.tensors[i]) != text_of(b.tensors[i])) return false;
    }
    return text(a.value) == text(b.value);
  }

  static std::string text(const IValue& value) {
    std::ostringstream text;
    text << value;
    return text.str();
  }

  static bool is_number(const at::Tensor& tensor) {
    return tensor.defined() && tensor.dim() == 0 && tensor.is_cpu() && !tensor.is_complex() &&
           tensor.layout() == at::kStrided;
  }

  static std::vector<at::Tensor> tensors_in(const IValue& value) {
    std::vector<at::Tensor> found;
    if (value.isTensor()) found = {value.toTensor()};
    if (value.isTensorList()) found = value.toTensorVector();
    if (is_optional_list(value)) {
      for (const IValue& item : value.toListRef()) {
        if (item.isTensor()) found.push_back(item.toTensor());
      }
    }
    std::erase_if(found, [](const at::Tensor& tensor) { return !tensor.defined(); });
    return found;
  }

  // aten::contiguous of what is contiguous gives its argument.
  void drop_calls_without_effect() {
    const auto& outputs = recorded_.outputs;
    const bool hands_on = std::all_of(outputs.begin(), outputs.end(), [](const auto& refs) {
      return refs.size() == 1 && refs[0].call < 0;
    });
    if (hands_on && !outputs.empty()) recorded_.calls.clear();
  }

  // The value that `value` is another name for, as dropout's result is.
  const Value* root_of(const Value* value) const {
    const auto found = roots_.find(value);
    return found == roots_.end() ? value : found->second;
  }

  // One tensor for two arguments that may be two in another call.
  void refuse_if_ambiguous(const std::vector<IValue>& inputs, size_t i) {
    if (!inputs[i].isTensor()) return;
    for (size_t j = 0; j < i; ++j) {
      if (inputs[j].isTensor() && inputs[j].toTensor().is_same(inputs[i].toTensor()) &&
          root_of(node_->input(i)) != root_of(node_->input(j))) {
        refuse("two of its arguments were one and the same tensor in the example");
      }
    }
  }

  void refuse(const std::string& why) {
    if (recorded_.refusal.empty()) recorded_.refusal = why;
  }

  void bind(const IValue& value, int call, int index) {
    if (value.isTensor()) {
      bind(value.toTensor(), {call, index, -1});
    } else if (value.isTensorList()) {
      const auto list = value.toTensorVector();
      for (size_t i = 0; i < list.size(); ++i) bind(list[i], {call, index, static_cast<int>(i)});
    } else if (is_optional_list(value)) {
      int i = 0;
      for (const IValue& item : value.toListRef()) {
        if (item.isTensor()) bind(item.toTensor(), {call, index, i});
        ++i;
      }
    }
  }

  // The first name of a tensor stands: an operator may return its input.
  void bind(const at::Tensor& tensor, Ref ref) {
    if (!tensor.defined()) return;
    refs_.emplace(tensor.unsafeGetTensorImpl(), ref);
    held_.push_back(tensor);  // so that its address is not another's
  }

  std::optional<Ref> ref_to(const at::Tensor& tensor) const {
    const auto found = refs_.find(tensor.unsafeGetTensorImpl());
    return found == refs_.end() ? std::nullopt : std::optional(found->second);
  }

  std::vector<Ref> refs_to(const IValue& output) {
    std::vector<at::Tensor> tensors;
    if (output.isTensor()) tensors = {output.toTensor()};
    if (output.isTensorList()) tensors = output.toTensorVector();
    std::vector<Ref> refs;
    for (const at::Tensor& tensor : tensors) {
      if (const auto ref = tensor.defined() ? ref_to(tensor) : std::nullopt) {
        refs.push_back(*ref);
      } else {
        refuse("its result is not made by operators of the dispatcher");
      }
    }
    return refs;
  }

  CallArgument argument(const IValue& input) {
    CallArgument made;
    if (input.isTensor()) {
      made.is_tensor = true;
      made.refs = {tensor_argument(input.toTensor(), made)};
    } else if (input.isTensorList()) {
      made.is_tensor = made.is_list = true;
      for (const at::Tensor& t : input.toTensorVector()) made.refs.push_back(list_item(t));
    } else if (is_optional_list(input)) {
      made.is_tensor = made.is_list = true;
      for (const IValue& t : input.toListRef()) {
        made.refs.push_back(t.isTensor() ? list_item(t.toTensor()) : std::nullopt);
      }
    } else {
      made.value = input;
    }
    return made;
  }

  std::optional<Ref> tensor_argument(const at::Tensor& tensor, CallArgument& made) {
    if (!tensor.defined()) return std::nullopt;
    if (auto ref = ref_to(tensor)) return ref;
    if (is_number(tensor)) {
      made.value = tensor.item();
    } else {
      refuse("it reads a tensor that comes from nowhere in the graph");
    }
    return std::nullopt;
  }

  std::optional<Ref> list_item(const at::Tensor& tensor) {
    if (!tensor.defined()) return std::nullopt;
    auto ref = ref_to(tensor);
    if (!ref) refuse("it reads a tensor that comes from nowhere in the graph");
    return ref;
  }

  void finish() {
    std::ostringstream text;
    for (const Call& call : recorded_.calls) {
      text << registered_name(call.name) << '(';
      for (const CallArgument& argument : call.arguments) {
        for (const auto& ref : argument.refs) {
          if (ref) text << '%' << ref->call << '.' << ref->index << '.' << ref->element;
          text << ',';
        }
        text << argument.value << ';';
      }
      for (const auto& output : call.outputs) text << (output ? text_of(*output) : "None");
      text << ")\n";
    }
    recorded_.text = text.str();
    const auto [place, fresh] = recording_.calls.emplace(node_, recorded_);
    if (fresh || !place->second.refusal.empty()) return;
    if (!recorded_.refusal.empty()) place->second.refusal = recorded_.refusal;
    if (place->second.text != recorded_.text) {
      place->second.refusal = "its sizes or numbers change from one execution to the next";
    }
  }

  Recording& recording_;
  const RecordOptions& options_;
  const Node* node_ = nullptr;
  RecordedCalls recorded_;
  std::unordered_map<const c10::TensorImpl*, Ref> refs_;
  std::vector<at::Tensor> held_;
  std::unordered_map<const Value*, const Value*> roots_;
};

// A node that hands `values` to `seen` when it is run.
Node* marker(torch::jit::Graph& graph, at::ArrayRef<Value*> values,
             std::function<void(const std::vector<IValue>&)> seen) {
  const size_t count = values.size();
  auto callback = [count, seen = std::move(seen)](std::vector<IValue>& stack) {
    stack.pop_back();  // the interpreter's number of the frame
    std::vector<IValue> given(stack.end() - static_cast<ptrdiff_t>(count), stack.end());
    stack.resize(stack.size() - count);
    const Untold untold;
    seen(given);
  };
  auto* node = graph.insertNode(new torch::jit::ProfileIValueOp(&graph, std::move(callback)));
  for (Value* value : values) node->addInput(value);
  return node;
}

void mark(Block* block, Recorder& recorder, std::vector<Node*>& markers) {
  torch::jit::Graph& graph = *block->owningGraph();
  std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
  {
    const torch::jit::WithInsertPoint at(nodes.empty() ? block->return_node() : nodes.front());
    const std::vector<Value*> values(block->inputs().begin(), block->inputs().end());
    markers.push_back(marker(graph, values, [&recorder, values](const auto& given) {
      for (size_t i = 0; i < values.size(); ++i) recorder.note(values[i], given[i]);
    }));
  }
  for (Node* node : nodes) {
    if (node->kind() == prim::Constant) continue;
    if (node->blocks().empty()) {
      const torch::jit::WithInsertPoint before(node);
      markers.push_back(marker(graph, node->inputs(), [&recorder, node](const auto& given) {
        recorder.begin(node, given);
      }));
    }
    for (Block* inner : node->blocks()) mark(inner, recorder, markers);
    const torch::jit::WithInsertPoint after(node->next());
    markers.push_back(marker(graph, node->outputs(),
                             [&recorder, node](const auto& given) { recorder.end(node, given); }));
  }
}

}  // namespace

void record(const std::shared_ptr<torch::jit::Graph>& graph, std::vector<IValue> inputs,
            const RecordOptions& options, Recording& recording) {
  Recorder recorder(recording, options);
  std::vector<Node*> markers;
  mark(graph->block(), recorder, markers);
  const auto unmark = [&markers] {
    for (Node* node : markers) node->destroy();
  };
  try {
    const at::NoGradGuard no_gradients;
    const torch::jit::Code code(graph, "torch_vulkan_record");
    const Trap trap(recorder);
    torch::jit::InterpreterState(code).run(inputs);
  } catch (...) {
    unmark();
    throw;
  }
  unmark();
}

}  // namespace tv::script
