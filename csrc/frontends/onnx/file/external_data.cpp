#include "csrc/frontends/onnx/file/external_data.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "csrc/frontends/mapped_file.h"
#include "csrc/frontends/onnx/file/fail.h"
#include "runtime/base/error.h"

namespace tv::onnx {
namespace {

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

FileDescriptor open_below(const std::string& directory, const std::string& location,
                          const std::string& what) {
  const auto parts = components(location, what);
  FileDescriptor at(
      open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (size_t i = 0; i < parts.size() && at.get() >= 0; ++i) {
    const int kind = i + 1 < parts.size() ? O_DIRECTORY : O_NONBLOCK;
    at = FileDescriptor(
        openat(at.get(), parts[i].c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | kind));
  }
  if (at.get() < 0) {
    const bool link = errno == ELOOP || errno == ENOTDIR;
    fail(what + ": external data " + location +
         (link ? " is, or lies behind, a symbolic link" : ": " + std::string(strerror(errno))));
  }
  return at;
}

}  // namespace

WeightBytes map_external(const std::string& directory, const std::string& location, int64_t offset,
                         int64_t length, const std::string& what) {
  const FileDescriptor file = open_below(directory, location, what);
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

}  // namespace tv::onnx
