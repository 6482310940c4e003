#pragma once
// Prepared weights of one engine, found again by what torch knows of the tensors they came from.

#include <ATen/core/DimVector.h>
#include <ATen/core/Tensor.h>

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "python/bindings/torch/weight_state.h"
#include "runtime/engine/engine.h"

namespace tv::torch_bindings {

/// New content of some weights: values[i] is to become weight number changed[i].
struct WeightChange {
  std::vector<int64_t> changed;
  std::vector<at::Tensor> values;
};

/// Keeps a few WeightSets, most recently used first. A set is used again where every weight is the
/// same tensor with the same storage, address, sizes, strides, dtype and state as when it was made.
/// The state is its version counter; what changes none of these (writes through `.data` or numpy)
/// cannot be seen. An inference tensor has no counter: the digest of its bytes stands for it.
/// Thread-safe.
class WeightCache {
 public:
  WeightCache(bool immutable, bool truncate) : immutable_(immutable), truncate_(truncate) {}

  /// The set for `weights`, prepared now where there is none: from the set that differs in the
  /// fewest weights, where only they and what depends on them are read.
  std::shared_ptr<const WeightSet> get(const Engine& engine, const std::vector<at::Tensor>& weights,
                                       std::optional<at::Device> cuda = {});
  struct Entry;
  using EntryPtr = std::shared_ptr<const Entry>;
  /// Makes the set for `weights` after a change that has not happened yet; null if it could not
  /// be used. Nothing that calls see is touched.
  EntryPtr stage(const Engine& engine, const std::vector<at::Tensor>& weights,
                 const WeightChange& change, std::optional<at::Device> cuda = {}) const;
  /// Takes a staged set into use: `weights` now hold what it was made of.
  void commit(const Engine& engine, const EntryPtr& staged, const std::vector<at::Tensor>& weights,
              std::optional<at::Device> cuda = {});
  void clear();
  int64_t size() const;
  std::vector<WeightMemory> memory(const Engine& engine) const;  ///< of each set
  int64_t prepared() const;                                      ///< how many sets were made so far

 private:
  struct Key {
    // Weak: their addresses are not given to others.
    c10::weak_intrusive_ptr<c10::TensorImpl> impl;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  ///< freed memory may be allocated again
    const void* data;
    at::DimVector sizes, strides;
    at::ScalarType dtype;
    WeightState state;
  };
  /// The entry's set, which keeps the entry, and so the memory that the set reads, alive: another
  /// thread may drop the entry from the list during a call.
  static std::shared_ptr<const WeightSet> set_of(const EntryPtr& entry);
  /// A set to make another from, and the weights in which they differ.
  struct Base {
    EntryPtr entry;
    std::vector<uint32_t> changed;
  };
  static bool same(const Key& key, const StatedWeights& weights, size_t i);
  static bool same_elements(const Key& key, const StatedWeights& weights, size_t i);
  static bool matches(const Entry& entry, const StatedWeights& weights);
  static bool is_stale(const Entry& entry, const StatedWeights& weights);
  Base nearest(const StatedWeights& weights, const std::vector<int64_t>& changed) const;
  Entry prepare(const Engine& engine, const std::vector<at::Tensor>& weights, const Base& base,
                std::optional<at::Device> cuda) const;
  /// Of the weights as they are before a set is made of them: what another thread writes meanwhile
  /// is a change.
  static std::vector<Key> keys_of(const StatedWeights& weights);
  EntryPtr add(Entry entry, std::vector<Key> keys);

  const bool immutable_, truncate_;
  mutable std::mutex mutex_;
  mutable int64_t prepared_ = 0;
  std::list<EntryPtr> entries_;
};

struct WeightCache::Entry {
  std::vector<Key> keys;
  std::vector<c10::Storage> kept;  ///< memory that the set may read on a host-pointer device
  std::shared_ptr<const WeightSet> set;
};

}  // namespace tv::torch_bindings
