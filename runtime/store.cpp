#include "runtime/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "runtime/env.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/log.h"
#include "runtime/sha256.h"

namespace tv {

namespace fs = std::filesystem;

namespace {

// An entry: magic, u32 version, u32 0, u64 key bytes, u64 value bytes, key, value, SHA-256 of all
// before it. Numbers are little-endian.
constexpr char kMagic[8] = {'T', 'V', 'S', 'T', 'O', 'R', 'E', '\n'};
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 32, kDigestBytes = 32;
constexpr const char* kBadSuffix = ".bad";
constexpr auto kStaleTemporary = std::chrono::hours(1);
constexpr uint64_t kPutsPerScan = 64;

using Bytes = std::span<const uint8_t>;

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

struct Header {
  char magic[8];
  uint32_t version, zero;
  uint64_t key_bytes, value_bytes;
};
static_assert(sizeof(Header) == kHeaderBytes);

/// The value inside an entry, or nothing where the entry is not whole.
enum class Check { kGood, kOtherKey, kBad };
Check check_entry(Bytes entry, const std::string& key, Bytes& value) {
  Header header;
  if (entry.size() < kHeaderBytes + kDigestBytes) return Check::kBad;
  std::memcpy(&header, entry.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion ||
      header.zero != 0)
    return Check::kBad;
  const uint64_t payload = entry.size() - kHeaderBytes - kDigestBytes;
  if (header.key_bytes > payload || header.value_bytes != payload - header.key_bytes)
    return Check::kBad;
  const auto digest = Sha256().update(entry.first(entry.size() - kDigestBytes)).finish();
  if (!std::equal(digest.begin(), digest.end(), entry.end() - kDigestBytes)) return Check::kBad;
  const Bytes stored_key = entry.subspan(kHeaderBytes, header.key_bytes);
  if (!std::ranges::equal(stored_key, bytes_of(key))) return Check::kOtherKey;
  value = entry.subspan(kHeaderBytes + header.key_bytes, header.value_bytes);
  return Check::kGood;
}

/// Makes `dir` and what is missing above it, each with mode 0700.
bool make_directories(const fs::path& dir) {
  std::error_code error;
  if (fs::is_directory(dir, error)) return true;
  if (dir.has_parent_path() && dir.parent_path() != dir && !make_directories(dir.parent_path()))
    return false;
  return ::mkdir(dir.c_str(), 0700) == 0 || errno == EEXIST;
}

/// An entry is code that runs on the device: a directory that others can write is not used.
std::string why_unsafe(const std::string& dir) {
  struct stat info = {};
  if (::stat(dir.c_str(), &info) != 0) return "";
  if (!S_ISDIR(info.st_mode)) return "it is not a directory";
  if (info.st_mode & S_IWOTH) return "every user can write it";
  if (info.st_uid != ::geteuid() && info.st_uid != 0) return "it belongs to another user";
  return "";
}

struct Entry {
  fs::path path;
  uint64_t size_bytes;
  fs::file_time_type used;
  bool bad;
};

}  // namespace

std::string default_cache_dir() {
  const std::string xdg = env("XDG_CACHE_HOME");
  if (!xdg.empty() && xdg.front() == '/') return xdg + "/torch_vulkan";
  const std::string home = env("HOME");
  return !home.empty() && home.front() == '/' ? home + "/.cache/torch_vulkan" : "";
}

Store::Store(std::string dir, std::string kind, uint64_t max_bytes)
    : dir_(std::move(dir)), kind_(std::move(kind)), max_bytes_(max_bytes) {
  if (dir_.empty()) return;
  for (const std::string& path : {dir_, dir_ + "/" + kind_}) {
    const std::string why = why_unsafe(path);
    if (why.empty()) continue;
    log(LogLevel::kWarn, "the cache directory " + path + " is not used: " + why);
    dir_.clear();
    return;
  }
}

std::string Store::path_of(const std::string& key_material) const {
  return dir_ + "/" + kind_ + "/" + sha256_hex(key_material);
}

std::optional<std::vector<uint8_t>> Store::get(const std::string& key_material) const {
  if (dir_.empty()) {
    ++misses_;
    return std::nullopt;
  }
  const std::string path = path_of(key_material);
  std::vector<uint8_t> entry;
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    ++misses_;
    return std::nullopt;
  }
  Bytes value;
  Check check = Check::kBad;
  try {
    entry = read_file(path, std::max(max_bytes_, uint64_t{1} << 20));
    check = check_entry(entry, key_material, value);
  } catch (const std::exception& error) {  // unreadable, or evicted since
    log(LogLevel::kDebug, std::string("cache: ") + error.what());
    if (::stat(path.c_str(), &info) != 0) {
      ++misses_;
      return std::nullopt;
    }
  }
  if (check == Check::kGood) {
    ++hits_;
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // most recently used; fails on a read-only disk
    entry.erase(entry.begin(), entry.begin() + (value.data() - entry.data()));
    entry.resize(entry.size() - kDigestBytes);
    return entry;
  }
  ++misses_;
  if (check == Check::kBad) {
    const bool is_first = bad_.fetch_add(1) == 0;
    if (::rename(path.c_str(), (path + kBadSuffix).c_str()) == 0)
      log(is_first ? LogLevel::kWarn : LogLevel::kDebug,
          "cache: a bad entry was set aside as " + path + kBadSuffix);
  }
  return std::nullopt;
}

bool Store::put(const std::string& key_material, std::span<const uint8_t> value) const {
  if (dir_.empty()) return false;
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.key_bytes = key_material.size();
  header.value_bytes = value.size();
  const Bytes head(reinterpret_cast<const uint8_t*>(&header), sizeof header);
  const Bytes key = bytes_of(key_material);
  const auto digest = Sha256().update(head).update(key).update(value).finish();

  std::string why = "it is larger than the cache may be";
  const uint64_t entry_bytes = kHeaderBytes + key.size() + value.size() + kDigestBytes;
  if (entry_bytes <= max_bytes_) {
    const Bytes pieces[] = {head, key, value, digest};
    why = make_directories(dir_ + "/" + kind_) ? write_file_atomically(path_of(key_material), pieces)
                                               : std::string(std::strerror(errno));
  }
  if (!why.empty()) {
    // The first failure is told, the rest would only repeat it.
    if (failed_.fetch_add(1) == 0)
      log(LogLevel::kWarn, "cache: cannot write to " + dir_ + "/" + kind_ + ": " + why);
    return false;
  }
  ++writes_;
  evict_over_limit(entry_bytes);
  return true;
}

void Store::evict_over_limit(uint64_t written_bytes) const {
  // A scan costs a stat for each entry: on the first write, then when our own count passes the
  // limit, and now and then for what other processes wrote.
  const uint64_t known_bytes = known_bytes_.fetch_add(written_bytes) + written_bytes;
  if (puts_.fetch_add(1) % kPutsPerScan != 0 && known_bytes <= max_bytes_) return;
  std::vector<Entry> entries;
  uint64_t total_bytes = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(dir_ + "/" + kind_, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;  // another process may remove what we look at
    const uint64_t size_bytes = it->file_size(ignored);
    if (ignored) continue;
    const auto used = it->last_write_time(ignored);
    if (ignored) continue;
    const std::string name = it->path().filename().string();
    if (is_temporary_name(name)) {
      if (now - used > kStaleTemporary) fs::remove(it->path(), ignored);
      continue;
    }
    total_bytes += size_bytes;
    entries.push_back({it->path(), size_bytes, used, name.ends_with(kBadSuffix)});
  }
  known_bytes_ = total_bytes;
  if (total_bytes <= max_bytes_) return;
  // What was set aside goes first, then what was used longest ago.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    if (a.bad != b.bad) return a.bad;
    return a.used != b.used ? a.used < b.used : a.path < b.path;
  });
  for (const Entry& entry : entries) {
    if (total_bytes <= max_bytes_) break;
    std::error_code ignored;
    if (fs::remove(entry.path, ignored) && !entry.bad) ++evicted_;
    total_bytes -= entry.size_bytes;
  }
  known_bytes_ = total_bytes;
}

StoreStats Store::stats() const {
  return {hits_, misses_, bad_, writes_, evicted_, failed_};
}

}  // namespace tv
