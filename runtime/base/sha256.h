#pragma once
// SHA-256 (FIPS 180-4).

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace tv {

/// Digest of bytes that arrive in pieces. Not thread-safe.
class Sha256 {
 public:
  Sha256& update(std::span<const uint8_t> bytes);
  /// The digest of everything so far; the object is spent.
  std::array<uint8_t, 32> finish();

 private:
  void block(const uint8_t* bytes, size_t count);
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

/// SHA-256 of `bytes`, as 64 hexadecimal digits.
std::string sha256_hex(std::span<const uint8_t> bytes);
std::string sha256_hex(const std::string& bytes);

}  // namespace tv
