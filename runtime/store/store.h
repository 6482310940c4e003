#pragma once
// A small on-disk key-value store, shared safely between processes. Engines, timings and compiled
// SPIR-V use one each.
//
// An entry holds its full key material, which is compared on a read, and a digest of everything. It
// is written to a temporary file, synced and renamed; a bad entry is a miss, counted and set aside.

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tv {

/// Why a cache directory is not used, or "" (also if it does not exist). The user's own must
/// belong to the user and be closed to all others, because an entry is code that runs on the device
/// and tells what was compiled; a system directory must be such that no other user can write it.
std::string why_unsafe_cache(const std::string& dir, bool is_system = false);

struct StoreStats {
  uint64_t hits = 0, misses = 0, bad = 0, writes = 0, evicted = 0, failed_writes = 0;
};

class Store {
 public:
  /// A value, or why there is none.
  struct Found {
    std::optional<std::vector<uint8_t>> value;
    bool bad = false;  ///< there was an entry, and it was set aside
    std::string why;   ///< "" if found
  };

  /// Files go to `dir`/`kind`. An empty dir makes a store that never hits and drops writes. The
  /// directory is made with mode 0700 at the first write.
  /// With `is_system` it is one that an administrator filled: only read, nothing touched or set
  /// aside.
  Store(std::string dir, std::string kind, uint64_t max_bytes, bool is_system = false);

  /// The value stored for `key_material` (any bytes), or nothing. Never throws for a bad entry.
  std::optional<std::vector<uint8_t>> get(const std::string& key_material) const;
  Found find(const std::string& key_material) const;
  /// Returns false if the entry could not be written (full disk, read-only): counted, not fatal.
  bool put(const std::string& key_material, std::span<const uint8_t> value) const;
  /// Sets aside an entry whose value its reader could not use; counted as bad.
  void reject(const std::string& key_material) const;
  StoreStats stats() const;
  /// Why the directory is not used; "" if it is.
  const std::string& refusal() const { return refusal_; }

 private:
  std::string path_of(const std::string& key_material) const;
  void set_aside(const std::string& path) const;
  void evict_over_limit(uint64_t written_bytes) const;
  std::string dir_, kind_, refusal_;
  uint64_t max_bytes_;
  bool is_system_;
  mutable std::atomic<uint64_t> hits_{0}, misses_{0}, bad_{0}, writes_{0}, evicted_{0}, failed_{0};
  mutable std::atomic<uint64_t> puts_{0}, known_bytes_{0};  ///< known_bytes_: as far as we saw
};

}  // namespace tv
