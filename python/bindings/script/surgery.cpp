#include "python/bindings/script/surgery.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "python/bindings/script/nodes.h"

namespace tv::script {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
using torch::jit::WithInsertPoint;
namespace prim = c10::prim;

// An attribute of a type like Optional[Tensor] that holds a tensor is one.
Value* insert_weights(Graph& graph, std::vector<Value*> values) {
  for (Value*& value : values) {
    if (value->type()->kind() != c10::TypeKind::OptionalType) continue;
    Node* tensor = graph.create(c10::aten::_unwrap_optional, {value}, 1);
    value = graph.insertNode(tensor)->output()->setType(c10::TensorType::get());
  }
  return graph.insertNode(graph.createList(c10::TensorType::get(), values))->output();
}

Value* insert_list(Graph& graph, const std::vector<Value*>& values) {
  return graph.insertNode(graph.createList(c10::TensorType::get(), values))->output();
}

// A tensor without elements whose size tells the number.
Value* insert_carrier(Graph& graph, Value* number) {
  Value* size = graph.insert(c10::aten::add, {number, kCarriedBias});
  const std::vector<Value*> sizes = {size, graph.insertConstant(0)};
  Value* shape = graph.insertNode(graph.createList(c10::IntType::get(), sizes))->output();
  const auto dtype = static_cast<int64_t>(at::kByte);
  return graph.insert(c10::aten::empty, {shape}, {torch::jit::NamedValue("dtype", dtype)});
}

Value* insert_call(Graph& graph, const char* op, const std::vector<Value*>& inputs,
                   const c10::TypePtr& type) {
  Node* node = graph.insertNode(graph.create(c10::Symbol::fromQualString(op), inputs, 1));
  node->output()->setType(type);
  return node->output();
}

bool is_row_major(const ObservedTensor& observed) {
  int64_t expected = 1;
  for (size_t d = observed.sizes.size(); d-- > 0;) {
    if (observed.sizes[d] != 1 && observed.strides[d] != expected) return false;
    expected *= observed.sizes[d];
  }
  return true;
}

struct Tensors {
  Value *inputs, *weights;  ///< lists
};

// Whether all is as the engine was made for.
Value* insert_condition(Graph& graph, const Excision& excision, const EngineCall& call,
                        const Tensors& tensors, const Recording& recording) {
  const c10::IValue device = call.only_on ? c10::IValue(*call.only_on) : c10::IValue();
  std::vector<Value*> asked = {tensors.inputs, call.engine, tensors.weights,
                               graph.insertConstant(device)};
  if (!call.method.empty()) {
    asked.insert(asked.end(), {graph.inputs().at(0), graph.insertConstant(call.method),
                               graph.insertConstant(call.rule)});
  }
  Value* fits = insert_call(graph, "torch_vulkan::fits", asked, c10::BoolType::get());
  for (Value* input : call.inputs) {
    if (!call.method.empty()) break;  // the rule has them
    // Results have strides like those that PyTorch made of the example's.
    const ObservedValue* observed = recording.observed(input);
    if (!observed || observed->tensors.empty() || is_row_major(observed->tensors.front())) continue;
    Value* strides = insert_call(graph, "aten::stride", {input}, c10::ListType::ofInts());
    Value* want = graph.insertConstant(observed->tensors.front().strides);
    Value* same = insert_call(graph, "aten::eq", {strides, want}, c10::BoolType::get());
    fits = insert_call(graph, "aten::__and__", {fits, same}, c10::BoolType::get());
  }
  for (Value* guard : excision.guards) {
    Value* want = graph.insertConstant(recording.observed(guard)->value);
    Value* same = insert_call(graph, "aten::eq", {guard, want}, c10::BoolType::get());
    fits = insert_call(graph, "aten::__and__", {fits, same}, c10::BoolType::get());
  }
  return fits;
}

void fill_with_engine(Graph& graph, Block* block, const Excision& excision, const EngineCall& call,
                      const Tensors& tensors) {
  const WithInsertPoint at(block->return_node());
  Value* list =
      insert_call(graph, "torch_vulkan::execute", {tensors.inputs, tensors.weights, call.engine},
                  c10::ListType::ofTensors());
  Node* unpack = graph.insertNode(graph.createListUnpack(list, call.casts.size()));
  std::vector<Value*> results(unpack->outputs().begin(), unpack->outputs().end());
  for (size_t i = 0; i < results.size(); ++i) {
    if (call.casts[i]) {
      results[i] = graph.insert(c10::aten::to, {results[i], static_cast<int64_t>(*call.casts[i])});
    }
    if (call.results_on) results[i] = graph.insert(c10::aten::to, {results[i], *call.results_on});
  }
  for (size_t i = 0; i < excision.outputs.size(); ++i) {
    std::vector<Value*> parts;
    for (const int position : call.outputs[i]) parts.push_back(results.at(position));
    const bool is_list = excision.outputs[i]->type()->kind() == c10::TypeKind::ListType;
    block->registerOutput(is_list ? insert_list(graph, parts) : parts.at(0));
  }
}

// The nodes as they were, with copies of their helpers, before `end`.
void place_nodes(Node* end, const Excision& excision) {
  Graph& graph = *end->owningGraph();
  const std::unordered_set<const Node*> members(excision.nodes.begin(), excision.nodes.end());
  std::unordered_map<Value*, Value*> copies;
  const auto renamed = [&copies](Value* value) {
    const auto found = copies.find(value);
    return found == copies.end() ? value : found->second;
  };
  for (Node* node : excision.both) {
    if (members.contains(node)) {
      node->moveBefore(end);
      for (size_t i = 0; i < node->inputs().size(); ++i) {
        node->replaceInput(i, renamed(node->input(i)));
      }
    } else {
      Node* copy = graph.createClone(node, renamed)->insertBefore(end);
      for (size_t i = 0; i < node->outputs().size(); ++i) copies[node->output(i)] = copy->output(i);
    }
  }
}

bool is_inside(const Node* node, const Block* block) {
  for (const Block* at = node->owningBlock(); at;) {
    if (at == block) return true;
    const Node* owner = at->owningNode();
    at = owner ? owner->owningBlock() : nullptr;
  }
  return false;
}

}  // namespace

std::vector<Value*> replace(const Excision& excision, const EngineCall& call,
                            const std::vector<Recording*>& recordings) {
  const Recording& recording = *recordings.at(0);
  Node* first = excision.nodes.front();
  Graph& graph = *first->owningGraph();
  const WithInsertPoint at(first);
  std::vector<Value*> inputs = call.inputs;
  for (Value* number : excision.carried) inputs.push_back(insert_carrier(graph, number));
  const Tensors tensors{insert_list(graph, inputs), insert_weights(graph, call.weights)};
  Value* fits = insert_condition(graph, excision, call, tensors, recording);
  Node* choice = graph.insertNode(graph.create(prim::If, {fits}, 0));
  Block* engine = choice->addBlock();
  Block* native = choice->addBlock();
  fill_with_engine(graph, engine, excision, call, tensors);
  place_nodes(native->return_node(), excision);
  for (Value* output : excision.outputs) native->registerOutput(output);
  std::vector<Value*> all;
  for (Value* output : excision.outputs) {
    Value* chosen = choice->addOutput()->setType(output->type());
    for (Recording* each : recordings) {
      if (each->values.contains(output)) each->values[chosen] = each->values.at(output);
    }
    const auto uses = output->uses();
    for (const auto& use : uses) {
      if (!is_inside(use.user, native)) use.user->replaceInput(use.offset, chosen);
    }
    all.push_back(chosen);
  }
  return all;
}

void keep(const Excision& excision) { place_nodes(excision.nodes.back()->next(), excision); }

void remove_unread(const Region& region, ImportContext& context,
                   const std::vector<Recording*>& recordings) {
  for (auto it = region.nodes.rbegin(); it != region.nodes.rend(); ++it) {
    Node* node = *it;
    const bool is_helper = node->owningBlock() == region.block &&
                           (context.hosts.contains(node) || is_free(node, context.recording));
    if (!is_helper || node->hasUses()) continue;
    // Another node may be made at the same address.
    context.hosts.erase(node);
    for (Recording* each : recordings) {
      each->calls.erase(node);
      for (const Value* output : node->outputs()) each->values.erase(output);
    }
    node->destroy();
  }
}

}  // namespace tv::script
