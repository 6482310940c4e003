#include "runtime/store/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <tuple>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/sha256.h"
#include "runtime/store/store_entry.h"
#include "runtime/store/store_files.h"

namespace tv {

namespace {

constexpr int64_t kHourNs = 3600 * int64_t{1000000000};
constexpr uint64_t kPutsPerScan = 64;

using Bytes = std::span<const uint8_t>;

/// Marks as used now. The kernel's own marks move in steps of milliseconds, within which the order
/// of use would be lost.
void touch(const std::string& path) {
  timespec now[2] = {};
  ::clock_gettime(CLOCK_REALTIME, &now[0]);
  now[1] = now[0];
  ::utimensat(AT_FDCWD, path.c_str(), now, 0);
}

/// Whether a name has led to one file all the time: it may be removed and written again in between.
bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
         a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

}  // namespace

std::string why_unsafe_cache(const std::string& dir, bool is_system) {
  struct stat info = {};
  if (::stat(dir.c_str(), &info) != 0) return "";
  if (!S_ISDIR(info.st_mode)) return "it is not a directory";
  const bool mine = info.st_uid == ::geteuid();
  if (!mine && !(is_system && info.st_uid == 0))
    return "it belongs to user " + std::to_string(info.st_uid) + ", not to user " +
           std::to_string(::geteuid());
  if (info.st_mode & S_IWOTH) return "every user can write it";
  if (info.st_mode & S_IWGRP) return "its group can write it";
  if (!is_system && (info.st_mode & (S_IRWXG | S_IRWXO)))
    return "other users can look into it; close it with chmod 700";
  return "";
}

Store::Store(std::string dir, std::string kind, uint64_t max_bytes, bool is_system)
    : dir_(std::move(dir)), kind_(std::move(kind)), max_bytes_(max_bytes), is_system_(is_system) {
  if (dir_.empty()) {
    refusal_ = "there is no cache directory";
    return;
  }
  for (const std::string& path : {dir_, dir_ + "/" + kind_}) {
    const std::string why = why_unsafe_cache(path, is_system_);
    if (why.empty()) continue;
    refusal_ = "the cache directory " + path + " is not used: " + why;
    log(LogLevel::kWarn, refusal_);
    dir_.clear();
    return;
  }
}

std::string Store::path_of(const std::string& key_material) const {
  return dir_ + "/" + kind_ + "/" + sha256_hex(key_material);
}

std::optional<std::vector<uint8_t>> Store::get(const std::string& key_material) const {
  return find(key_material).value;
}

Store::Found Store::find(const std::string& key_material) const {
  const auto miss = [&](const std::string& why, bool bad = false) {
    ++misses_;
    return Found{std::nullopt, bad, why};
  };
  if (dir_.empty()) return miss(refusal_);
  const std::string path = path_of(key_material);
  std::vector<uint8_t> entry;
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return miss("it is not in the cache");
  Bytes value;
  EntryCheck check = EntryCheck::kBad;
  std::string why = "the entry is damaged";
  try {
    entry = read_file(path, std::max(max_bytes_, uint64_t{1} << 20), FileUse::kShared);
    check = check_entry(entry, key_material, value);
  } catch (const std::exception& error) {  // unreadable, or evicted since
    log(LogLevel::kDebug, std::string("cache: ") + error.what());
    struct stat now = {};
    if (::stat(path.c_str(), &now) != 0 || !is_same(info, now)) return miss("it was just removed");
    why = error.what();
  }
  if (check == EntryCheck::kOtherKey) return miss("the entry is another key's");
  if (check == EntryCheck::kBad) {
    set_aside(path);
    return miss(why, /*bad=*/true);
  }
  ++hits_;
  // Most recently used; fails on a read-only disk.
  if (!is_system_) touch(path);
  return {std::vector<uint8_t>(value.begin(), value.end()), false, ""};
}

void Store::reject(const std::string& key_material) const {
  if (!dir_.empty()) set_aside(path_of(key_material));
}

void Store::set_aside(const std::string& path) const {
  const bool is_first = bad_.fetch_add(1) == 0;
  if (!is_system_ && ::rename(path.c_str(), (path + kBadSuffix).c_str()) == 0)
    log(is_first ? LogLevel::kWarn : LogLevel::kDebug,
        "cache: a bad entry was set aside as " + path + kBadSuffix);
}

bool Store::put(const std::string& key_material, std::span<const uint8_t> value) const {
  if (dir_.empty() || is_system_) return false;
  const EntryPieces entry(key_material, value);
  std::string why = "it is larger than the cache may be";
  if (entry.size_bytes() <= max_bytes_) {
    why = make_private_directories(dir_ + "/" + kind_)
              ? write_file_atomically(path_of(key_material), entry.pieces())
              : std::string(std::strerror(errno));
  }
  if (!why.empty()) {
    // The first failure is told, the rest would only repeat it.
    if (failed_.fetch_add(1) == 0)
      log(LogLevel::kWarn, "cache: cannot write to " + dir_ + "/" + kind_ + ": " + why);
    return false;
  }
  ++writes_;
  touch(path_of(key_material));
  evict_over_limit(entry.size_bytes());
  return true;
}

void Store::evict_over_limit(uint64_t written_bytes) const {
  // A scan costs a stat for each entry: on the first write, then when our own count passes the
  // limit, and now and then for what other processes wrote.
  const uint64_t known_bytes = known_bytes_.fetch_add(written_bytes) + written_bytes;
  if (puts_.fetch_add(1) % kPutsPerScan != 0 && known_bytes <= max_bytes_) return;
  std::vector<StoreFile> files = list_store(dir_, kind_);
  uint64_t total_bytes = 0;
  const int64_t now_ns = std::time(nullptr) * int64_t{1000000000};
  // What comes from the future was used before the clock was set back, nobody knows when.
  for (StoreFile& file : files) {
    if (file.used_ns > now_ns + kHourNs) file.used_ns = 0;
  }
  std::erase_if(files, [&](const StoreFile& file) {
    if (!file.temporary) return false;
    if (now_ns - file.used_ns > kHourNs) ::unlink(file.path.c_str());
    return true;
  });
  for (const StoreFile& file : files) total_bytes += file.size_bytes;
  known_bytes_ = total_bytes;
  if (total_bytes <= max_bytes_) return;
  // What was set aside goes first, then what was used longest ago.
  std::sort(files.begin(), files.end(), [](const StoreFile& a, const StoreFile& b) {
    return std::tuple(!a.bad, a.used_ns, a.path) < std::tuple(!b.bad, b.used_ns, b.path);
  });
  for (const StoreFile& file : files) {
    if (total_bytes <= max_bytes_) break;
    if (!remove_unless_used(file.path)) continue;
    if (!file.bad) ++evicted_;
    total_bytes -= file.size_bytes;
  }
  known_bytes_ = total_bytes;
}

StoreStats Store::stats() const { return {hits_, misses_, bad_, writes_, evicted_, failed_}; }

}  // namespace tv
