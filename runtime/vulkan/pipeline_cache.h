#pragma once
// The compute pipelines of a device, shared by all engines that use the same ones.

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/vulkan/handle.h"

namespace tv {

/// SHA-256 of all that a pipeline follows from on its device.
using PipelineKey = std::array<uint8_t, 32>;

enum class WhenUnused {
  kKeep,    ///< the pipeline stays, for an engine that is closed and opened again
  kDestroy  ///< it goes, unless another user asked to keep it
};

class SharedPipeline;

/// Thread-safe. Users go before the cache does, and the cache before the device.
class PipelineCache {
 public:
  /// So many pipelines without a user stay, those that were used last; ResNet-50 has 23.
  static constexpr size_t kMostUnused = 512;

  /// The pipeline of `key`; `make` makes it where there is none. Threads that ask for one that is
  /// being made wait for it. What `make` throws goes to its own caller, and one of those that wait
  /// tries anew. Nothing is locked while `make` runs.
  SharedPipeline get(const PipelineKey& key, const std::function<OwnedPipeline()>& make,
                     WhenUnused when_unused = WhenUnused::kKeep);
  /// Destroys the pipelines that have no user.
  void clear();

  struct Counts {
    size_t used = 0, unused = 0;  ///< pipelines
  };
  Counts counts() const;

 private:
  friend class SharedPipeline;
  struct Entry {
    const PipelineKey* key = nullptr;  ///< in `entries_`
    OwnedPipeline pipeline = {};
    bool made = false;
    std::atomic<bool> warm{false};
    bool keep = false;
    size_t users = 0;
    /// This entry, in `unused_` while it has no user and in `place` while it has: moving it there
    /// and back needs no memory.
    std::list<Entry*>::iterator node = {};
    std::list<Entry*> place = {};
  };
  using Entries = std::map<PipelineKey, Entry>;

  SharedPipeline take(Entry& entry, WhenUnused when_unused);
  void give_back(Entry& entry) noexcept;

  mutable std::mutex mutex_;       ///< of what follows, but for Entry::pipeline and warm of a user
  std::condition_variable ended_;  ///< a call of `make`
  Entries entries_;
  std::list<Entry*> unused_;  ///< the last used first
};

/// A pipeline and one use of it. Abandoned where Vulkan may no longer be called, as VkOwned is.
class SharedPipeline {
 public:
  SharedPipeline() = default;
  SharedPipeline(SharedPipeline&& other) noexcept
      : cache_(other.cache_), entry_(std::exchange(other.entry_, nullptr)) {}
  SharedPipeline& operator=(SharedPipeline&& other) noexcept {
    if (this != &other) {
      reset();
      cache_ = other.cache_;
      entry_ = std::exchange(other.entry_, nullptr);
    }
    return *this;
  }
  ~SharedPipeline() { reset(); }

  void reset() noexcept {
    PipelineCache::Entry* const entry = std::exchange(entry_, nullptr);
    if (entry && vulkan_usable()) cache_->give_back(*entry);
  }
  VkPipeline get() const { return entry_->pipeline.get(); }
  explicit operator bool() const { return entry_ != nullptr; }

  /// Whether it was dispatched: drivers that compile then have nothing left to do.
  bool warm() const { return entry_->warm; }
  void set_warm() const { entry_->warm = true; }

 private:
  friend class PipelineCache;
  SharedPipeline(PipelineCache& cache, PipelineCache::Entry& entry)
      : cache_(&cache), entry_(&entry) {}

  PipelineCache* cache_ = nullptr;
  PipelineCache::Entry* entry_ = nullptr;
};

}  // namespace tv
