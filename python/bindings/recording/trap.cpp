#include "python/bindings/recording/trap.h"

#include <ATen/Functions.h>
#include <torch/library.h>

namespace tv::script {
namespace {

// A key that no tensor has: it is reached only where a Trap includes it. PyTorch keeps it for modes
// in C++ and has no kernel for it.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr auto kComposite = c10::DispatchKey::CompositeImplicitAutograd;

thread_local Listener* listening = nullptr;

/// A value with its tensors on another device: zeros, or sizes alone where that is the meta device.
c10::IValue on(const c10::IValue& value, c10::Device device) {
  const auto moved = [device](const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device() == device) return tensor;
    const at::Tensor made =
        at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
    return device.is_meta() ? made : made.zero_();
  };
  if (value.isTensor()) return moved(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(moved(tensor));
    return list;
  }
  return value;
}

/// Runs an operator that has no kernel for the meta device here on zeros, where its sizes do not
/// depend on the numbers. PyTorch has such kernels in Python, not all of them in each version.
bool ran_on_zeros(const c10::OperatorHandle& op, const std::vector<c10::IValue>& inputs,
                  torch::jit::Stack& stack) {
  for (const at::Tag tag : {at::Tag::dynamic_output_shape, at::Tag::data_dependent_output,
                            at::Tag::nondeterministic_seeded}) {
    if (op.hasTag(tag)) return false;
  }
  if (op.schema().is_mutable()) return false;
  torch::jit::Stack made;
  for (const c10::IValue& input : inputs) made.push_back(on(input, c10::kCPU));
  op.callBoxed(&made);
  for (const c10::IValue& output : made) stack.push_back(on(output, c10::kMeta));
  return true;
}

void trapped(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Listener* const listener = listening;
  if (listener) listener->prepare(op, *stack);
  if (listener && op.hasKernelForDispatchKey(kComposite) && !listener->keeps_whole(op)) {
    // The operators that it calls come here in turn.
    op.callBoxedForDispatchKey(kComposite, *stack);
    return;
  }
  const size_t count = op.schema().arguments().size();
  const std::vector<c10::IValue> inputs(stack->end() - static_cast<ptrdiff_t>(count), stack->end());
  const Untold untold;
  const size_t below = stack->size() - count;
  try {
    op.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    stack->resize(below);
    if (!listener || !listener->without_data() || !ran_on_zeros(op, inputs, *stack)) throw;
  }
  if (!listener) return;
  const size_t results = op.schema().returns().size();
  listener->ran(op, inputs, {stack->end() - static_cast<ptrdiff_t>(results), stack->end()});
}

}  // namespace

Trap::Trap(Listener& listener) : before_(listening), guard_(kKey) { listening = &listener; }

Trap::~Trap() { listening = before_; }

}  // namespace tv::script

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&tv::script::trapped>());
}
