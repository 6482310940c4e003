// Files that a user names: what they lead to is written, and stays what it is.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "csrc/tuner/journal.h"
#include "csrc/tuner/timing_cache.h"
#include "runtime/base/file.h"

namespace tv {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ =
        fs::temp_directory_path() / ("tv_file_" + std::to_string(::getpid()) + "_" +
                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string at(const std::string& name) const { return (dir_ / name).string(); }
  static std::string write(const std::string& path, const std::string& text) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
    const std::span<const uint8_t> halves[] = {
        {bytes, text.size() / 2}, {bytes + text.size() / 2, text.size() - text.size() / 2}};
    return write_file(path, halves);
  }
  static std::string text(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static mode_t mode(const std::string& path) {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
  }
  size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(dir_), {}));
  }
  fs::path dir_;
};

TEST_F(FileTest, ModesAreAsTheUmaskSays) {
  for (const mode_t mask : {022, 077, 0, 027}) {
    const mode_t before = ::umask(mask);
    const std::string path = at("mask" + std::to_string(mask));
    EXPECT_EQ(write(path, "text"), "");
    ::umask(before);
    EXPECT_EQ(mode(path), 0666 & ~mask);
  }
  const std::string secret = at("secret");
  std::ofstream(secret) << "before";
  fs::permissions(secret, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(write(secret, "after"), "");
  EXPECT_EQ(text(secret), "after");
  EXPECT_EQ(mode(secret), 0600u) << "what is replaced keeps its mode";
}

TEST_F(FileTest, LinksAreFollowedAndStay) {
  fs::create_directories(dir_ / "there" / "deep");
  std::ofstream(at("there/target")) << "before";
  fs::create_symlink("there/target", at("relative"));
  fs::create_symlink(at("there/target"), at("absolute"));
  fs::create_symlink("relative", at("twice"));
  fs::create_symlink("../../relative", at("there/deep/up"));
  for (const char* name : {"relative", "absolute", "twice", "there/deep/up"}) {
    EXPECT_EQ(write(at(name), name), "");
    EXPECT_EQ(text(at("there/target")), name);
    EXPECT_TRUE(fs::is_symlink(at(name))) << name;
    EXPECT_FALSE(fs::is_symlink(at("there/target")));
  }
  fs::create_symlink("there/missing", at("dangling"));
  EXPECT_EQ(write(at("dangling"), "made"), "");
  EXPECT_EQ(text(at("there/missing")), "made");
  EXPECT_TRUE(fs::is_symlink(at("dangling")));
  fs::create_symlink("loop", at("loop"));
  EXPECT_NE(write(at("loop"), "x"), "");
  EXPECT_TRUE(fs::is_symlink(at("loop")));
  fs::create_symlink("nowhere/missing", at("lost"));
  EXPECT_NE(write(at("lost"), "x"), "");
  EXPECT_NE(write(at("there"), "x"), "") << "a directory";
  EXPECT_TRUE(fs::is_directory(at("there")));
}

TEST_F(FileTest, DevicesAreWrittenInto) {
  const std::string null = at("null"), full = at("full");
  const auto device = [](const std::string& path, unsigned minor) {
    return ::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, minor)) == 0 &&
           ::close(::open(path.c_str(), O_WRONLY)) == 0;
  };
  if (!device(null, 3) || !device(full, 7)) GTEST_SKIP() << "devices cannot be made here";
  EXPECT_EQ(write(null, "text"), "");
  EXPECT_NE(write(full, "text").find("No space"), std::string::npos);
  EXPECT_TRUE(fs::is_character_file(null) && fs::is_character_file(full));
  {
    TimingCache cache(null);
    EXPECT_EQ(cache.journal_path(), "");
    cache.put({"device", "problem", "tactic", "digest"}, {.us = 1});
  }
  EXPECT_TRUE(fs::is_character_file(null));
  EXPECT_EQ(count(), 2u) << "neither a lock nor a journal beside it";
}

TEST_F(FileTest, FifosAreWrittenInto) {
  const std::string path = at("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = text(path); });
  const std::string long_text(200000, 'x');
  EXPECT_EQ(write(path, long_text), "");
  reader.join();
  EXPECT_EQ(got, long_text);
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(FileTest, DescriptorsAreWrittenInto) {
  std::ofstream(at("out")) << "before ";
  const int fd = ::open(at("out").c_str(), O_WRONLY | O_APPEND);
  ASSERT_GE(fd, 0);
  for (const std::string dir : {"/dev/fd/", "/proc/self/fd/"}) {
    EXPECT_EQ(write(dir + std::to_string(fd), dir), "");
  }
  EXPECT_EQ(::write(fd, "after", 5), 5);
  ::close(fd);
  EXPECT_EQ(text(at("out")), "before /dev/fd//proc/self/fd/after");
  EXPECT_NE(write("/proc/self/fd/987654", "x"), "");
}

TEST_F(FileTest, NamesMayBeAsLongAsTheyCan) {
  const std::string longest(255, 'n');
  EXPECT_EQ(write(at(longest), "text"), "");
  EXPECT_EQ(text(at(longest)), "text");
  EXPECT_EQ(write(at(longest), "again"), "");
  EXPECT_NE(write(at(longest + "n"), "text"), "");
  EXPECT_EQ(count(), 1u);
}

TEST_F(FileTest, TimingsAreWrittenWhereALinkLeads) {
  fs::create_directories(dir_ / "there");
  fs::create_symlink("there/timings.json", at("link"));
  const TimingKey key{"device", "problem", "tactic", "digest"};
  const std::string broken = R"({"devices": { damaged)";
  for (const bool damaged : {false, true}) {
    if (damaged) std::ofstream(at("there/timings.json")) << broken;
    {
      TimingCache(at("link")).put(key, {.us = 1});
    }
    EXPECT_TRUE(fs::is_symlink(at("link")));
    EXPECT_TRUE(TimingCache(at("there/timings.json")).find(key));
  }
  EXPECT_EQ(text(at("there/timings.json.bad")), broken);
}

}  // namespace
}  // namespace tv
