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

/// SHA-256 of `bytes`, as 64 hexadecimal digits.
std::string sha256_hex(std::span<const uint8_t> bytes);
std::string sha256_hex(const std::string& bytes);

/// $XDG_CACHE_HOME/torch_vulkan, else ~/.cache/torch_vulkan; "" where there is no home. Never /tmp.
std::string default_cache_dir();

struct StoreStats {
  uint64_t hits = 0, misses = 0, bad = 0, writes = 0, evicted = 0, failed_writes = 0;
};

class Store {
 public:
  /// Files go to `dir`/`kind`/. An empty dir makes a store that never hits and drops writes. The
  /// directory is made with mode 0700 at the first write.
  Store(std::string dir, std::string kind, uint64_t max_bytes);
  /// The value stored for `key_material` (any bytes), or nothing. Never throws for a bad entry.
  std::optional<std::vector<uint8_t>> get(const std::string& key_material) const;
  /// Returns false where the entry could not be written (full disk, read-only): counted, not fatal.
  bool put(const std::string& key_material, std::span<const uint8_t> value) const;
  StoreStats stats() const;

 private:
  std::string path_of(const std::string& key_material) const;
  void evict_over_limit(uint64_t written_bytes) const;
  std::string dir_, kind_;
  uint64_t max_bytes_;
  mutable std::atomic<uint64_t> hits_{0}, misses_{0}, bad_{0}, writes_{0}, evicted_{0}, failed_{0};
  mutable std::atomic<uint64_t> puts_{0}, known_bytes_{0};  ///< known_bytes_: as far as we saw
};

}  // namespace tv
