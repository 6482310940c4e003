#include "runtime/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "runtime/base/error.h"

namespace tv {

namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { close(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  bool close() {
    const int fd = fd_;
    fd_ = -1;
    return fd < 0 || ::close(fd) == 0 || errno == EINTR;  // Linux has closed it then, too
  }

 private:
  int fd_;
};

/// Past RLIMIT_FSIZE the kernel sends SIGXFSZ, which ends the process: a cache that cannot be
/// written must not. Blocked for this thread, taken from the queue, and put back as it was.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~NoFileSizeSignal() {
    if (sigismember(&before_, SIGXFSZ)) return;
    const timespec now = {0, 0};
    while (sigtimedwait(&set_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t set_, before_;
};

bool write_all(int fd, std::span<const uint8_t> bytes) {
  constexpr size_t kAtOnce = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

std::string reason() { return std::strerror(errno ? errno : EIO); }

constexpr const char* kTemporary = ".tmp.";
using Pieces = std::span<const std::span<const uint8_t>>;

/// A name beside `path` that no other thread or process uses. It is no longer than names may be.
std::string temporary_beside(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  const std::string suffix =
      kTemporary + std::to_string(::getpid()) + "." + std::to_string(counter.fetch_add(1));
  const size_t name = path.rfind('/') + 1;  // npos + 1 is 0
  return path.substr(0, name) + path.substr(name, NAME_MAX - suffix.size()) + suffix;
}

/// Writes the pieces beside `path` and renames. A file that is new gets `mode` less the umask; one
/// that is replaced keeps its own with `keeps_mode`.
std::string write_and_rename(const std::string& path, Pieces pieces, mode_t mode, bool keeps_mode) {
  const std::string temporary = temporary_beside(path);
  const NoFileSizeSignal guard;
  struct stat before = {};
  const bool replaces = keeps_mode && ::stat(path.c_str(), &before) == 0;
  errno = 0;
  ::unlink(temporary.c_str());  // left by a process that died with our number
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (fd.get() < 0) return reason();
  errno = 0;
  bool good = !replaces || ::fchmod(fd.get(), before.st_mode & 0777) == 0;
  for (const std::span<const uint8_t> piece : pieces) good = good && write_all(fd.get(), piece);
  good = good && ::fsync(fd.get()) == 0;
  good = good && fd.close();
  const auto renamed = [&] { return ::rename(temporary.c_str(), path.c_str()) == 0; };
  while (good && !renamed()) good = errno == EINTR;
  if (good) return "";
  const std::string why = reason();
  ::unlink(temporary.c_str());
  return why;
}

/// Writes into a device, a FIFO, or what a descriptor of this process stands for.
std::string write_through(int fd, Pieces pieces) {
  const Fd owned(fd);
  if (fd < 0) return reason();
  const NoFileSizeSignal guard;
  std::fflush(nullptr);  // what was printed before comes before
  errno = 0;
  for (const std::span<const uint8_t> piece : pieces) {
    if (!write_all(fd, piece)) return reason();
  }
  return "";
}

/// The descriptor that a path such as /dev/fd/3 or /proc/self/fd/3 names; -1 for any other.
int descriptor_of(const std::filesystem::path& path) {
  std::error_code error;
  const std::string own = std::filesystem::canonical("/proc/self/fd", error).string();
  if (error || std::filesystem::canonical(path.parent_path(), error) != own || error) return -1;
  const std::string name = path.filename().string();
  int number = -1;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), number);
  return fault == std::errc() && end == name.data() + name.size() ? number : -1;
}

}  // namespace

std::vector<uint8_t> read_file(const std::string& path, uint64_t max_bytes, FileUse use) {
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorKind::kUser, "[file] " + path + " cannot be read: " + why);
  };
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) fail(reason());
  // Where the lock cannot be had the file is being removed, which does no harm to open descriptors.
  if (use == FileUse::kShared) static_cast<void>(::flock(fd.get(), LOCK_SH | LOCK_NB));
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) fail(reason());
  if (S_ISDIR(info.st_mode)) fail("it is a directory, want a file");
  if (!S_ISREG(info.st_mode)) fail("it is not a regular file");
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) > max_bytes)
    fail("it has " + std::to_string(info.st_size) + " bytes, at most " + std::to_string(max_bytes) +
         " are taken");
  std::vector<uint8_t> bytes(static_cast<size_t>(info.st_size));
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got = ::read(fd.get(), bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(reason());
    if (got == 0) break;  // another process cut the file: the caller's checks see what is missing
    at += static_cast<size_t>(got);
  }
  bytes.resize(at);
  return bytes;
}

bool remove_unless_used(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (fd.get() >= 0 && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return false;
  return ::unlink(path.c_str()) == 0;
}

std::string write_file_atomically(const std::string& path, Pieces pieces) {
  return write_and_rename(path, pieces, 0600, /*keeps_mode=*/false);
}

FileTarget followed(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel's
  std::filesystem::path at = path;
  std::error_code error;
  for (int links = 0; links < kMostLinks; ++links) {
    if (const int number = descriptor_of(at); number >= 0) return {at.string(), number};
    const std::filesystem::path to = std::filesystem::read_symlink(at, error);
    if (error) return {at.string()};
    at = at.parent_path() / to;
  }
  return {at.string()};
}

std::string write_file(const std::string& path, Pieces pieces) {
  const FileTarget target = followed(path);
  if (target.descriptor >= 0) return write_through(::dup(target.descriptor), pieces);
  struct stat info = {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return std::strerror(EISDIR);
  if (exists && !S_ISREG(info.st_mode))
    return write_through(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY), pieces);
  if (::lstat(target.path.c_str(), &info) == 0 && S_ISLNK(info.st_mode))
    return std::strerror(ELOOP);
  return write_and_rename(target.path, pieces, 0666, /*keeps_mode=*/exists);
}

bool make_private_directories(const std::string& dir) {
  std::error_code error;
  if (std::filesystem::is_directory(dir, error)) return true;
  const std::string above = std::filesystem::path(dir).parent_path();
  if (!above.empty() && above != dir && !make_private_directories(above)) return false;
  return ::mkdir(dir.c_str(), 0700) == 0 || errno == EEXIST;
}

bool is_temporary_name(const std::string& name) {
  return name.find(kTemporary) != std::string::npos;
}

}  // namespace tv
