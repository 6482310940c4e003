#include "python/bindings/script/check.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <sstream>

#include "python/bindings/recording/sizes.h"
#include "python/bindings/script/nodes.h"
#include "runtime/base/error.h"

namespace tv::script {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
namespace prim = c10::prim;

// The nodes as a graph of their own, `(self, Tensor[] inputs, Tensor[] weights) -> Tensor[]`.
class Writer {
 public:
  Writer(const Excision& excision, const EngineCall& call, const ImportContext& context,
         const torch::jit::Module& module)
      : excision_(excision), call_(call), context_(context) {
    names_[excision.nodes.front()->owningGraph()->inputs().at(0)] =
        graph_->addInput("self")->setType(module.type());
  }

  std::shared_ptr<Graph> run() {
    Value* inputs = graph_->addInput("inputs")->setType(c10::ListType::ofTensors());
    Value* weights = graph_->addInput("weights")->setType(c10::ListType::ofTensors());
    const auto carriers = take(inputs, call_.inputs, excision_.carried.size());
    take(weights, call_.weights, 0);
    for (const auto& [value, input] : call_.aliases) names_[value] = names_.at(input);
    for (size_t i = 0; i < carriers.size(); ++i) {
      Value* size = graph_->insert(c10::aten::size, {carriers[i], int64_t{0}});
      names_[excision_.carried[i]] = graph_->insert(c10::aten::sub, {size, kCarriedBias});
    }
    for (Value* guard : excision_.guards) {
      names_[guard] = graph_->insertConstant(context_.recording.observed(guard)->value);
    }
    for (Node* node : excision_.both) {
      Node* copy = graph_->createClone(node, [this](Value* value) { return renamed(value); });
      graph_->insertNode(copy);
      for (size_t i = 0; i < node->outputs().size(); ++i) {
        names_[node->output(i)] = copy->output(i);
      }
    }
    Node* list = graph_->createList(c10::TensorType::get(), results());
    graph_->registerOutput(graph_->insertNode(list)->output());
    return graph_;
  }

 private:
  // Names the tensors of a list; returns the `more` that follow them.
  std::vector<Value*> take(Value* list, const std::vector<Value*>& values, size_t more) {
    const size_t count = values.size() + more;
    if (count == 0) return {};
    Node* unpack = graph_->insertNode(graph_->createListUnpack(list, count));
    for (size_t i = 0; i < values.size(); ++i) names_[values[i]] = unpack->output(i);
    return unpack->outputs().slice(values.size()).vec();
  }

  std::vector<Value*> results() {
    std::vector<Value*> found;
    for (Value* output : excision_.outputs) {
      if (output->type()->kind() != c10::TypeKind::ListType) {
        found.push_back(renamed(output));
        continue;
      }
      const size_t count = context_.recording.observed(output)->tensors.size();
      Node* unpack = graph_->insertNode(graph_->createListUnpack(renamed(output), count));
      found.insert(found.end(), unpack->outputs().begin(), unpack->outputs().end());
    }
    return found;
  }

  Value* renamed(Value* value) {
    const auto found = names_.find(value);
    if (found != names_.end()) return found->second;
    if (value->node()->kind() != prim::Constant) {
      throw Error(ErrorKind::kUnsupported, "it reads what is made elsewhere");
    }
    Node* copy = graph_->createClone(value->node(), [](Value* v) { return v; });
    return names_[value] = graph_->insertNode(copy)->output();
  }

  const Excision& excision_;
  const EngineCall& call_;
  const ImportContext& context_;
  const std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  std::unordered_map<Value*, Value*> names_;
};

// What was seen of the nodes themselves in one execution.
Trace trace_of(const Excision& excision, const ImportContext& context, const Recording& run) {
  const auto is_number = [&](const Value* value) { return context.hosts.contains(value->node()); };
  Trace made;
  for (const Node* node : excision.nodes) trace(node, run, is_number, made);
  for (const Value* output : excision.outputs) {
    for (const ObservedTensor& tensor : run.observed(output)->tensors) trace(tensor, made);
  }
  return made;
}

at::Tensor without_data(const Value* value, const Recording& run) {
  const auto constant = torch::jit::toIValue(value);
  if (constant && constant->isTensor()) return constant->toTensor();
  const ObservedTensor& observed = run.observed(value)->tensors.at(0);
  return at::empty_strided(observed.sizes, observed.strides,
                           at::TensorOptions(observed.dtype).device(at::kMeta));
}

at::Tensor carrier(const Value* number, const Recording& run) {
  return at::empty({run.observed(number)->value.toInt() + kCarriedBias, 0},
                   at::TensorOptions(at::kByte).device(at::kMeta));
}

// The first lines of two traces that differ, for people.
std::string difference(const Trace& seen, const Trace& wanted) {
  std::istringstream ours(seen.text), theirs(wanted.text);
  std::string mine, other;
  do {
    mine.clear();
    other.clear();
    std::getline(ours, mine);
    std::getline(theirs, other);
  } while (mine == other && ours && theirs);
  if (mine == other) return "their numbers differ";
  constexpr size_t kMostText = 160;
  return "got " + mine.substr(0, kMostText) + ", want " + other.substr(0, kMostText);
}

// What the method does at the sizes of one execution: it has to be what the nodes did.
Trace checked_trace(const std::shared_ptr<Graph>& graph, const Excision& excision,
                    const EngineCall& call, const std::set<std::string>& whole,
                    const Recording& run, const torch::jit::Module& module, const Trace& wanted) {
  std::vector<at::Tensor> inputs, weights;
  for (const Value* value : call.inputs) inputs.push_back(without_data(value, run));
  for (const Value* value : call.weights) weights.push_back(without_data(value, run));
  for (const Value* number : excision.carried) inputs.push_back(carrier(number, run));
  Trace seen;
  try {
    seen = trace_without_data(graph, module._ivalue(), inputs, weights, whole);
    if (seen.text == wanted.text && seen.numbers == wanted.numbers) return seen;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kUnsupported,
                std::string("its sizes cannot be checked: ") + error.what());
  }
  throw Error(ErrorKind::kUnsupported,
              "its operators on tensors without data are other ones: " + difference(seen, wanted));
}

std::set<std::string> composites(const Excision& excision, const Recording& run) {
  std::set<std::string> found;
  for (const Node* node : excision.nodes) {
    for (const Call& call : run.recorded(node)->calls) {
      const auto op = c10::Dispatcher::singleton().findSchema(call.name);
      if (op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
        found.insert(registered_name(call.name));
      }
    }
  }
  return found;
}

// Of the inputs that some execution has in another order than row-major.
std::vector<Shape> strides_of(const EngineCall& call, const SampleRuns& runs, Sizes& sizes) {
  std::vector<Shape> all;
  for (const Value* input : call.inputs) {
    std::vector<Numbers> strides(runs.all[0]->observed(input)->tensors.at(0).sizes.size());
    bool row_major = true;
    for (size_t k = 0; k < runs.fitted; ++k) {
      const ObservedTensor& observed = runs.all[k]->observed(input)->tensors.at(0);
      int64_t expected = 1;
      for (size_t d = strides.size(); d-- > 0;) {
        const bool matters = observed.sizes[d] != 1;
        row_major = row_major && (!matters || observed.strides[d] == expected);
        strides[d].push_back(matters ? observed.strides[d] : 0);
        expected *= observed.sizes[d];
      }
    }
    Shape made;
    for (size_t d = 0; !row_major && d < strides.size(); ++d) {
      made.push_back(expr_of(sizes, strides[d]));
    }
    all.push_back(made);
  }
  return all;
}

}  // namespace

std::string add_check(const Excision& excision, const EngineCall& call,
                      const ImportContext& context, Sizes& sizes, torch::jit::Module& module) {
  const SampleRuns& runs = context.runs;
  SizeRule rule;
  rule.whole = composites(excision, *runs.all[0]);
  rule.strides = strides_of(call, runs, sizes);
  rule.strides.resize(rule.strides.size() + excision.carried.size());
  const std::shared_ptr<Graph> graph = Writer(excision, call, context, module).run();
  std::vector<Numbers> numbers;
  for (size_t k = 0; k < runs.fitted; ++k) {
    const Trace real = trace_of(excision, context, *runs.all[k]);
    const Trace seen = checked_trace(graph, excision, call, rule.whole, *runs.all[k], module, real);
    rule.digest = digest_of(seen.text);
    numbers.resize(seen.numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i].push_back(seen.numbers[i]);
  }
  for (const Numbers& values : numbers) rule.numbers.push_back(expr_of(sizes, values));
  const c10::QualifiedName name(*module.type()->name(), call.method);
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(name, graph));
  return rule.str();
}

}  // namespace tv::script
