#include "python/bindings/torch/written.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <iterator>

namespace tv::torch_bindings {
namespace {

struct Bytes {
  uintptr_t begin = 0, end = 0;
};

Bytes bytes_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  return {begin, begin + static_cast<uintptr_t>((last + 1) * tensor.element_size())};
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (a.device() != b.device()) return false;
  const Bytes x = bytes_of(a), y = bytes_of(b);
  return x.begin < y.end && y.begin < x.end;
}

/// True only where no tensor that is written shares a byte with another tensor. (Addresses of
/// several devices count as one space, so it may be false without need.)
bool nothing_shared(const std::vector<Binding>& bindings, const std::vector<at::Tensor>& inputs,
                    const std::vector<at::Tensor>& weights) {
  std::vector<Bytes> written, others;
  for (size_t i = 0; i < inputs.size(); ++i) {
    (bindings[i].written ? written : others).push_back(bytes_of(inputs[i]));
  }
  if (written.empty()) return true;
  for (const at::Tensor& weight : weights) others.push_back(bytes_of(weight));
  std::ranges::sort(written, {}, &Bytes::begin);
  for (size_t i = 1; i < written.size(); ++i) {
    if (written[i].begin < written[i - 1].end) return false;
  }
  // Apart and in order: one that begins last before the other's end is the only one to look at.
  return std::ranges::none_of(others, [&](const Bytes& other) {
    const auto next = std::ranges::lower_bound(written, other.end, {}, &Bytes::begin);
    return next != written.begin() && std::prev(next)->end > other.begin;
  });
}

bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.device() == b.device() && a.const_data_ptr() == b.const_data_ptr();
}

}  // namespace

WrittenInputs::WrittenInputs(const std::vector<Binding>& bindings,
                             const std::vector<at::Tensor>& inputs,
                             const std::vector<at::Tensor>& weights,
                             std::vector<at::Tensor>& held) {
  const bool alone = nothing_shared(bindings, inputs, weights);
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (!bindings[i].written) continue;
    const auto shared = [&](const std::vector<at::Tensor>& others, size_t own) {
      for (size_t k = 0; k < others.size(); ++k) {
        if (k != own && overlap(inputs[i], others[k])) return true;
      }
      return false;
    };
    if (is_same_memory(held[i], inputs[i])) {
      if (alone || (!shared(inputs, i) && !shared(weights, weights.size()))) continue;
      held[i] = held[i].clone();
    }
    copied_.push_back(i);
  }
}

void WrittenInputs::write_back(const std::vector<at::Tensor>& inputs,
                               const std::vector<at::Tensor>& held) const {
  const at::AutoDispatchBelowADInplaceOrView uncounted;
  for (const size_t i : copied_) inputs[i].copy_(held[i]);
}

void protect_written(const std::vector<Binding>& bindings, std::vector<at::Tensor>& held) {
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (bindings[i].written) held[i] = held[i].clone();
  }
}

}  // namespace tv::torch_bindings
