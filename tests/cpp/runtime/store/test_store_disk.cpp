// The store on file systems of all kinds: full, of somebody else.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/store/store.h"
#include "runtime/store/store_files.h"

namespace tv {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t kRoom = uint64_t{1} << 30;
constexpr int kCannotMount = 77;

class StoreDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("tv_store_disk_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    fs::permissions(root_, fs::perms::owner_all);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  fs::path root_;
};

bool write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY);
  const bool done = fd >= 0 && ::write(fd, text.data(), text.size()) >= 0;
  ::close(fd);
  return done;
}

/// Mounts a file system of `bytes` for this process alone; anybody may, where the system lets users
/// have namespaces.
bool mount_small(const fs::path& where, int bytes) {
  const auto same = [](uint32_t id) {
    return std::to_string(id) + " " + std::to_string(id) + " 1";
  };
  const std::string uid_map = same(::getuid()), gid_map = same(::getgid());
  if (::getuid() == 0) {
    if (::unshare(CLONE_NEWNS) != 0) return false;
  } else if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
             !write_text("/proc/self/uid_map", uid_map) ||
             !write_text("/proc/self/setgroups", "deny") ||
             !write_text("/proc/self/gid_map", gid_map)) {
    return false;
  }
  // What is mounted here is nobody else's.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  const std::string options = "mode=0700,size=" + std::to_string(bytes);
  return ::mount("tmpfs", where.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

/// On a disk that has no room for all of them, entries are there whole or not at all.
bool full_disk_is_right(const fs::path& dir) {
  const Store store(dir / "cache", "spirv", kRoom);
  constexpr int kEntries = 12;
  const auto value_of = [](int i) { return Bytes(10000, static_cast<uint8_t>(i)); };
  int written = 0;
  for (int i = 0; i < kEntries; ++i) written += store.put("key" + std::to_string(i), value_of(i));
  if (written == 0 || written == kEntries) return false;  // it was to become full half way
  if (store.stats().failed_writes != static_cast<uint64_t>(kEntries - written)) return false;
  int found = 0;
  for (int i = 0; i < kEntries; ++i) {
    const auto got = store.get("key" + std::to_string(i));
    if (got && *got != value_of(i)) return false;
    found += got.has_value();
  }
  for (const StoreFile& file : list_store(dir / "cache", "spirv")) {
    if (file.temporary || file.bad) return false;
  }
  if (found != written || store.stats().bad != 0) return false;
  fs::remove_all(dir / "cache" / "spirv");  // room again
  fs::create_directory(dir / "cache" / "spirv");
  fs::permissions(dir / "cache" / "spirv", fs::perms::owner_all);
  return store.put("later", value_of(1)) && store.get("later") == value_of(1);
}

TEST_F(StoreDisk, AFullFileSystemIsAMiss) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!mount_small(root_, 65536)) ::_exit(kCannotMount);
    ::_exit(full_disk_is_right(root_) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "no file system may be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(StoreDisk, ADirectoryOfSomebodyElseIsRefusedWithTheReason) {
  fs::path theirs = "/usr";  // root's
  if (::geteuid() == 0) {
    theirs = root_ / "theirs";
    fs::create_directory(theirs);
    fs::permissions(theirs, fs::perms::owner_all);
    if (::chown(theirs.c_str(), 65534, 65534) != 0) GTEST_SKIP() << "owners cannot be changed";
  }
  const Store store(theirs, "spirv", kRoom);
  EXPECT_NE(store.refusal().find(theirs.string() + " is not used: it belongs to user "),
            std::string::npos)
      << store.refusal();
  EXPECT_FALSE(store.put("key", Bytes(10)));
  EXPECT_FALSE(store.get("key"));
  // As the system's it is believed where it is root's, and where it is one's own.
  EXPECT_EQ(Store(theirs, "spirv", kRoom, /*is_system=*/true).refusal().empty(), ::geteuid() != 0);
}

}  // namespace
}  // namespace tv
