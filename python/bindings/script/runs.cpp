// One thing in several executions.

#include "python/bindings/recording/trace.h"
#include "python/bindings/script/import.h"
#include "runtime/base/error.h"

namespace tv::script {
namespace {

using List = std::vector<int64_t>;

// By execution to by position.
template <typename Get>
std::vector<Numbers> transposed(const SampleRuns& runs, const Get& get) {
  const std::optional<List> first = get(*runs.all[0]);
  if (!first) return {};
  std::vector<Numbers> made(first->size());
  for (size_t k = 0; k < runs.all.size(); ++k) {
    std::optional<List> list = k == 0 ? first : get(*runs.all[k]);
    if (!list || list->size() != first->size()) {
      if (k < runs.fitted) throw Error(ErrorKind::kUnsupported, "its rank changes with the sizes");
      list = first;
    }
    for (size_t d = 0; d < first->size(); ++d) made[d].push_back((*list)[d]);
  }
  return made;
}

const ObservedTensor* tensor_of(const Recording& run, const torch::jit::Value* value, size_t i) {
  const ObservedValue* observed = run.observed(value);
  return observed && i < observed->tensors.size() ? &observed->tensors[i] : nullptr;
}

template <typename Get>
std::vector<c10::IValue> by_run(const SampleRuns& runs, const Get& get) {
  std::vector<c10::IValue> made;
  for (const Recording* run : runs.all) {
    const c10::IValue* found = get(*run);
    made.push_back(found ? *found : made.empty() ? c10::IValue() : made.front());
  }
  return made;
}

}  // namespace

std::vector<Numbers> SampleRuns::sizes(const torch::jit::Value* value, size_t i) const {
  return transposed(*this, [=](const Recording& run) {
    const ObservedTensor* observed = tensor_of(run, value, i);
    return observed ? std::optional(observed->sizes) : std::nullopt;
  });
}

std::vector<Numbers> SampleRuns::strides(const torch::jit::Value* value, size_t i) const {
  return transposed(*this, [=](const Recording& run) {
    const ObservedTensor* observed = tensor_of(run, value, i);
    return observed ? std::optional(promised_strides(*observed)) : std::nullopt;
  });
}

std::vector<Numbers> SampleRuns::sizes(const torch::jit::Node* node, size_t call,
                                       size_t output) const {
  return transposed(*this, [=](const Recording& run) -> std::optional<List> {
    const RecordedCalls* recorded = run.recorded(node);
    if (!recorded || call >= recorded->calls.size()) return std::nullopt;
    const auto& outputs = recorded->calls[call].outputs;
    if (output >= outputs.size() || !outputs[output]) return std::nullopt;
    return outputs[output]->sizes;
  });
}

std::vector<c10::IValue> SampleRuns::argument(const torch::jit::Node* node, size_t call,
                                              size_t index) const {
  return by_run(*this, [=](const Recording& run) -> const c10::IValue* {
    const RecordedCalls* recorded = run.recorded(node);
    if (!recorded || call >= recorded->calls.size()) return nullptr;
    const auto& arguments = recorded->calls[call].arguments;
    return index < arguments.size() ? &arguments[index].value : nullptr;
  });
}

std::vector<c10::IValue> SampleRuns::number(const torch::jit::Value* value) const {
  return by_run(*this, [=](const Recording& run) {
    const ObservedValue* observed = run.observed(value);
    return observed ? &observed->number : nullptr;
  });
}

std::vector<c10::IValue> SampleRuns::plain(const torch::jit::Value* value) const {
  return by_run(*this, [=](const Recording& run) {
    const ObservedValue* observed = run.observed(value);
    return observed ? &observed->value : nullptr;
  });
}

Expr expr_of(Sizes& sizes, const Numbers& values) {
  const auto expr = sizes.of(values);
  if (!expr) throw Error(ErrorKind::kUnsupported, "a size follows no rule that was found");
  return *expr;
}

}  // namespace tv::script
