#pragma once

namespace tv::torch_bindings {

/// Lets operators that write to lists of tensors (`_foreach_mul_`, `_fused_adam_`) count, from now
/// on, their writes to tensors of Python subclasses, as PyTorch does for all other operators. (Of
/// lists it counts what kernels write by operators that count, which is not so for what is inside
/// of such a tensor.)
void count_list_writes();

}  // namespace tv::torch_bindings
