// One thing in several executions.

#include "python/bindings/script_import.h"
#include "python/bindings/torch_trace.h"
#include "runtime/base/error.h"

namespace tv::script {
namespace {

using List = std::vector<int64_t>;

// By execution to by position.
template <typename Get>
std::vector<Numbers> transposed(const Runs& runs, const Get& get) {
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

const TensorFact* tensor_of(const Recording& run, const torch::jit::Value* value, size_t i) {
  const Fact* fact = run.fact(value);
  return fact && i < fact->tensors.size() ? &fact->tensors[i] : nullptr;
}

template <typename Get>
std::vector<c10::IValue> by_run(const Runs& runs, const Get& get) {
  std::vector<c10::IValue> made;
  for (const Recording* run : runs.all) {
    const c10::IValue* found = get(*run);
    made.push_back(found ? *found : made.empty() ? c10::IValue() : made.front());
  }
  return made;
}

}  // namespace

std::vector<Numbers> Runs::sizes(const torch::jit::Value* value, size_t i) const {
  return transposed(*this, [=](const Recording& run) {
    const TensorFact* fact = tensor_of(run, value, i);
    return fact ? std::optional(fact->sizes) : std::nullopt;
  });
}

std::vector<Numbers> Runs::strides(const torch::jit::Value* value, size_t i) const {
  return transposed(*this, [=](const Recording& run) {
    const TensorFact* fact = tensor_of(run, value, i);
    return fact ? std::optional(promised_strides(*fact)) : std::nullopt;
  });
}

std::vector<Numbers> Runs::sizes(const torch::jit::Node* node, size_t call, size_t output) const {
  return transposed(*this, [=](const Recording& run) -> std::optional<List> {
    const Recipe* recipe = run.recipe(node);
    if (!recipe || call >= recipe->calls.size()) return std::nullopt;
    const auto& outputs = recipe->calls[call].outputs;
    if (output >= outputs.size() || !outputs[output]) return std::nullopt;
    return outputs[output]->sizes;
  });
}

std::vector<c10::IValue> Runs::argument(const torch::jit::Node* node, size_t call,
                                        size_t index) const {
  return by_run(*this, [=](const Recording& run) -> const c10::IValue* {
    const Recipe* recipe = run.recipe(node);
    if (!recipe || call >= recipe->calls.size()) return nullptr;
    const auto& arguments = recipe->calls[call].arguments;
    return index < arguments.size() ? &arguments[index].value : nullptr;
  });
}

std::vector<c10::IValue> Runs::number(const torch::jit::Value* value) const {
  return by_run(*this, [=](const Recording& run) {
    const Fact* fact = run.fact(value);
    return fact ? &fact->number : nullptr;
  });
}

std::vector<c10::IValue> Runs::plain(const torch::jit::Value* value) const {
  return by_run(*this, [=](const Recording& run) {
    const Fact* fact = run.fact(value);
    return fact ? &fact->value : nullptr;
  });
}

Expr expr_of(Sizes& sizes, const Numbers& values) {
  const auto expr = sizes.of(values);
  if (!expr) throw Error(ErrorKind::kUnsupported, "a size follows no rule that was found");
  return *expr;
}

}  // namespace tv::script
