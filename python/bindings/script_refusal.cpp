#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "python/bindings/script_import.h"
#include "python/bindings/script_nodes.h"
#include "python/bindings/script_types.h"
#include "python/bindings/torch_trace.h"
#include "runtime/base/error.h"

namespace tv::script {
namespace {

using torch::jit::Node;
using torch::jit::Value;
namespace prim = c10::prim;

// What a native node computed, rather than the program's arguments, loop counters and attributes.
bool is_read_from_data(const Value* value) {
  const Node* from = value->node();
  return from->kind() != prim::Param && from->kind() != prim::GetAttr && from->blocks().empty();
}

// Views share memory with what they are views of; an engine's results do not.
bool is_view(const Node* node) {
  const auto* schema = node->maybeSchema();
  return schema && std::any_of(schema->returns().begin(), schema->returns().end(),
                               [](const auto& result) { return result.alias_info() != nullptr; });
}

// Why a call has no form in the Graph.
std::string refusal_of(const Call& call) {
  const auto op = c10::Dispatcher::singleton().findSchema(call.name);
  try {
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const c10::Argument& formal = op->schema().arguments().at(i);
      if (!takes_tensors(formal)) to_attr(formal, call.arguments[i].value);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Operators on a tensor's storage, whatever its shape says.
bool reads_storage(const Call& call) { return call.name.name.starts_with("aten::as_strided"); }

std::string refusal_of_device(const Knowledge& knowledge, at::ArrayRef<const Value*> values,
                              bool takes_numbers) {
  for (const Value* value : values) {
    const Fact* fact = knowledge.recording.fact(value);
    if (!fact) continue;
    for (const TensorFact& tensor : fact->tensors) {
      if (tensor.device == knowledge.device) continue;
      if (takes_numbers && tensor.sizes.empty() && tensor.device.is_cpu()) continue;
      return "it has tensors on " + tensor.device.str() + ", those of the engines are on " +
             knowledge.device.str();
    }
  }
  return "";
}

std::string refusal_of_tensors(const Knowledge& knowledge, const Node* node, bool needs_storage) {
  // PyTorch takes numbers of the host as operands of whatever device.
  std::string why = refusal_of_device(knowledge, node->inputs(), /*takes_numbers=*/true);
  if (why.empty()) why = refusal_of_device(knowledge, node->outputs(), /*takes_numbers=*/false);
  if (!why.empty()) return why;
  const Fact* first = node->inputs().empty() ? nullptr : knowledge.recording.fact(node->input(0));
  if (needs_storage && first && !first->tensors.empty() && !first->tensors[0].is_whole) {
    return "as_strided of a tensor that is not all of its storage, in order";
  }
  return "";
}

std::string refusal_of_input(const Knowledge& knowledge, const Value* value) {
  if (torch::jit::toIValue(value)) return "";
  const Fact* fact = knowledge.recording.fact(value);
  if (!fact) return "the example inputs did not reach it";
  const bool is_host = knowledge.hosts.contains(value->node());
  if (is_host && fact->number_varies) return "it reads a number that changes as the program runs";
  if (fact->is_list && knowledge.written.contains(value)) {
    return "it takes a list that changes as the program runs";
  }
  const bool is_list = value->type()->kind() == c10::TypeKind::ListType && holds_tensors(value);
  if (is_list && is_barrier(value->node())) return "it takes a list of tensors made elsewhere";
  if (value->type()->kind() == c10::TypeKind::OptionalType && holds_tensors(value) &&
      !knowledge.weights.contains(value)) {
    return "it takes a tensor that may be None";
  }
  if (holds_tensors(value)) return fact->varies ? "the sizes that it reads change" : "";
  if (fact->varies) return "it reads a number that changes as the program runs";
  if (!is_host && is_read_from_data(value)) return "it reads a number that is computed from data";
  return is_comparable(value) ? "" : "it takes a " + value->type()->str() + " that is not constant";
}

// Whether the executions at other sizes say the same of it.
std::string refusal_of_facts(const Runs& runs, const Value* value) {
  const Fact* first = runs.all[0]->fact(value);
  if (!first || torch::jit::toIValue(value)) return "";
  for (size_t k = 1; k < runs.fitted; ++k) {
    const Fact* fact = runs.all[k]->fact(value);
    if (!fact) return "not every size that was tried reaches it";
    bool same = !fact->varies && fact->tensors.size() == first->tensors.size();
    for (size_t i = 0; same && i < fact->tensors.size(); ++i) {
      const TensorFact &a = first->tensors[i], &b = fact->tensors[i];
      same = a.dtype == b.dtype && a.device == b.device && a.sizes.size() == b.sizes.size();
    }
    if (!same) return "its tensors are of other kinds at other sizes";
  }
  return "";
}

// Why the executions at several sizes are not one operator with sizes that follow rules.
std::string refusal_of_sizes(const Knowledge& knowledge, const Node* node) {
  const Runs& runs = knowledge.runs;
  if (runs.all.size() == 1) return "";
  const auto is_number = [&](const Value* value) {
    return knowledge.hosts.contains(value->node());
  };
  std::vector<Trace> traces(runs.fitted);
  for (size_t k = 0; k < runs.fitted; ++k) {
    const Recipe* recipe = runs.all[k]->recipe(node);
    if (!recipe) return "not every size that was tried reaches it";
    if (!recipe->refusal.empty()) return recipe->refusal;
    trace(node, *runs.all[k], is_number, traces[k]);
    if (traces[k].text != traces[0].text) return "its operators change with the sizes";
  }
  for (const Value* value : node->inputs()) {
    std::string why = refusal_of_facts(runs, value);
    if (!why.empty()) return why;
    const Fact* fact = runs.all[0]->fact(value);
    for (size_t i = 0; fact && i < fact->tensors.size(); ++i) {
      for (const Numbers& size : runs.sizes(value, i)) knowledge.sizes->given(size);
    }
  }
  for (const Value* value : node->outputs()) {
    std::string why = refusal_of_facts(runs, value);
    if (!why.empty()) return why;
  }
  for (size_t i = 0; i < traces[0].numbers.size(); ++i) {
    Numbers numbers;
    for (const Trace& trace : traces) numbers.push_back(trace.numbers[i]);
    if (!knowledge.sizes->of(numbers)) return "a size of it follows no rule that was found";
  }
  return "";
}

}  // namespace

std::string refusal(const Knowledge& knowledge, const Node* node) {
  if (is_barrier(node)) {
    if (!node->blocks().empty()) return "control flow stays in TorchScript";
    return node->isNondeterministic() ? "it draws random numbers" : "it has a side effect";
  }
  const Recipe* recipe = knowledge.recording.recipe(node);
  if (!recipe) return "the example inputs did not reach it";
  if (!recipe->refusal.empty()) return recipe->refusal;
  for (const Value* input : node->inputs()) {
    std::string why = refusal_of_input(knowledge, input);
    if (!why.empty()) return why;
  }
  std::string why = refusal_of_sizes(knowledge, node);
  if (!why.empty()) return why;
  bool needs_storage = false;
  for (const Call& call : recipe->calls) {
    why = refusal_of(call);
    if (!why.empty()) return why;
    needs_storage = needs_storage || reads_storage(call);
  }
  why = refusal_of_tensors(knowledge, node, needs_storage);
  if (!why.empty()) return why;
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    const Value* output = node->output(i);
    const Fact* fact = knowledge.recording.fact(output);
    if (!fact || fact->varies) return "its sizes change from one execution to the next";
    for (const Ref& ref : recipe->outputs.at(i)) {
      if (ref.call < 0 && !recipe->calls.empty()) return "it returns its argument";
    }
    if (knowledge.written.contains(output) && is_view(node)) {
      return "what it gives shares memory with a tensor that is written to";
    }
  }
  return "";
}

}  // namespace tv::script
