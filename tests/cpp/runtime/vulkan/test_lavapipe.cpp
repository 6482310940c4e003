// Which lavapipe is told to use 512-bit vectors.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/vulkan/lavapipe.h"

namespace tv {
namespace {

namespace fs = std::filesystem;

class Lavapipe : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("tv_manifests_" + std::to_string(getpid()));
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << text;
  }
  void write_version(const std::string& name, const std::string& version) {
    write(name, R"({"ICD": {"api_version": ")" + version +
                    R"(", "library_path": "libvulkan_lvp.so"}, "file_format_version": "1.0.0"})");
  }
  bool takes() const { return lavapipe_takes_512_bits(driver_manifests(directory_.c_str())); }

  fs::path directory_;
};

TEST_F(Lavapipe, ByTheVersionOfItsManifest) {
  EXPECT_FALSE(takes());  // no manifest
  for (const char* right :
       {"1.1.230", "1.3.230", "1.4.305"}) {  // Mesa 22.3 as Debian writes it, 25.0
    write_version("lvp_icd.x86_64.json", right);
    EXPECT_TRUE(takes()) << right;
  }
  for (const char* wrong : {"1.4.318", "1.5.1", "2.0.0", "", "words"}) {  // 25.2 and what may come
    write_version("lvp_icd.x86_64.json", wrong);
    EXPECT_FALSE(takes()) << wrong;
  }
}

TEST_F(Lavapipe, EachManifestCountsAndOtherDriversDoNot) {
  write_version("lvp_icd.x86_64.json", "1.3.230");
  write_version("radeon_icd.x86_64.json", "1.4.318");
  EXPECT_TRUE(takes());
  write_version("lvp_icd.newer.json", "1.4.318");
  EXPECT_FALSE(takes());
}

TEST_F(Lavapipe, ManifestsThatAreNone) {
  for (const char* text : {"", "[]", "{", "{\"ICD\": 3}", "{\"ICD\": {\"api_version\": 4}}"}) {
    write("lvp_icd.x86_64.json", text);
    EXPECT_FALSE(takes()) << text;
  }
}

TEST_F(Lavapipe, FilesOfAList) {
  write_version("lvp_icd.x86_64.json", "1.3.230");
  const std::string file = (directory_ / "lvp_icd.x86_64.json").string();
  const std::string list = "/nowhere/nvidia_icd.json:" + file;
  EXPECT_EQ(driver_manifests(list.c_str()).size(), 2u);
  EXPECT_TRUE(lavapipe_takes_512_bits(driver_manifests(list.c_str())));
}

}  // namespace
}  // namespace tv
