#pragma once
// Files that are mapped into memory, so that nothing of them is copied.

#include <cstdint>
#include <string>
#include <utility>

#include "csrc/frontends/weight.h"

namespace tv {

/// Closes what it holds; negative: nothing.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Of a regular file. Throws Error(kUser), whose message begins with `what`; `one_name`: where it
/// has other names (hard links), too.
uint64_t size_of(const FileDescriptor& file, const std::string& what, bool one_name);

/// A part of a file, which has so many bytes.
WeightBytes map_range(const FileDescriptor& file, uint64_t offset, uint64_t length,
                      const std::string& what);

/// A whole regular file, wherever it is, of at most `most_gib` GiB. Throws as size_of does.
WeightBytes map_file(const std::string& path, uint64_t most_gib, const std::string& what);

}  // namespace tv
