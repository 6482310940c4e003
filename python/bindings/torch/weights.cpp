#include "python/bindings/torch/weights.h"

#include <algorithm>

#include "python/bindings/torch/border.h"
#include "python/bindings/torch/cuda.h"

namespace tv::torch_bindings {
namespace {

// Models that share one engine (equal layers compiled one by one) each have a set of their own.
constexpr size_t kMaxSets = 32;

void check_shape(const Binding& binding, const at::Tensor& weight) {
  const auto is_of = [&](size_t d) { return binding.shape[d].constant() == weight.size(d); };
  bool same = binding.shape.size() == static_cast<size_t>(weight.dim());
  for (size_t d = 0; same && d < binding.shape.size(); ++d) same = is_of(d);
  if (same) return;
  std::string want;
  for (const Expr& dim : binding.shape) want += (want.empty() ? "" : ", ") + dim.str();
  throw Error(ErrorKind::kUser, "[torch_vulkan::execute] shape of weight '" + binding.name +
                                    "'; got " + c10::str(weight.sizes()) + ", want [" + want + "]");
}

}  // namespace

std::shared_ptr<const WeightSet> WeightCache::set_of(const EntryPtr& entry) {
  return {entry, entry->set.get()};
}

// For the tensor that the key was made of: whether it still has the same elements in the same
// order.
// (`weight.data = …` may change where they lie, and the counter then stays.)
bool WeightCache::same_elements(const Key& key, const StatedWeights& weights, size_t i) {
  return key.storage._unsafe_get_target() == weights[i].storage().unsafeGetStorageImpl() &&
         key.data == weights[i].const_data_ptr() &&
         weights[i].strides() == at::IntArrayRef(key.strides) &&
         weights[i].sizes() == at::IntArrayRef(key.sizes) && key.state == weights.state(i);
}

bool WeightCache::same(const Key& key, const StatedWeights& weights, size_t i) {
  return key.impl._unsafe_get_target() == weights[i].unsafeGetTensorImpl() &&
         key.dtype == weights[i].scalar_type() && same_elements(key, weights, i);
}

bool WeightCache::matches(const Entry& entry, const StatedWeights& weights) {
  if (entry.keys.size() != weights.size()) return false;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!same(entry.keys[i], weights, i)) return false;
  }
  return true;
}

// A set is of no more use where one of its tensors is gone or has changed since.
bool WeightCache::is_stale(const Entry& entry, const StatedWeights& weights) {
  for (size_t i = 0; i < entry.keys.size(); ++i) {
    const Key& key = entry.keys[i];
    if (key.impl.expired()) return true;
    if (i < weights.size() && key.impl._unsafe_get_target() == weights[i].unsafeGetTensorImpl() &&
        !same_elements(key, weights, i)) {
      return true;
    }
  }
  return false;
}

WeightCache::Base WeightCache::nearest(const StatedWeights& weights,
                                       const std::vector<int64_t>& changed) const {
  Base best;
  for (const EntryPtr& entry : entries_) {
    if (entry->keys.empty() || entry->keys.size() != weights.size()) continue;
    Base base{entry, {}};
    for (size_t i = 0; i < weights.size(); ++i) {
      const bool told = std::find(changed.begin(), changed.end(), i) != changed.end();
      if (told || !same(entry->keys[i], weights, i))
        base.changed.push_back(static_cast<uint32_t>(i));
    }
    const size_t least = best.entry ? best.changed.size() : weights.size();
    if (base.changed.size() < least) best = std::move(base);
  }
  return best;
}

WeightCache::Entry WeightCache::prepare(const Engine& engine,
                                        const std::vector<at::Tensor>& weights, const Base& base,
                                        std::optional<at::Device> cuda) const {
  const auto& bindings = engine.spec().weights;
  if (weights.size() != bindings.size()) {
    throw Error(ErrorKind::kUser, "[torch_vulkan::execute] number of weights; got " +
                                      std::to_string(weights.size()) + ", want " +
                                      std::to_string(bindings.size()));
  }
  WeightSource source;
  if (cuda) source = {.on_cuda = true, .stream = current_cuda_stream(cuda->index())};
  std::vector<bool> read(weights.size(), true);
  if (base.entry) read = engine.weights_read(*base.entry->set, base.changed);
  Entry entry;
  std::vector<at::Tensor> hosts;
  std::vector<HostTensor> addresses;
  for (size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor& weight = weights[i];
    check_dtype("weight", bindings[i], weight, truncate_);
    check_shape(bindings[i], weight);
    const int64_t bytes =
        product(bindings[i].shape).constant().value_or(-1) * size_bytes(bindings[i].dtype);
    if (!read[i]) {
      addresses.push_back({nullptr, bytes});
      continue;
    }
    const at::ScalarType dtype = to_torch(bindings[i].dtype);
    hosts.push_back(cuda ? to_cuda(weight, dtype, *cuda) : to_host(weight, dtype));
    // A set may read the tensors' own memory: what must not change is copied.
    if (immutable_) hosts.back() = hosts.back().clone();
    entry.kept.push_back(hosts.back().storage());
    addresses.push_back(host_tensor(hosts.back()));
  }
  entry.set = base.entry ? engine.update_weights(*base.entry->set, addresses, base.changed, source)
                         : engine.prepare_weights(addresses, source);
  if (!profile(*engine.device()).host_pointers) entry.kept.clear();
  ++prepared_;
  return entry;
}

std::vector<WeightCache::Key> WeightCache::keys_of(const StatedWeights& weights) {
  std::vector<Key> keys;
  keys.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor& weight = weights[i];
    keys.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(weight.getIntrusivePtr()),
                    weight.storage().getWeakStorageImpl(), weight.const_data_ptr(),
                    at::DimVector(weight.sizes()), at::DimVector(weight.strides()),
                    weight.scalar_type(), weights.state(i)});
  }
  return keys;
}

WeightCache::EntryPtr WeightCache::add(Entry entry, std::vector<Key> keys) {
  entry.keys = std::move(keys);
  entries_.push_front(std::make_shared<const Entry>(std::move(entry)));
  if (entries_.size() > kMaxSets) entries_.pop_back();
  return entries_.front();
}

std::shared_ptr<const WeightSet> WeightCache::get(const Engine& engine,
                                                  const std::vector<at::Tensor>& tensors,
                                                  std::optional<at::Device> cuda) {
  std::lock_guard lock(mutex_);
  if (immutable_) {  // never compared
    if (entries_.empty()) add(prepare(engine, tensors, {}, cuda), {});
    return set_of(entries_.front());
  }
  const StatedWeights weights(tensors);
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (!matches(**it, weights)) continue;
    if (it != entries_.begin()) entries_.splice(entries_.begin(), entries_, it);
    return set_of(entries_.front());
  }
  std::vector<Key> keys = keys_of(weights);
  Entry entry = prepare(engine, tensors, nearest(weights, {}), cuda);
  entries_.remove_if([&](const EntryPtr& old) { return is_stale(*old, weights); });
  return set_of(add(std::move(entry), std::move(keys)));
}

WeightCache::EntryPtr WeightCache::stage(const Engine& engine,
                                         const std::vector<at::Tensor>& weights,
                                         const WeightChange& change,
                                         std::optional<at::Device> cuda) const {
  std::vector<at::Tensor> after = weights;
  for (size_t i = 0; i < change.changed.size(); ++i)
    after.at(change.changed[i]) = change.values.at(i);
  const std::lock_guard lock(mutex_);
  return std::make_shared<const Entry>(
      prepare(engine, after, nearest(StatedWeights(weights), change.changed), cuda));
}

void WeightCache::commit(const Engine& engine, const EntryPtr& staged,
                         const std::vector<at::Tensor>& tensors, std::optional<at::Device> cuda) {
  if (!staged) return;
  const std::lock_guard lock(mutex_);
  const StatedWeights weights(tensors);
  std::vector<Key> keys = immutable_ ? std::vector<Key>() : keys_of(weights);
  // Made of the staged set and other addresses: what kernels read in place is now the weights' own.
  Entry entry = prepare(engine, tensors, {staged, {}}, cuda);
  entries_.remove_if(
      [&](const EntryPtr& old) { return matches(*old, weights) || is_stale(*old, weights); });
  add(std::move(entry), std::move(keys));
}

void WeightCache::clear() {
  std::lock_guard lock(mutex_);
  entries_.clear();
}

std::vector<WeightMemory> WeightCache::memory(const Engine& engine) const {
  const std::lock_guard lock(mutex_);
  std::vector<WeightMemory> memory;
  for (const EntryPtr& entry : entries_) memory.push_back(engine.weight_memory(*entry->set));
  return memory;
}

int64_t WeightCache::prepared() const {
  std::lock_guard lock(mutex_);
  return prepared_;
}

int64_t WeightCache::size() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace tv::torch_bindings
