#pragma once
// What fuzz targets share: an input as a file in memory, digests and headers that are put right
// again.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/sha256.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tv::fuzz {

using Bytes = std::vector<uint8_t>;

/// For readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> bytes) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
    if (fd_ < 0 || ::write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      std::abort();
    }
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

/// libFuzzer's mutation of a part of an input, which may grow by `room` bytes.
inline void mutate(Bytes& part, size_t room) {
  const size_t size = part.size();
  part.resize(size + room);
  part.resize(LLVMFuzzerMutate(part.data(), size, part.size()));
}

/// Reads them: what is not there is seen by ASan.
inline void touch(std::span<const uint8_t> bytes) {
  uint8_t sum = 0;
  for (const uint8_t byte : bytes) sum ^= byte;
  volatile uint8_t read = sum;
  (void)read;
}

constexpr size_t kDigestBytes = 32;

/// Makes the last bytes the digest of those before them.
inline void sign(Bytes& bytes) {
  if (bytes.size() < kDigestBytes) return;
  const auto digest = Sha256().update(std::span(bytes).first(bytes.size() - kDigestBytes)).finish();
  std::copy(digest.begin(), digest.end(), bytes.end() - kDigestBytes);
}

/// A header's new length, and its input's new size.
struct MutatedHeader {
  size_t length, size;
};
/// Mutates the header at `at`; what follows it stays. Zeros, and nothing is changed, where it would
/// pass max_size.
inline MutatedHeader mutate_header(uint8_t* data, size_t size, size_t max_size, size_t at,
                                   size_t length) {
  Bytes header(data + at, data + at + length);
  const Bytes rest(data + at + length, data + size);
  mutate(header, 64);
  const size_t made = at + header.size() + rest.size();
  if (made > max_size) return {0, 0};
  std::copy(rest.begin(), rest.end(), std::copy(header.begin(), header.end(), data + at));
  return {header.size(), made};
}

/// A mutator of .safetensors files: of the header, whose length is put right, or of all.
inline size_t mutate_safetensors(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  constexpr size_t kLengthBytes = 8;
  uint64_t length = 0;
  if (size > kLengthBytes) std::memcpy(&length, data, kLengthBytes);
  if (std::minstd_rand(seed)() % 8 == 0 || length == 0 || length > size - kLengthBytes) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const MutatedHeader made = mutate_header(data, size, max_size, kLengthBytes, length);
  if (made.size == 0) return LLVMFuzzerMutate(data, size, max_size);
  length = made.length;
  std::memcpy(data, &length, kLengthBytes);
  return made.size;
}

}  // namespace tv::fuzz
