#include "python/bindings/torch/profile.h"

#include <ATen/Functions.h>

#include <mutex>
#include <utility>

namespace tv::torch_bindings {
namespace {

struct Profiles {
  std::mutex mutex;
  std::vector<at::Tensor> files, times;
};

Profiles& profiles() {
  static auto* made = new Profiles();  // tensors must not outlive torch
  return *made;
}

}  // namespace

void add_profile(const at::Tensor& vke, const std::vector<DispatchTime>& times) {
  at::Tensor table =
      at::empty({static_cast<int64_t>(times.size()), 3}, at::TensorOptions(at::kDouble));
  auto* row = table.mutable_data_ptr<double>();
  for (const DispatchTime& time : times) {
    *row++ = time.time_us;
    *row++ = time.mean_us;
    *row++ = static_cast<double>(time.bytes);
  }
  Profiles& all = profiles();
  const std::lock_guard lock(all.mutex);
  all.files.push_back(vke);
  all.times.push_back(std::move(table));
}

std::tuple<std::vector<at::Tensor>, std::vector<at::Tensor>> take_profiles() {
  Profiles& all = profiles();
  const std::lock_guard lock(all.mutex);
  return {std::exchange(all.files, {}), std::exchange(all.times, {})};
}

}  // namespace tv::torch_bindings
