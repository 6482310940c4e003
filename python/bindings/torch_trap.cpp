#include "python/bindings/torch_trap.h"

#include <torch/library.h>

namespace tv::script {
namespace {

// A key that no tensor has: it is reached only where a Trap includes it. PyTorch keeps it for modes
// in C++ and has no kernel for it.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr auto kComposite = c10::DispatchKey::CompositeImplicitAutograd;

thread_local Listener* listening = nullptr;

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
  op.callBoxed(stack);
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
