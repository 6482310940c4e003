#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/base/env.h"
#include "runtime/base/sha256.h"
#include "runtime/store/store.h"

namespace tv {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

Bytes value_for(int seed, size_t size = 1000) {
  Bytes value(size);
  for (size_t i = 0; i < size; ++i) value[i] = static_cast<uint8_t>(seed * 31 + i * 7);
  return value;
}

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ =
        fs::temp_directory_path() / ("tv_store_" + std::to_string(::getpid()) + "_" + test->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
    fs::permissions(root_, fs::perms::owner_all);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::permissions(root_, fs::perms::owner_all, ignored);
    fs::remove_all(root_, ignored);
  }
  std::string dir() const { return root_ / "a" / "cache"; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> result;
    for (const auto& entry : fs::directory_iterator(dir() + "/spirv"))
      result.push_back(entry.path());
    return result;
  }
  fs::path root_;
};

/// Runs `f` in a child; true where it exits with status 0.
template <class F>
pid_t start_child(F&& f) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(f() ? 0 : 1);
  return pid;
}
bool succeeded(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Sha256, KnownDigests) {  // FIPS 180-4's examples
  EXPECT_EQ(sha256_hex(std::string()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(std::string("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesMakeTheSameDigest) {
  const Bytes bytes = value_for(3, 300);
  const auto whole = Sha256().update(bytes).finish();
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Sha256 sha;
    sha.update(std::span(bytes).first(cut)).update(std::span(bytes).subspan(cut));
    ASSERT_EQ(sha.finish(), whole) << cut;
  }
}

TEST_F(StoreTest, PutAndGet) {
  const Store store(dir(), "spirv", kPlenty);
  EXPECT_FALSE(store.get("k"));
  EXPECT_TRUE(store.put("k", value_for(1)));
  EXPECT_TRUE(store.put(std::string("k\0x", 3), {}));
  EXPECT_EQ(store.get("k"), value_for(1));
  EXPECT_EQ(store.get(std::string("k\0x", 3)), Bytes());
  EXPECT_TRUE(store.put("k", value_for(2)));
  EXPECT_EQ(Store(dir(), "spirv", kPlenty).get("k"), value_for(2));
  EXPECT_FALSE(Store(dir(), "timing", kPlenty).get("k"));
  const StoreStats stats = store.stats();
  EXPECT_EQ(stats.hits, 2u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.writes, 3u);
}

TEST_F(StoreTest, OnlyTheUserMayLook) {
  const mode_t before = ::umask(0);
  Store(dir(), "spirv", kPlenty).put("k", value_for(1));
  ::umask(before);
  struct stat info = {};
  for (const std::string& made : {root_.string() + "/a", dir(), dir() + "/spirv"}) {
    ASSERT_EQ(::stat(made.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u) << made;
  }
  ASSERT_EQ(::stat(files().at(0).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(StoreTest, ADirectoryThatOthersCanWriteIsNotUsed) {
  ASSERT_TRUE(Store(dir(), "spirv", kPlenty).put("k", value_for(1)));
  fs::permissions(dir() + "/spirv", fs::perms::all);
  const Store store(dir(), "spirv", kPlenty);
  EXPECT_FALSE(store.get("k"));
  EXPECT_FALSE(store.put("k", value_for(1)));
}

TEST_F(StoreTest, EveryAlteredByteIsAMissThatIsSetAside) {
  const Store store(dir(), "spirv", kPlenty);
  store.put("key", value_for(1, 40));
  const fs::path path = files().at(0);
  const auto size = static_cast<size_t>(fs::file_size(path));
  std::vector<char> good(size);
  std::ifstream(path, std::ios::binary).read(good.data(), static_cast<std::streamsize>(size));
  for (size_t i = 0; i <= size; ++i) {
    std::vector<char> bad = good;
    if (i < size) {
      bad[i] = static_cast<char>(bad[i] ^ 0x10);
    } else {
      bad.push_back(0);
    }
    std::ofstream(path, std::ios::binary)
        .write(bad.data(), static_cast<std::streamsize>(bad.size()));
    ASSERT_FALSE(store.get("key")) << i;
    ASSERT_FALSE(fs::exists(path)) << i;
    ASSERT_EQ(store.stats().bad, i + 1);
  }
  for (size_t cut = 0; cut < size; ++cut) {
    std::ofstream(path, std::ios::binary).write(good.data(), static_cast<std::streamsize>(cut));
    ASSERT_FALSE(store.get("key")) << cut;
  }
  EXPECT_TRUE(fs::exists(path.string() + ".bad"));
  EXPECT_TRUE(store.put("key", value_for(1, 40)));
  EXPECT_EQ(store.get("key"), value_for(1, 40));
}

TEST_F(StoreTest, TheWholeKeyIsCompared) {
  const Store store(dir(), "spirv", kPlenty);
  store.put("one", value_for(1));
  const fs::path one = files().at(0);
  const fs::path two = one.parent_path() / sha256_hex(std::string("two"));
  fs::copy_file(one, two);  // what a collision of digests would look like
  EXPECT_FALSE(store.get("two"));
  EXPECT_EQ(store.stats().bad, 0u);
  EXPECT_TRUE(fs::exists(two));
}

TEST_F(StoreTest, TheLeastRecentlyUsedGoesFirst) {
  const uint64_t entry_bytes = 32 + 1 + 1000 + 32;
  const Store store(dir(), "spirv", 3 * entry_bytes);
  const auto age = [&](const std::string& key, int hours) {
    fs::last_write_time(dir() + "/spirv/" + sha256_hex(key),
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(store.put(key, value_for(1)));
  age("a", 3);
  age("b", 2);
  age("c", 1);
  EXPECT_TRUE(store.get("a"));  // used again: now b is the oldest
  ASSERT_TRUE(store.put("d", value_for(1)));
  EXPECT_TRUE(store.get("a"));
  EXPECT_FALSE(store.get("b"));
  EXPECT_TRUE(store.get("c"));
  EXPECT_TRUE(store.get("d"));
  EXPECT_EQ(store.stats().evicted, 1u);
  EXPECT_FALSE(store.put("e", value_for(1, 4000)));  // larger than the whole store
  EXPECT_EQ(store.stats().failed_writes, 1u);
}

TEST_F(StoreTest, TheClockIsSetBack) {
  const uint64_t entry_bytes = 32 + 1 + 1000 + 32;
  const Store store(dir(), "spirv", 3 * entry_bytes);
  const auto in_a_year = fs::file_time_type::clock::now() + std::chrono::hours(24 * 365);
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(store.put(key, value_for(1)));
  const fs::path half = dir() + "/spirv/abc.tmp.1.0";
  std::ofstream(half) << "half";
  fs::last_write_time(half, in_a_year);
  fs::last_write_time(dir() + "/spirv/" + sha256_hex(std::string("b")), in_a_year);
  ASSERT_TRUE(store.put("d", value_for(1)));
  EXPECT_FALSE(store.get("b")) << "else it would outlive all others for a year";
  for (const char* key : {"a", "c", "d"}) EXPECT_TRUE(store.get(key)) << key;
  EXPECT_FALSE(fs::exists(half));
}

TEST_F(StoreTest, TheDirectoryIsRemovedOrReplacedMeanwhile) {
  const Store store(dir(), "spirv", kPlenty);
  ASSERT_TRUE(store.put("k", value_for(1)));
  fs::remove_all(dir());
  EXPECT_FALSE(store.get("k"));
  EXPECT_TRUE(store.put("k", value_for(2))) << "it is made again";
  EXPECT_EQ(store.get("k"), value_for(2));
  fs::rename(dir() + "/spirv", root_ / "aside");
  std::ofstream(dir() + "/spirv") << "not a directory";
  EXPECT_FALSE(store.get("k"));
  EXPECT_FALSE(store.put("k", value_for(3)));
  EXPECT_EQ(store.stats().failed_writes, 1u);
  fs::remove(dir() + "/spirv");
  fs::create_directory_symlink(root_ / "aside", dir() + "/spirv");
  EXPECT_EQ(store.get("k"), value_for(2)) << "moved by its owner, who left a link";
  EXPECT_EQ(store.stats().bad, 0u);
}

TEST_F(StoreTest, WhatACrashLeftIsRemoved) {
  Store(dir(), "spirv", kPlenty).put("k", value_for(1));
  const fs::path old_one = dir() + "/spirv/abc.tmp.1.0", new_one = dir() + "/spirv/abc.tmp.2.0";
  std::ofstream(old_one) << "half";
  std::ofstream(new_one) << "half";  // perhaps another process is writing it
  fs::last_write_time(old_one, fs::file_time_type::clock::now() - std::chrono::hours(2));
  Store(dir(), "spirv", kPlenty).put("k2", value_for(1));
  EXPECT_FALSE(fs::exists(old_one));
  EXPECT_TRUE(fs::exists(new_one));
}

TEST_F(StoreTest, WithoutADirectory) {
  const Store store("", "spirv", kPlenty);
  EXPECT_FALSE(store.put("k", value_for(1)));
  EXPECT_FALSE(store.get("k"));
}

TEST_F(StoreTest, AFileInTheWay) {
  std::ofstream(root_ / "a") << "not a directory";
  const Store store(dir(), "spirv", kPlenty);
  EXPECT_FALSE(store.put("k", value_for(1)));
  EXPECT_FALSE(store.get("k"));
  EXPECT_EQ(store.stats().failed_writes, 1u);
}

TEST_F(StoreTest, AReadOnlyDirectoryIsStillRead) {
  ASSERT_TRUE(Store(dir(), "spirv", kPlenty).put("k", value_for(1)));
  fs::permissions(dir() + "/spirv", fs::perms::owner_read | fs::perms::owner_exec);
  const pid_t child = start_child([&] {
    // root may write anywhere: become nobody, who owns the directory then.
    if (::geteuid() == 0) {
      for (const std::string& path :
           {root_.string(), root_.string() + "/a", dir(), dir() + "/spirv",
            dir() + "/spirv/" + sha256_hex(std::string("k"))})
        if (::chown(path.c_str(), 65534, 65534) != 0) return false;
      if (::setgid(65534) != 0 || ::setuid(65534) != 0) return false;
    }
    const Store store(dir(), "spirv", kPlenty);
    return store.get("k") == value_for(1) && !store.put("k2", value_for(2)) &&
           store.stats().failed_writes == 1;
  });
  EXPECT_TRUE(succeeded(child));
  fs::permissions(dir() + "/spirv", fs::perms::owner_all);
}

TEST_F(StoreTest, AFullDisk) {
  // The limit on a file's size fails a write as a full disk does; its signal must not end us.
  const pid_t child = start_child([&] {
    const Store store(dir(), "spirv", kPlenty);
    if (!store.put("small", value_for(1))) return false;
    std::signal(SIGXFSZ, SIG_IGN);  // of the log too, where it goes to a file
    const rlimit limit = {4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    if (store.put("large", value_for(2, 100000))) return false;
    return store.get("small") == value_for(1) && !store.get("large") &&
           store.stats().failed_writes == 1;
  });
  EXPECT_TRUE(succeeded(child));
  EXPECT_EQ(files().size(), 1u);  // no temporary file is left
}

TEST_F(StoreTest, ProcessesShareIt) {
  constexpr int kProcesses = 6, kRounds = 60, kKeys = 5;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(start_child([&, p] {
      const Store store(dir(), "spirv", 5000);  // small: they also evict each other's entries
      for (int i = 0; i < kRounds; ++i) {
        const int which = (p + i) % kKeys;
        const std::string key = "key" + std::to_string(which);
        if (!store.put(key, value_for(which, 1000 + which))) return false;
        const auto got = store.get("key" + std::to_string(i % kKeys));
        if (got && *got != value_for(i % kKeys, 1000 + i % kKeys)) return false;
      }
      return store.stats().bad == 0;
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(succeeded(child));
  for (const fs::path& path : files()) EXPECT_EQ(path.filename().string().size(), 64u) << path;
}

TEST_F(StoreTest, KilledInTheMiddle) {
  for (int round = 0; round < 20; ++round) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = start_child([&] {
      const Store store(dir(), "spirv", kPlenty);
      for (int i = 0;; ++i) {
        store.put("key", value_for(i % 3, 200000));
        if (i == 0 && ::write(ready[1], "x", 1) != 1) return false;
      }
    });
    char byte;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    std::this_thread::sleep_for(std::chrono::microseconds(137 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ::close(ready[0]);
    ::close(ready[1]);
    const Store store(dir(), "spirv", kPlenty);
    const auto got = store.get("key");
    ASSERT_TRUE(got && (*got == value_for(0, 200000) || *got == value_for(1, 200000) ||
                        *got == value_for(2, 200000)));
    ASSERT_EQ(store.stats().bad, 0u);
  }
}

TEST_F(StoreTest, ThreadsShareOne) {
  const Store store(dir(), "spirv", kPlenty);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 40; ++i) {
        store.put("k" + std::to_string(i % 4), value_for(i % 4));
        if (store.get("k" + std::to_string(i % 4)) != value_for(i % 4)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CacheDir, FollowsTheEnvironment) {
  const pid_t child = start_child([] {
    ::setenv("XDG_CACHE_HOME", "/x/y", 1);
    ::setenv("HOME", "/h", 1);
    bool good = default_cache_dir() == "/x/y/torch_vulkan";
    ::setenv("XDG_CACHE_HOME", "relative", 1);  // the standard says: ignore
    good = good && default_cache_dir() == "/h/.cache/torch_vulkan";
    ::unsetenv("XDG_CACHE_HOME");
    good = good && default_cache_dir() == "/h/.cache/torch_vulkan";
    ::unsetenv("HOME");
    return good && default_cache_dir().empty();
  });
  EXPECT_TRUE(succeeded(child));
}

}  // namespace
}  // namespace tv
