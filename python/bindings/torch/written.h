#pragma once
// Inputs that an engine leaves a result in.

#include <ATen/core/Tensor.h>

#include <vector>

#include "runtime/spec/engine_spec.h"

namespace tv::torch_bindings {

/// The tensors that a call hands over for its inputs. `held` holds them as they fit the engine
/// (to_host, to_cuda): those that are the caller's own memory are written in place. What shares
/// memory with another argument is replaced by a copy, because the others are read as they were
/// before the call.
class WrittenInputs {
 public:
  WrittenInputs(const std::vector<Binding>& bindings, const std::vector<at::Tensor>& inputs,
                const std::vector<at::Tensor>& weights, std::vector<at::Tensor>& held);

  /// Copies what was not written in place to the caller's tensors. Version counters stay: the
  /// compiler of the graph counts the write, once.
  void write_back(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& held) const;

 private:
  std::vector<size_t> copied_;
};

/// Replaces the inputs that are written by copies.
void protect_written(const std::vector<Binding>& bindings, std::vector<at::Tensor>& held);

}  // namespace tv::torch_bindings
