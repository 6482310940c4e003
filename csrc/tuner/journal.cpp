#include "csrc/tuner/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace tv {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSuffix = ".timing.";
constexpr uint64_t kMaxBytes = 1 << 20;

std::string to_text(const TimingKey& key) {
  return Json(Json::Object{{"device", key.device},
                           {"problem", key.problem},
                           {"tactic", key.tactic},
                           {"kernels", key.kernels}})
      .dump();
}

std::optional<TimingKey> from_text(const std::string& text) {
  try {
    const Json json = Json::parse(text, "journal");
    const auto* object = json.get<Json::Object>();
    if (!object) return std::nullopt;
    TimingKey key;
    for (const auto& [name, into] : {std::pair{"device", &key.device},
                                     {"problem", &key.problem},
                                     {"tactic", &key.tactic},
                                     {"kernels", &key.kernels}}) {
      const auto found = object->find(name);
      const auto* value = found == object->end() ? nullptr : found->second.get<std::string>();
      if (!value) return std::nullopt;
      *into = *value;
    }
    return key;
  } catch (const Error&) {  // cut off while it was written: nothing had run yet
    return std::nullopt;
  }
}

/// True where `fd` is the file at `path`, not one that was removed since.
bool is_at(int fd, const std::string& path) {
  struct stat here = {}, there = {};
  return ::fstat(fd, &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
         here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

}  // namespace

Journal::Journal(const std::string& cache_path) {
  if (cache_path.empty()) return;
  static std::atomic<uint64_t> counter{0};
  const std::string stem = cache_path + kSuffix + std::to_string(::getpid()) + ".";
  for (int tries = 0; fd_ < 0 && tries < 8; ++tries) {
    path_ = stem + std::to_string(counter++);
    const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return;  // a read-only directory: nothing can be remembered
    // Another process may take an empty file for an abandoned one before it is locked.
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, path_)) {
      fd_ = fd;
    } else {
      ::close(fd);
    }
  }
}

Journal::~Journal() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());
  ::close(fd_);
}

void Journal::write(const std::optional<TimingKey>& key) {
  if (fd_ < 0) return;
  const std::string text = key ? to_text(*key) : "";
  // What cannot be written is not remembered; the disk is full or gone.
  if (::ftruncate(fd_, 0) != 0) return;
  if (!text.empty() && ::pwrite(fd_, text.data(), text.size(), 0) > 0) ::fdatasync(fd_);
}

std::vector<TimingKey> abandoned(const std::string& cache_path) {
  std::vector<TimingKey> keys;
  if (cache_path.empty()) return keys;
  const fs::path path = cache_path;
  const std::string prefix = path.filename().string() + kSuffix;
  const fs::path dir = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with(prefix)) continue;
    const std::string file = it->path().string();
    const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, file)) {
      try {
        const std::vector<uint8_t> bytes = read_file(file, kMaxBytes);
        if (auto key = from_text({bytes.begin(), bytes.end()})) keys.push_back(std::move(*key));
      } catch (const Error&) {  // not a file that a journal wrote
      }
      ::unlink(file.c_str());
    }
    ::close(fd);
  }
  return keys;
}

}  // namespace tv
