#pragma once
// Sees the operators that PyTorch's dispatcher is asked for, above autograd.

#include <ATen/core/dispatch/Dispatcher.h>

namespace tv::script {

/// Told of operators that run on this thread while a Trap lasts.
class Listener {
 public:
  virtual ~Listener() = default;
  /// True if a composite operator is to be told whole rather than as the operators it calls.
  virtual bool keeps_whole(const c10::OperatorHandle& op) = 0;
  /// Whether tensors have sizes and no data, on the meta device.
  virtual bool without_data() const = 0;
  /// May change an operator's arguments, the last of `stack`, before it runs.
  virtual void prepare(const c10::OperatorHandle& op, std::vector<c10::IValue>& stack) = 0;
  /// An operator was run on `inputs` and gave `outputs`. What it asks of torch itself is not told.
  virtual void ran(const c10::OperatorHandle& op, const std::vector<c10::IValue>& inputs,
                   const std::vector<c10::IValue>& outputs) = 0;
};

/// While it lasts, every operator that this thread asks for is run as always and told to
/// `listener`.
class Trap {
 public:
  explicit Trap(Listener& listener);
  ~Trap();
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

 private:
  Listener* before_;
  c10::impl::IncludeDispatchKeyGuard guard_;
};

/// While it lasts, nothing is told.
class Untold {
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::DispatchKey::TESTING_ONLY_GenericMode};
};

}  // namespace tv::script
