#include "csrc/frontends/onnx/external_data.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "runtime/base/error.h"

namespace tv::onnx {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorKind::kUser, message); }

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::vector<std::string> components(const std::string& location, const std::string& what) {
  if (location.empty()) fail(what + ": external data without a location");
  if (location.find('\0') != std::string::npos) fail(what + ": a location with a zero byte");
  if (location.front() == '/') fail(what + ": external data at an absolute path: " + location);
  std::vector<std::string> parts;
  for (size_t at = 0; at <= location.size();) {
    const size_t end = std::min(location.find('/', at), location.size());
    const std::string part = location.substr(at, end - at);
    if (part == "..") fail(what + ": external data outside of the model's directory: " + location);
    if (!part.empty() && part != ".") parts.push_back(part);
    at = end + 1;
  }
  if (parts.empty()) fail(what + ": external data without a file name: " + location);
  return parts;
}

Fd open_below(const std::string& directory, const std::string& location, const std::string& what) {
  const auto parts = components(location, what);
  Fd at(open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (size_t i = 0; i < parts.size() && at.get() >= 0; ++i) {
    const int kind = i + 1 < parts.size() ? O_DIRECTORY : O_NONBLOCK;
    at = Fd(openat(at.get(), parts[i].c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | kind));
  }
  if (at.get() < 0) {
    const bool link = errno == ELOOP || errno == ENOTDIR;
    fail(what + ": external data " + location +
         (link ? " is, or lies behind, a symbolic link" : ": " + std::string(strerror(errno))));
  }
  return at;
}

WeightBytes map_range(const Fd& file, uint64_t offset, uint64_t length, const std::string& what) {
  if (length == 0) return {};
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t start = offset / page * page, size = offset - start + length;
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), static_cast<off_t>(start));
  if (memory == MAP_FAILED) fail(what + ": " + strerror(errno));
  std::shared_ptr<const void> owner(memory, [size](void* m) { munmap(m, size); });
  return {{static_cast<const uint8_t*>(memory) + (offset - start), length}, owner};
}

uint64_t size_of(const Fd& file, const std::string& what, bool one_name) {
  struct stat status = {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    fail(what + " is not a regular file");
  }
  if (one_name && status.st_nlink > 1) {
    fail(what + " has other names (hard links), which may be files from elsewhere");
  }
  return static_cast<uint64_t>(status.st_size);
}

}  // namespace

WeightBytes map_external(const std::string& directory, const std::string& location, int64_t offset,
                         int64_t length, const std::string& what) {
  const Fd file = open_below(directory, location, what);
  const uint64_t size = size_of(file, what + ": external data " + location, true);
  const auto begin = static_cast<uint64_t>(offset);
  if (offset < 0 || begin > size || length < -1 ||
      (length >= 0 && static_cast<uint64_t>(length) > size - begin)) {
    fail(what + ": external data " + location + " has " + std::to_string(size) +
         " bytes; want offset " + std::to_string(offset) + ", length " + std::to_string(length));
  }
  const uint64_t count = length < 0 ? size - begin : static_cast<uint64_t>(length);
  return map_range(file, begin, count, what + ": external data " + location);
}

WeightBytes map_file(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail("[onnx] " + path + ": " + strerror(errno));
  const uint64_t size = size_of(file, "[onnx] " + path, false);
  if (size >= uint64_t{1} << 31) fail("[onnx] " + path + " is larger than 2 GiB");
  return map_range(file, 0, size, "[onnx] " + path);
}

}  // namespace tv::onnx
