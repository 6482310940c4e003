#include "csrc/cache/engine_cache.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "csrc/cache/engine_key.h"
#include "csrc/cache/names.h"
#include "csrc/precision.h"
#include "csrc/user_code.h"
#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/engine/engine.h"
#include "runtime/spec/vke.h"
#include "runtime/store/store.h"

namespace tv {

namespace {

constexpr const char* kKind = "engines";
constexpr uint64_t kNoLimit = std::numeric_limits<int64_t>::max();

class Counters {
 public:
  void count(uint64_t EngineCacheStats::* member, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    ++(stats_.*member);
    if (!reason.empty()) ++stats_.reasons[reason];
  }
  EngineCacheStats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  mutable std::mutex mutex_;
  EngineCacheStats stats_;
};

Counters& counters() {
  static Counters all;
  return all;
}

/// One store a directory and limit: it counts what it wrote and tells a failure once.
class Stores {
 public:
  std::shared_ptr<const Store> user(const CacheSettings& cache) {
    const std::lock_guard lock(mutex_);
    auto& store = users_[{cache.engine_cache_dir, cache.engine_cache_size}];
    // A directory that was refused may have been put right since.
    const bool try_again = store && !store->refusal().empty() && is_safe(cache.engine_cache_dir);
    if (!store || try_again) {
      store = std::make_shared<const Store>(cache.engine_cache_dir, kKind,
                                            static_cast<uint64_t>(cache.engine_cache_size));
    }
    return store;
  }
  std::shared_ptr<const Store> system() {
    const std::lock_guard lock(mutex_);
    const std::string dir = system_cache_dir();
    auto& store = systems_[dir];
    if (!store) store = std::make_shared<const Store>(dir, kKind, kNoLimit, /*is_system=*/true);
    return store;
  }
  void add_evicted(EngineCacheStats& stats) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, store] : users_) stats.evicted += store->stats().evicted;
  }

 private:
  static bool is_safe(const std::string& dir) {
    return !dir.empty() && why_unsafe_cache(dir).empty() &&
           why_unsafe_cache(dir + "/" + kKind).empty();
  }
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int64_t>, std::shared_ptr<const Store>> users_;
  std::map<std::string, std::shared_ptr<const Store>> systems_;
};

Stores& stores() {
  static Stores all;
  return all;
}

/// Why the cache has no part in this build; "" if it has.
std::string why_bypassed(const Settings& settings, const CacheSettings& cache) {
  if (!cache.reuse_cached_engines && !cache.cache_built_engines) {
    return "cache_built_engines and reuse_cached_engines are off";
  }
  if (!settings.debug_dir.empty()) return "debug dumps are of a build";
  return "";
}

bool same_tensors(const Graph& graph, const std::vector<ValueId>& values,
                  const std::vector<Binding>& bindings, bool truncates) {
  if (values.size() != bindings.size()) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = graph.value(values[i]);
    const DType held = truncates ? truncated(value.dtype) : value.dtype;
    if (held != bindings[i].dtype || value.shape != bindings[i].shape) return false;
  }
  return true;
}

/// An entry of this key was written by us for such a graph; one that was not is not used.
bool fits(const EngineSpec& spec, const Graph& graph, const Settings& settings,
          const DeviceProfile& device) {
  const auto outputs = std::ranges::count(graph.outputs, kNoValue, &GraphOutput::over);
  if (static_cast<int64_t>(spec.outputs.size()) != outputs || spec.runs_on != device.runs_on())
    return false;
  const bool truncates = settings.truncate_long_and_double;
  return same_tensors(graph, graph.inputs, spec.inputs, truncates) &&
         same_tensors(graph, graph.weights, spec.weights, truncates);
}

class CachedBuild {
 public:
  CachedBuild(const Graph& graph, const Settings& settings, const DeviceProfile& device,
              const CacheSettings& cache, const MakeCostModel& make_costs)
      : graph_(graph),
        settings_(settings),
        device_(device),
        cache_(cache),
        make_costs_(make_costs),
        canonical_(canonical_form(graph)),
        key_(key(make_costs != nullptr)) {}

  std::optional<EngineSpec> find() {
    std::string why;
    return look_up(why);
  }

  EngineSpec run(const Progress& progress) {
    std::string why;
    if (std::optional<EngineSpec> spec = look_up(why)) return *std::move(spec);
    const std::unique_ptr<CostModel> costs = make_costs_ ? make_costs_() : nullptr;
    if (make_costs_ && !costs) {  // what is chosen by rule is another engine
      key_ = key(false);
      if (std::optional<EngineSpec> spec = look_up(why)) return *std::move(spec);
    }
    count_miss(why);
    EngineSpec spec;
    try {
      spec = compile(names_matter(settings_) ? graph_ : with_tokens(graph_, canonical_), settings_,
                     device_, progress, costs.get());
    } catch (const Error&) {  // the message should tell real names
      return compile(graph_, settings_, device_, progress, costs.get());
    }
    if (cache_.cache_built_engines) write(spec);
    if (!names_matter(settings_)) restore_names(spec, graph_, canonical_);
    return spec;
  }

 private:
  std::string key(bool timed) const {
    return engine_key(canonical_, settings_, device_, timed, cache_.weights_digest) +
           user_code_text(graph_) + names_text(graph_, canonical_, settings_);
  }

  std::optional<EngineSpec> look_up(std::string& why) {
    if (!cache_.reuse_cached_engines) {
      why = "reuse_cached_engines is off";
      return std::nullopt;
    }
    if (auto spec = look_up_in(*stores().user(cache_), "the cache", why)) return spec;
    std::string ignored;
    const auto system = stores().system();
    if (!system->refusal().empty()) return std::nullopt;
    return look_up_in(*system, "the system's cache", ignored);
  }

  void count_miss(const std::string& why) {
    const std::string refusal = stores().user(cache_)->refusal();
    if (refusal.empty()) {
      counters().count(&EngineCacheStats::misses, "miss: " + why);
    } else {
      counters().count(&EngineCacheStats::bypassed, "bypass: " + refusal);
    }
  }

  std::optional<EngineSpec> look_up_in(const Store& store, const char* where, std::string& why) {
    Store::Found found = store.find(key_);
    if (found.bad) counters().count(&EngineCacheStats::bad, "bad: " + found.why);
    why = found.why;
    if (!found.value) return std::nullopt;
    try {
      VkeContents contents = from_vke(*found.value);
      if (!fits(contents.spec, graph_, settings_, device_))
        throw Error(ErrorKind::kUser, "it is the engine of another graph or device");
      if (names_matter(settings_)) {
        restore_size_names(contents.spec, graph_);
      } else {
        restore_names(contents.spec, graph_, canonical_);
      }
      counters().count(&EngineCacheStats::hits, std::string("hit: in ") + where);
      return std::move(contents.spec);
    } catch (const Error& error) {
      why = "the engine in the entry is not valid";
      counters().count(&EngineCacheStats::bad, "bad: " + why);
      log(LogLevel::kWarn, "cache: " + why + ": " + error.what());
      store.reject(key_);
      return std::nullopt;
    }
  }

  void write(const EngineSpec& spec) {
    const auto store = stores().user(cache_);
    if (store->put(key_, to_vke(spec))) {
      counters().count(&EngineCacheStats::writes, "");
    } else if (store->refusal().empty()) {
      counters().count(&EngineCacheStats::failed_writes, "not written: the log says why");
    }
  }

  const Graph& graph_;
  const Settings& settings_;
  const DeviceProfile& device_;
  const CacheSettings& cache_;
  const MakeCostModel& make_costs_;
  CanonicalGraph canonical_;
  std::string key_;
};

}  // namespace

std::optional<EngineSpec> find_cached(const Graph& graph, const Settings& settings,
                                      const DeviceProfile& device, const CacheSettings& cache) {
  if (!why_bypassed(settings, cache).empty()) return std::nullopt;
  check(graph, "import");
  const MakeCostModel timed = [] { return nullptr; };  // a key of timed tactics; nothing is built
  return CachedBuild(graph, settings, device, cache, timed).find();
}

EngineCacheStats engine_cache_stats() {
  EngineCacheStats stats = counters().stats();
  stores().add_evicted(stats);
  return stats;
}

EngineSpec compile_cached(const Graph& graph, const Settings& settings, const DeviceProfile& device,
                          const CacheSettings& cache, const Progress& progress,
                          const MakeCostModel& make_costs) {
  const std::string why = why_bypassed(settings, cache);
  if (!why.empty()) {
    counters().count(&EngineCacheStats::bypassed, "bypass: " + why);
    const std::unique_ptr<CostModel> costs = make_costs ? make_costs() : nullptr;
    return compile(graph, settings, device, progress, costs.get());
  }
  check(graph, "import");
  return CachedBuild(graph, settings, device, cache, make_costs).run(progress);
}

}  // namespace tv
