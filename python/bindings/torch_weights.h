#pragma once
// Prepared weights of one engine, found again by what torch knows of the tensors they came from.

#include <ATen/core/Tensor.h>

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/engine.h"

namespace tv::torch_bindings {

/// Keeps a few WeightSets, most recently used first. A set is used again where every weight is the
/// same tensor with the same storage address, dtype and version counter as when it was made. What
/// changes none of these (writes through `.data` or numpy) cannot be seen. Thread-safe.
class WeightCache {
 public:
  WeightCache(bool immutable, bool truncate) : immutable_(immutable), truncate_(truncate) {}

  /// The set for `weights`, prepared now where there is none. Inference tensors carry no version:
  /// they are prepared again for every call unless the cache is immutable.
  std::shared_ptr<const WeightSet> get(const Engine& engine,
                                       const std::vector<at::Tensor>& weights);
  void clear();
  int64_t size() const;

 private:
  struct Key {
    c10::weak_intrusive_ptr<c10::TensorImpl> impl;  ///< weak: its address is not given to another
    const void* data;
    at::ScalarType dtype;
    uint32_t version;
  };
  struct Entry {
    std::vector<Key> keys;
    std::vector<c10::Storage> kept;  ///< memory that the set may read on a host-pointer device
    std::shared_ptr<const WeightSet> set;
  };
  using EntryPtr = std::shared_ptr<const Entry>;
  /// The entry's set, which keeps the entry, and so the memory that the set reads, alive: another
  /// thread may drop the entry from the list during a call.
  static std::shared_ptr<const WeightSet> set_of(const EntryPtr& entry) {
    return {entry, entry->set.get()};
  }
  static bool matches(const Entry& entry, const std::vector<at::Tensor>& weights);
  static bool is_stale(const Entry& entry, const std::vector<at::Tensor>& weights);
  Entry prepare(const Engine& engine, const std::vector<at::Tensor>& weights) const;

  const bool immutable_, truncate_;
  mutable std::mutex mutex_;
  std::list<EntryPtr> entries_;
};

}  // namespace tv::torch_bindings
