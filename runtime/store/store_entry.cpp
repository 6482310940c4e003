#include "runtime/store/store_entry.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/sha256.h"

namespace tv {

namespace {

using Bytes = std::span<const uint8_t>;

constexpr char kMagic[8] = {'T', 'V', 'S', 'T', 'O', 'R', 'E', '\n'};
constexpr uint32_t kVersion = 1;
constexpr size_t kDigestBytes = 32;

struct Header {
  char magic[8];
  uint32_t version, zero;
  uint64_t key_bytes, value_bytes;
};
static_assert(sizeof(Header) == 32);

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

bool read_entry(Bytes bytes, StoreEntry& entry) {
  Header header;
  if (bytes.size() < sizeof header + kDigestBytes) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion ||
      header.zero != 0)
    return false;
  const uint64_t payload = bytes.size() - sizeof header - kDigestBytes;
  if (header.key_bytes > payload || header.value_bytes != payload - header.key_bytes) return false;
  const auto digest = Sha256().update(bytes.first(bytes.size() - kDigestBytes)).finish();
  if (!std::equal(digest.begin(), digest.end(), bytes.end() - kDigestBytes)) return false;
  entry.key = bytes.subspan(sizeof header, header.key_bytes);
  entry.value = bytes.subspan(sizeof header + header.key_bytes, header.value_bytes);
  return true;
}

EntryCheck check_entry(Bytes bytes, const std::string& key, Bytes& value) {
  StoreEntry entry;
  if (!read_entry(bytes, entry)) return EntryCheck::kBad;
  if (!std::ranges::equal(entry.key, bytes_of(key))) return EntryCheck::kOtherKey;
  value = entry.value;
  return EntryCheck::kGood;
}

EntryPieces::EntryPieces(const std::string& key, Bytes value) : key_(bytes_of(key)), value_(value) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.key_bytes = key.size();
  header.value_bytes = value.size();
  std::memcpy(header_.data(), &header, sizeof header);
  digest_ = Sha256().update(header_).update(key_).update(value_).finish();
}

std::array<Bytes, 4> EntryPieces::pieces() const { return {header_, key_, value_, digest_}; }

uint64_t EntryPieces::size_bytes() const {
  return header_.size() + key_.size() + value_.size() + digest_.size();
}

}  // namespace tv
