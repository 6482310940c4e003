#include "runtime/engine/recordings.h"

#include <algorithm>

namespace tv {
namespace {

constexpr size_t kMaxRecordings = 16;
constexpr size_t kMaxAddressSets = 4;  // recordings for CUDA that differ in addresses alone

}  // namespace

Recordings::Recordings(const EngineParts& parts)
    : parts_(parts), device_(*parts.device), pool_(device_.make_command_pool()) {}

Recording& Recordings::find(const RecordingKey& key) {
  const std::span<const int64_t> symbols = key.symbols;
  ++clock_;
  const uint64_t generation = debug_generation();
  for (const auto& r : all_) {
    if (r->on_cuda != key.on_cuda || r->times != key.times) continue;
    if (!std::equal(r->plan.symbols.begin(), r->plan.symbols.end(), symbols.begin(),
                    symbols.end())) {
      continue;
    }
    if (r->debug_generation != generation) {
      r->plan = plan_shape(parts_, symbols);
      r->debug_generation = generation;
      r->weights_id = 0;
      r->external_overlap = false;
    }
    r->last_used = clock_;
    return *r;
  }
  auto fresh = std::make_unique<Recording>();
  fresh->plan = plan_shape(parts_, symbols);
  fresh->debug_generation = generation;
  fresh->on_cuda = key.on_cuda;
  fresh->times = key.times;
  return add(std::move(fresh));
}

Recording& Recordings::add(std::unique_ptr<Recording> fresh) {
  fresh->last_used = clock_;
  if (all_.size() < kMaxRecordings) {
    fresh->commands = new_commands();
    all_.push_back(std::move(fresh));
    return *all_.back();
  }
  auto& oldest = *std::min_element(all_.begin(), all_.end(),
                                   [](auto& a, auto& b) { return a->last_used < b->last_used; });
  device_.wait(oldest->submission);
  fresh->commands = oldest->commands;
  fresh->more = std::move(oldest->more);
  fresh->stream.copies = std::move(oldest->stream.copies);
  if (last_ == oldest.get()) last_ = nullptr;
  oldest = std::move(fresh);
  return *oldest;
}

Recording& Recordings::find_bound(Recording& any, const std::vector<uint64_t>& bound) {
  if (any.bound == bound || any.bound.empty()) return any;
  Recording* oldest = &any;
  size_t alike = 0;
  for (const auto& r : all_) {
    if (!r->on_cuda || r->times != any.times || r->plan.symbols != any.plan.symbols ||
        r->debug_generation != any.debug_generation) {
      continue;
    }
    ++alike;
    if (r->bound == bound) {
      r->last_used = clock_;
      return *r;
    }
    if (r->last_used < oldest->last_used) oldest = r.get();
  }
  if (alike >= kMaxAddressSets) {
    oldest->last_used = clock_;
    return *oldest;
  }
  auto fresh = std::make_unique<Recording>();
  fresh->plan = any.plan;
  fresh->debug_generation = any.debug_generation;
  fresh->on_cuda = true;
  fresh->times = any.times;
  fresh->external_overlap = any.external_overlap;
  return add(std::move(fresh));
}

}  // namespace tv
