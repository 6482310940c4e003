#pragma once
// One entry of a store as bytes: magic, u32 version, u32 0, u64 key bytes, u64 value bytes, key,
// value, SHA-256 of all before it. Numbers are little-endian.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tv {

enum class EntryCheck : uint8_t { kGood, kOtherKey, kBad };

/// What an entry holds, as parts of its bytes.
struct StoreEntry {
  std::span<const uint8_t> key, value;
};

/// False if the bytes are not a whole entry.
bool read_entry(std::span<const uint8_t> bytes, StoreEntry& entry);

/// The value stored for `key`: kOtherKey for an entry of another key, which is not a fault.
EntryCheck check_entry(std::span<const uint8_t> bytes, const std::string& key,
                       std::span<const uint8_t>& value);

/// The pieces of an entry, one after the other; they point to the arguments and to this object.
class EntryPieces {
 public:
  EntryPieces(const std::string& key, std::span<const uint8_t> value);
  EntryPieces(const EntryPieces&) = delete;
  EntryPieces& operator=(const EntryPieces&) = delete;
  std::array<std::span<const uint8_t>, 4> pieces() const;
  uint64_t size_bytes() const;

 private:
  std::array<uint8_t, 32> header_, digest_;
  std::span<const uint8_t> key_, value_;
};

}  // namespace tv
