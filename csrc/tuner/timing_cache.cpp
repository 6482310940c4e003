#include "csrc/tuner/timing_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "csrc/tuner/journal.h"
#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"

namespace tv {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFormat = "torch_vulkan timings";
constexpr int64_t kVersion = 1;
constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;
constexpr int64_t kSaveEveryMs = 1000;
constexpr const char* kKinds[] = {"timed", "slow", "wrong", "lost", "refused"};

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Where a file of timings is, or will be; the path itself where it leads to a device or a FIFO.
std::string file_of(const std::string& path) {
  const FileTarget target = followed(path);
  return target.descriptor < 0 ? target.path : path;
}

bool is_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return !fs::is_character_file(status) && !fs::is_block_file(status) && !fs::is_fifo(status) &&
         !fs::is_socket(status) && followed(path).descriptor < 0;
}

/// True for a directory that no other user looks into.
bool is_closed(const fs::path& dir) {
  struct stat info = {};
  return ::stat(dir.empty() ? "." : dir.c_str(), &info) == 0 && (info.st_mode & 0077) == 0;
}

/// Holds `path`.lock, so that one writer at a time merges. Without it (a read-only directory) the
/// last writer wins whole.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : fd_(::open((path + ".lock").c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileLock(const FileLock&) = delete;

 private:
  int fd_;
};

/// Whether a file that cannot be read was written as one of timings: Json writes "devices" first,
/// and the format at the end, should the beginning be damaged.
bool begins_as_ours(const std::string& text) {
  std::string begin;
  for (const char c : text) {
    if (begin.size() >= 64) break;
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') begin += c;
  }
  return begin.empty() || begin.starts_with("{\"devices\":{") ||
         text.find('"' + std::string(kFormat) + '"') != std::string::npos;
}

/// Whether a file lies where no file but the cache's own does: in its folder, or under its name in
/// another folder of engines.
bool is_in_own_folder(const std::string& path) {
  std::error_code unknown;
  const fs::path own = fs::weakly_canonical(default_cache_dir(), unknown);
  const fs::path real = fs::weakly_canonical(path, unknown);
  if (!own.empty() && real.parent_path() == own) return true;
  return real.filename() == "timings.json" &&
         fs::is_directory(real.parent_path() / "engines", unknown);
}

double rounded(double us) { return std::round(us * 1000) / 1000; }

Json number(double v) { return v == std::floor(v) ? Json(static_cast<int64_t>(v)) : Json(v); }

Json to_value(const std::string& kernels, const Timing& timing) {
  Json::Object object = {{"kernels", kernels}, {"kind", kKinds[static_cast<size_t>(timing.kind)]}};
  if (timing.usable() || timing.us > 0) object["time_us"] = number(rounded(timing.us));
  if (timing.checked) object["checked"] = true;
  if (!timing.why.empty()) object["why"] = timing.why;
  if (!timing.step_us.empty()) {
    Json::Array steps;
    for (const float us : timing.step_us) steps.push_back(number(rounded(us)));
    object["step_us"] = std::move(steps);
  }
  return object;
}

[[noreturn]] void not_timings(const std::string& what) {
  throw Error(ErrorKind::kUser, "[timing cache] " + what);
}

template <class T>
const T& need(const Json& json, const char* what) {
  const T* value = json.get<T>();
  if (!value) not_timings(std::string(what) + " is " + json.type_name());
  return *value;
}

const Json& member(const Json::Object& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) not_timings(std::string("there is no \"") + name + "\"");
  return found->second;
}

double to_number(const Json& json) {
  const auto* whole = json.get<int64_t>();
  const double value = whole ? static_cast<double>(*whole) : need<double>(json, "a time");
  if (!(value >= 0 && value < 1e12)) not_timings("a time is out of range");
  return value;
}

Timing timing_from(const Json::Object& object) {
  Timing timing;
  const auto& kind = need<std::string>(member(object, "kind"), "kind");
  size_t which = 0;
  while (which < std::size(kKinds) && kind != kKinds[which]) ++which;
  if (which == std::size(kKinds)) not_timings("kind is \"" + kind + "\"");
  timing.kind = static_cast<Timing::Kind>(which);
  if (timing.usable()) timing.us = to_number(member(object, "time_us"));
  if (const auto it = object.find("checked"); it != object.end()) {
    timing.checked = need<bool>(it->second, "checked");
  }
  if (const auto it = object.find("why"); it != object.end()) {
    timing.why = need<std::string>(it->second, "why");
  }
  if (const auto it = object.find("step_us"); it != object.end()) {
    for (const Json& us : need<Json::Array>(it->second, "step_us")) {
      timing.step_us.push_back(static_cast<float>(to_number(us)));
    }
  }
  return timing;
}

}  // namespace

TimingCache::TimingCache(std::string path)
    : path_(path.empty() ? path : file_of(path)), is_file_(path.empty() || is_file(path_)) {
  if (path_.empty() || !is_file_) return;
  load();
  if (foreign_) return;
  for (const TimingKey& key : abandoned(path_)) {
    log(LogLevel::kWarn, "[tuner] " + key.tactic +
                             " was being timed when its process ended and is not tried again; " +
                             "delete its entry in " + path_ + " to try it");
    put(key, {.kind = Timing::Kind::kLost, .why = "its process ended while it was timed"});
  }
}

TimingCache::~TimingCache() { save(); }

const TimingCache::Entry* TimingCache::entry_of(const std::string& device,
                                                const std::string& problem,
                                                const std::string& tactic) const {
  const auto of_device = entries_.find(device);
  if (of_device == entries_.end()) return nullptr;
  const auto of_problem = of_device->second.find(problem);
  if (of_problem == of_device->second.end()) return nullptr;
  const auto found = of_problem->second.find(tactic);
  return found == of_problem->second.end() ? nullptr : &found->second;
}

std::optional<Timing> TimingCache::find(const TimingKey& key) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = entry_of(key.device, key.problem, key.tactic);
  if (entry == nullptr || entry->kernels != key.kernels) return std::nullopt;
  return entry->timing;
}

bool TimingCache::knows(const std::string& device, const std::string& problem,
                        const std::string& tactic) const {
  const std::lock_guard lock(mutex_);
  return entry_of(device, problem, tactic) != nullptr;
}

Timing TimingCache::put(const TimingKey& key, Timing timing) {
  timing.us = rounded(timing.us);
  for (float& us : timing.step_us) us = static_cast<float>(rounded(us));
  const std::lock_guard lock(mutex_);
  entries_[key.device][key.problem][key.tactic] = {key.kernels, timing, true};
  dirty_ = true;
  return timing;
}

void TimingCache::load() {
  std::error_code error;
  if (!fs::exists(path_, error)) return;
  std::vector<uint8_t> bytes;
  try {
    bytes = read_file(path_, kMaxFileBytes);
  } catch (const Error& e) {  // a directory, or not ours to read: it stays where it is
    if (!told_) log(LogLevel::kWarn, "[tuner] timings are not kept: " + std::string(e.what()));
    told_ = true;
    return;
  }
  const std::string text(bytes.begin(), bytes.end());
  if (text.empty()) return;
  try {
    merge(Json::parse(text, path_));
  } catch (const Error& e) {
    set_aside(text, e.what());
  }
}

void TimingCache::set_aside(const std::string& text, const std::string& why) {
  if (!begins_as_ours(text) && !is_in_own_folder(path_)) {
    foreign_ = true;
    if (!told_) {
      log(LogLevel::kWarn, "[tuner] timings are not kept: " + path_ +
                               " is no file of timings and stays as it is: " + why);
    }
    told_ = true;
    return;
  }
  const std::string aside = path_ + ".bad";
  const bool moved = ::rename(path_.c_str(), aside.c_str()) == 0;
  log(LogLevel::kWarn,
      "[tuner] timings start anew: " + why + (moved ? "; the file is now " + aside : ""));
}

void TimingCache::merge(const Json& file) {
  const auto& top = need<Json::Object>(file, "the file");
  if (need<std::string>(member(top, "format"), "format") != kFormat) not_timings("another format");
  if (need<int64_t>(member(top, "version"), "version") != kVersion) {
    not_timings("version is not " + std::to_string(kVersion));
  }
  decltype(entries_) read;
  for (const auto& [device, problems] : need<Json::Object>(member(top, "devices"), "devices")) {
    for (const auto& [problem, tactics] : need<Json::Object>(problems, "problems")) {
      for (const auto& [tactic, entry] : need<Json::Object>(tactics, "tactics")) {
        const auto& object = need<Json::Object>(entry, "a timing");
        read[device][problem][tactic] = {need<std::string>(member(object, "kernels"), "kernels"),
                                         timing_from(object), false};
      }
    }
  }
  const std::lock_guard lock(mutex_);
  for (auto& [device, problems] : read) {
    for (auto& [problem, tactics] : problems) {
      for (auto& [tactic, entry] : tactics) {
        Entry& ours = entries_[device][problem][tactic];
        if (!ours.fresh) ours = std::move(entry);
      }
    }
  }
}

Json TimingCache::to_json() const {
  Json::Object devices;
  for (const auto& [device, problems] : entries_) {
    Json::Object by_problem;
    for (const auto& [problem, tactics] : problems) {
      Json::Object by_tactic;
      for (const auto& [tactic, entry] : tactics) {
        by_tactic[tactic] = to_value(entry.kernels, entry.timing);
      }
      by_problem[problem] = std::move(by_tactic);
    }
    devices[device] = std::move(by_problem);
  }
  return Json::Object{{"format", kFormat}, {"version", kVersion}, {"devices", std::move(devices)}};
}

void TimingCache::save() {
  {
    const std::lock_guard lock(mutex_);
    if (path_.empty() || foreign_ || !dirty_) return;
    dirty_ = false;
    saved_ms_ = now_ms();
  }
  const fs::path parent = fs::path(path_).parent_path();
  if (!parent.empty()) make_private_directories(parent);
  std::optional<FileLock> lock;
  if (is_file_) {
    lock.emplace(path_);
    load();
    if (foreign_) return;
  }
  std::string text;
  {
    const std::lock_guard guard(mutex_);
    text = to_json().dump(/*indent=*/true) + "\n";
    for (auto& [device, problems] : entries_) {
      for (auto& [problem, tactics] : problems) {
        for (auto& [tactic, entry] : tactics) entry.fresh = false;
      }
    }
  }
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  // In the user's cache, which is closed to others, it is closed too.
  const bool closed = is_file_ && is_closed(parent);
  const std::string why =
      closed ? write_file_atomically(path_, {&bytes, 1}) : write_file(path_, {&bytes, 1});
  if (why.empty() || told_) return;
  told_ = true;
  log(LogLevel::kWarn, "[tuner] timings cannot be written to " + path_ + ": " + why);
}

void TimingCache::save_sometimes() {
  if (!is_file_) return;
  {
    const std::lock_guard lock(mutex_);
    if (now_ms() - saved_ms_ < kSaveEveryMs) return;
  }
  save();
}

std::shared_ptr<TimingCache> open_timing_cache(const std::string& path) {
  if (path.empty()) return std::make_shared<TimingCache>("");
  struct Open {
    std::shared_ptr<TimingCache> cache;
    fs::file_time_type changed;
  };
  static std::mutex mutex;
  static auto* open = new std::map<std::string, Open>();  // threads may outlive static destructors
  std::error_code error;
  const auto changed = fs::last_write_time(path, error);
  const std::lock_guard lock(mutex);
  Open& entry = (*open)[path];
  if (!entry.cache || (!error && entry.changed != changed)) {
    if (entry.cache) entry.cache->save();
    entry = {std::make_shared<TimingCache>(path), changed};
  }
  return entry.cache;
}

}  // namespace tv
