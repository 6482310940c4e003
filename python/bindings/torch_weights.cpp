#include "python/bindings/torch_weights.h"

#include <algorithm>

#include "python/bindings/torch_border.h"

namespace tv::torch_bindings {
namespace {

// Models that share one engine (equal layers compiled one by one) each have a set of their own.
constexpr size_t kMaxSets = 32;

// At most 2³² - 1 changes are told apart, as autograd itself does.
uint32_t version_of(const at::Tensor& tensor) { return static_cast<uint32_t>(tensor._version()); }

}  // namespace

bool WeightCache::matches(const Entry& entry, const std::vector<at::Tensor>& weights) {
  if (entry.keys.size() != weights.size()) return false;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Key& key = entry.keys[i];
    const at::Tensor& weight = weights[i];
    if (key.impl._unsafe_get_target() != weight.unsafeGetTensorImpl() ||
        key.data != weight.const_data_ptr() || key.dtype != weight.scalar_type() ||
        key.version != version_of(weight)) {
      return false;
    }
  }
  return true;
}

// A set is of no more use where one of its tensors is gone or has changed since.
bool WeightCache::is_stale(const Entry& entry, const std::vector<at::Tensor>& weights) {
  for (size_t i = 0; i < entry.keys.size(); ++i) {
    const Key& key = entry.keys[i];
    if (key.impl.expired()) return true;
    if (i < weights.size() &&
        key.impl._unsafe_get_target() == weights[i].unsafeGetTensorImpl() &&
        (key.version != version_of(weights[i]) || key.data != weights[i].const_data_ptr())) {
      return true;
    }
  }
  return false;
}

WeightCache::Entry WeightCache::prepare(const Engine& engine,
                                        const std::vector<at::Tensor>& weights) const {
  const auto& bindings = engine.spec().weights;
  if (weights.size() != bindings.size()) {
    throw Error(ErrorKind::kUser, "[torch_vulkan::execute] number of weights; got " +
                                      std::to_string(weights.size()) + ", want " +
                                      std::to_string(bindings.size()));
  }
  Entry entry;
  std::vector<at::Tensor> hosts;
  std::vector<HostTensor> addresses;
  for (size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor& weight = weights[i];
    check_dtype("weight", bindings[i], weight, truncate_);
    hosts.push_back(to_host(weight, to_torch(bindings[i].dtype)));
    // A set may read the tensors' own memory: what must not change is copied.
    if (immutable_) hosts.back() = hosts.back().clone();
    if (host_tensor(hosts.back()).size_bytes !=
        product(bindings[i].shape).constant().value_or(-1) * size_bytes(bindings[i].dtype)) {
      throw Error(ErrorKind::kUser, "[torch_vulkan::execute] shape of weight '" +
                                        bindings[i].name + "' differs from the compiled one");
    }
    entry.kept.push_back(hosts.back().storage());
    addresses.push_back(host_tensor(hosts.back()));
  }
  entry.set = engine.prepare_weights(addresses);
  if (!profile(*engine.device()).host_pointers) entry.kept.clear();
  return entry;
}

std::shared_ptr<const WeightSet> WeightCache::get(const Engine& engine,
                                                  const std::vector<at::Tensor>& weights) {
  const bool versioned = std::none_of(weights.begin(), weights.end(),
                                      [](const at::Tensor& w) { return w.is_inference(); });
  std::lock_guard lock(mutex_);
  if (immutable_ && !entries_.empty()) return set_of(entries_.front());
  if (versioned) {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (!matches(**it, weights)) continue;
      if (it != entries_.begin()) entries_.splice(entries_.begin(), entries_, it);
      return set_of(entries_.front());
    }
    entries_.remove_if([&](const EntryPtr& entry) { return is_stale(*entry, weights); });
  }
  const auto entry = std::make_shared<Entry>(prepare(engine, weights));
  if (!versioned && !immutable_) return set_of(entry);
  if (versioned) {
    for (const at::Tensor& weight : weights) {
      entry->keys.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(weight.getIntrusivePtr()),
                             weight.const_data_ptr(), weight.scalar_type(), version_of(weight)});
    }
  }
  entries_.push_front(entry);
  if (entries_.size() > kMaxSets) entries_.pop_back();
  return set_of(entry);
}

void WeightCache::clear() {
  std::lock_guard lock(mutex_);
  entries_.clear();
}

int64_t WeightCache::size() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace tv::torch_bindings
