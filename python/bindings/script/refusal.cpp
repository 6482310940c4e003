#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "csrc/converter.h"
#include "python/bindings/recording/trace.h"
#include "python/bindings/script/import.h"
#include "python/bindings/script/nodes.h"
#include "python/bindings/script/types.h"
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

std::string refusal_of_device(const ImportContext& context, at::ArrayRef<const Value*> values,
                              bool takes_numbers) {
  for (const Value* value : values) {
    const ObservedValue* observed = context.recording.observed(value);
    if (!observed) continue;
    for (const ObservedTensor& tensor : observed->tensors) {
      if (tensor.device == context.device) continue;
      if (takes_numbers && tensor.sizes.empty() && tensor.device.is_cpu()) continue;
      return "it has tensors on " + tensor.device.str() + ", those of the engines are on " +
             context.device.str();
    }
  }
  return "";
}

std::string refusal_of_tensors(const ImportContext& context, const Node* node, bool needs_storage) {
  // PyTorch takes numbers of the host as operands of whatever device.
  std::string why = refusal_of_device(context, node->inputs(), /*takes_numbers=*/true);
  if (why.empty()) why = refusal_of_device(context, node->outputs(), /*takes_numbers=*/false);
  if (!why.empty()) return why;
  const ObservedValue* first =
      node->inputs().empty() ? nullptr : context.recording.observed(node->input(0));
  const bool is_part = first && !first->tensors.empty() && !first->tensors[0].is_whole;
  return needs_storage && is_part ? kPartOfStorage : "";
}

std::string refusal_of_input(const ImportContext& context, const Value* value) {
  if (torch::jit::toIValue(value)) return "";
  const ObservedValue* observed = context.recording.observed(value);
  if (!observed) return "the example inputs did not reach it";
  const bool is_host = context.hosts.contains(value->node());
  if (is_host && observed->number_varies)
    return "it reads a number that changes as the program runs";
  if (observed->is_list && context.written.contains(value)) {
    return "it takes a list that changes as the program runs";
  }
  const bool is_list = value->type()->kind() == c10::TypeKind::ListType && holds_tensors(value);
  if (is_list && is_barrier(value->node())) return "it takes a list of tensors made elsewhere";
  if (value->type()->kind() == c10::TypeKind::OptionalType && holds_tensors(value) &&
      !context.weights.contains(value)) {
    return "it takes a tensor that may be None";
  }
  if (holds_tensors(value)) return observed->varies ? "the sizes that it reads change" : "";
  if (observed->varies) return "it reads a number that changes as the program runs";
  if (!is_host && is_read_from_data(value)) return "it reads a number that is computed from data";
  return is_comparable(value) ? "" : "it takes a " + value->type()->str() + " that is not constant";
}

// Whether the executions at other sizes say the same of it.
std::string refusal_of_observed(const SampleRuns& runs, const Value* value) {
  const ObservedValue* first = runs.all[0]->observed(value);
  if (!first || torch::jit::toIValue(value)) return "";
  for (size_t k = 1; k < runs.fitted; ++k) {
    const ObservedValue* observed = runs.all[k]->observed(value);
    if (!observed) return "not every size that was tried reaches it";
    bool same = !observed->varies && observed->tensors.size() == first->tensors.size();
    for (size_t i = 0; same && i < observed->tensors.size(); ++i) {
      const ObservedTensor &a = first->tensors[i], &b = observed->tensors[i];
      same = a.dtype == b.dtype && a.device == b.device && a.sizes.size() == b.sizes.size();
    }
    if (!same) return "its tensors are of other kinds at other sizes";
  }
  return "";
}

// Why the executions at several sizes are not one operator with sizes that follow rules.
std::string refusal_of_sizes(const ImportContext& context, const Node* node) {
  const SampleRuns& runs = context.runs;
  if (runs.all.size() == 1) return "";
  const auto is_number = [&](const Value* value) { return context.hosts.contains(value->node()); };
  std::vector<Trace> traces(runs.fitted);
  for (size_t k = 0; k < runs.fitted; ++k) {
    const RecordedCalls* recorded = runs.all[k]->recorded(node);
    if (!recorded) return "not every size that was tried reaches it";
    if (!recorded->refusal.empty()) return recorded->refusal;
    trace(node, *runs.all[k], is_number, traces[k]);
    if (traces[k].text != traces[0].text) return "its operators change with the sizes";
  }
  for (const Value* value : node->inputs()) {
    std::string why = refusal_of_observed(runs, value);
    if (!why.empty()) return why;
    const ObservedValue* observed = runs.all[0]->observed(value);
    for (size_t i = 0; observed && i < observed->tensors.size(); ++i) {
      for (const Numbers& size : runs.sizes(value, i)) context.sizes->given(size);
    }
  }
  for (const Value* value : node->outputs()) {
    std::string why = refusal_of_observed(runs, value);
    if (!why.empty()) return why;
  }
  for (size_t i = 0; i < traces[0].numbers.size(); ++i) {
    Numbers numbers;
    for (const Trace& trace : traces) numbers.push_back(trace.numbers[i]);
    if (!context.sizes->of(numbers)) return "a size of it follows no rule that was found";
  }
  return "";
}

}  // namespace

std::string refusal(const ImportContext& context, const Node* node) {
  if (is_barrier(node)) {
    if (!node->blocks().empty()) return "control flow stays in TorchScript";
    return node->isNondeterministic() ? "it draws random numbers" : "it has a side effect";
  }
  const RecordedCalls* recorded = context.recording.recorded(node);
  if (!recorded) return "the example inputs did not reach it";
  if (!recorded->refusal.empty()) return recorded->refusal;
  for (const Value* input : node->inputs()) {
    std::string why = refusal_of_input(context, input);
    if (!why.empty()) return why;
  }
  std::string why = refusal_of_sizes(context, node);
  if (!why.empty()) return why;
  bool needs_storage = false;
  for (const Call& call : recorded->calls) {
    why = refusal_of(call);
    if (!why.empty()) return why;
    needs_storage = needs_storage || reads_storage(registered_name(call.name));
  }
  why = refusal_of_tensors(context, node, needs_storage);
  if (!why.empty()) return why;
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    const Value* output = node->output(i);
    const ObservedValue* observed = context.recording.observed(output);
    if (!observed || observed->varies) return "its sizes change from one execution to the next";
    for (const Ref& ref : recorded->outputs.at(i)) {
      if (ref.call < 0 && !recorded->calls.empty()) return "it returns its argument";
    }
    if (context.written.contains(output) && is_view(node)) {
      return "what it gives shares memory with a tensor that is written to";
    }
  }
  return "";
}

}  // namespace tv::script
