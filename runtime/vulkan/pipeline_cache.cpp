#include "runtime/vulkan/pipeline_cache.h"

#include <tuple>

namespace tv {

SharedPipeline PipelineCache::get(const PipelineKey& key,
                                  const std::function<OwnedPipeline()>& make,
                                  WhenUnused when_unused) {
  std::unique_lock lock(mutex_);
  auto [at, is_new] = entries_.try_emplace(key);
  while (!is_new && !at->second.made) {
    ended_.wait(lock);
    std::tie(at, is_new) = entries_.try_emplace(key);  // it is gone where making it failed
  }
  Entry& entry = at->second;
  if (!is_new) return take(entry, when_unused);
  lock.unlock();
  try {
    entry.key = &at->first;
    entry.node = entry.place.insert(entry.place.end(), &entry);
    entry.pipeline = make();
  } catch (...) {
    lock.lock();
    entries_.erase(at);
    ended_.notify_all();
    throw;
  }
  lock.lock();
  entry.made = true;
  ended_.notify_all();
  return take(entry, when_unused);
}

SharedPipeline PipelineCache::take(Entry& entry, WhenUnused when_unused) {
  if (entry.place.empty()) entry.place.splice(entry.place.begin(), unused_, entry.node);
  ++entry.users;
  entry.keep = entry.keep || when_unused == WhenUnused::kKeep;
  return {*this, entry};
}

void PipelineCache::give_back(Entry& entry) noexcept {
  Entries::node_type gone;  // destroyed when nothing is locked
  const std::lock_guard lock(mutex_);
  if (--entry.users > 0) return;
  if (!entry.keep) {
    gone = entries_.extract(*entry.key);
    return;
  }
  unused_.splice(unused_.begin(), entry.place);
  if (unused_.size() <= kMostUnused) return;
  gone = entries_.extract(*unused_.back()->key);
  unused_.pop_back();
}

void PipelineCache::clear() {
  Entries gone;
  const std::lock_guard lock(mutex_);
  for (const Entry* entry : unused_) gone.insert(entries_.extract(*entry->key));
  unused_.clear();
}

PipelineCache::Counts PipelineCache::counts() const {
  const std::lock_guard lock(mutex_);
  return {entries_.size() - unused_.size(), unused_.size()};
}

}  // namespace tv
