#include "python/bindings/torch/list_writes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace tv::torch_bindings {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::ADInplaceOrView;

bool is_written_list(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite() &&
         argument.type()->kind() == c10::TypeKind::ListType;
}

bool writes_lists(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), is_written_list);
}

void count(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = (*stack)[first + i];
    if (!is_written_list(arguments[i]) || !value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.key_set().has(c10::DispatchKey::Python)) written.push_back(tensor);
    }
  }
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
  for (const at::Tensor& tensor : written) {
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace

void count_list_writes() {
  static std::once_flag once;
  std::call_once(once, [] {
    static torch::Library library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      if (name.name.rfind("aten::_f", 0) != 0) continue;
      const auto op = dispatcher.findSchema(name);
      if (!op || !writes_lists(op->schema()) || op->hasKernelForDispatchKey(kKey)) continue;
      const std::string text = c10::toString(name);
      library.impl(text.c_str(), torch::CppFunction::makeFromBoxedFunction<&count>());
    }
  });
}

}  // namespace tv::torch_bindings
