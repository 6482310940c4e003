#include "python/bindings/torch/refit.h"

#include <algorithm>
#include <cstring>

#include "python/bindings/torch/border.h"
#include "python/bindings/torch/engine.h"

namespace tv::torch_bindings {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
         !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

void assign(at::TensorList weights, at::TensorList values) {
  TORCH_CHECK_VALUE(weights.size() == values.size(), "[torch_vulkan::assign] got ", values.size(),
                    " values for ", weights.size(), " weights");
  for (size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor &to = weights[i], &from = values[i];
    if (is_plain(to) && is_plain(from) && to.sizes() == from.sizes() &&
        to.dtype() == from.dtype()) {
      to.unsafeGetTensorImpl()->bump_version();
      std::memmove(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
    } else {
      to.copy_(from);
    }
  }
}

void TorchEngine::refit(const std::vector<at::Tensor>& weights,
                        const std::vector<int64_t>& changed) {
  WeightChange change{changed, {}};
  for (const int64_t position : changed) change.values.push_back(weights.at(position));
  commit(stage(weights, change), weights);
}

int64_t TorchEngine::stage(const std::vector<at::Tensor>& weights, const WeightChange& change) {
  try {
    if (immutable_weights_) {
      throw Error(ErrorKind::kUser,
                  "[torch_vulkan::Engine] was built with immutable_weights=True and cannot be "
                  "refitted; build it without that setting");
    }
    Staged staged{parts(), {}};
    const auto device = shared_cuda_device(*staged.parts, device_of({}, weights));
    for (const auto& part : *staged.parts) {
      // What no call has used yet is prepared when one does.
      const bool used = staged.parts->size() == 1 || part->weights.size() != 0;
      staged.entries.push_back(used ? part->weights.stage(*part->engine, weights, change, device)
                                    : nullptr);
    }
    const std::lock_guard lock(mutex_);
    staged_.emplace(next_staged_, std::move(staged));
    return next_staged_++;
  } catch (const Error& error) {
    rethrow(error);
  }
}

void TorchEngine::commit(int64_t number, const std::vector<at::Tensor>& weights) {
  try {
    Staged staged;
    std::shared_ptr<const Parts> now;
    {
      const std::lock_guard lock(mutex_);
      auto found = staged_.extract(number);
      TORCH_CHECK_VALUE(!found.empty(), "[torch_vulkan::Engine] nothing is staged by this number");
      staged = std::move(found.mapped());
      now = parts_;
    }
    // Others took their place since, and may have read weights before a change that torch does not
    // see; none did where the device was lost and could not be opened again.
    if (now != staged.parts) {
      if (!now) return;
      for (const auto& part : *now) part->weights.clear();
      return;
    }
    const auto device = shared_cuda_device(*staged.parts, device_of({}, weights));
    for (size_t i = 0; i < staged.entries.size(); ++i) {
      const Part& part = *(*staged.parts)[i];
      (*staged.parts)[i]->weights.commit(*part.engine, staged.entries[i], weights, device);
    }
  } catch (const Error& error) {
    rethrow(error);
  }
}

void TorchEngine::discard(int64_t number) {
  const std::lock_guard lock(mutex_);
  staged_.erase(number);
}

void TorchEngine::set_weight_budget(int64_t budget) {
  TORCH_CHECK_VALUE(budget >= kNoWeightStreaming,
                    "[torch_vulkan::Engine] weight_budget: want bytes, -1 or -2, got ", budget);
  // They go behind the lock: that may have to wait for the device.
  std::shared_ptr<const Parts> parts;
  std::shared_ptr<const ShapePlan> plan;
  const std::lock_guard lock(mutex_);
  if (weight_budget_ == budget) return;
  weight_budget_ = budget;
  parts_.swap(parts);
  plan_.swap(plan);
}

int64_t TorchEngine::weight_budget() const {
  const std::lock_guard lock(mutex_);
  return weight_budget_;
}

std::vector<int64_t> TorchEngine::weight_memory() {
  std::vector<int64_t> memory(3, 0);
  std::shared_ptr<const Parts> opened;
  {
    const std::lock_guard lock(mutex_);
    opened = parts_;
  }
  if (!opened) return memory;
  for (const auto& part : *opened) {
    for (const WeightMemory& set : part->weights.memory(*part->engine)) {
      memory[0] += set.device;
      memory[1] += set.host;
      memory[2] = std::max(memory[2], set.slots);
    }
  }
  return memory;
}

}  // namespace tv::torch_bindings
