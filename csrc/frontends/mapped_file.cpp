#include "csrc/frontends/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"

namespace tv {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorKind::kUser, message); }

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

uint64_t size_of(const FileDescriptor& file, const std::string& what, bool one_name) {
  struct stat status = {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    fail(what + " is not a regular file");
  }
  if (one_name && status.st_nlink > 1) {
    fail(what + " has other names (hard links), which may be files from elsewhere");
  }
  return static_cast<uint64_t>(status.st_size);
}

WeightBytes map_range(const FileDescriptor& file, uint64_t offset, uint64_t length,
                      const std::string& what) {
  if (length == 0) return {};
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t start = offset / page * page, size = offset - start + length;
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), static_cast<off_t>(start));
  if (memory == MAP_FAILED) fail(what + ": " + strerror(errno));
  std::shared_ptr<const void> owner(memory, [size](void* m) { munmap(m, size); });
  return {{static_cast<const uint8_t*>(memory) + (offset - start), length}, owner};
}

WeightBytes map_file(const std::string& path, uint64_t most_gib, const std::string& what) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail(what + ": " + strerror(errno));
  const uint64_t size = size_of(file, what, false);
  if (size >> 30 >= most_gib) fail(what + " is larger than " + std::to_string(most_gib) + " GiB");
  return map_range(file, 0, size, what);
}

}  // namespace tv
