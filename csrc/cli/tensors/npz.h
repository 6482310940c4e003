#pragma once
// NumPy's .npz: zip archives of .npy files, as numpy.savez and numpy.savez_compressed write them.

#include <cstdint>
#include <string>
#include <vector>

namespace tv::cli {

/// An archive in memory.
class Npz {
 public:
  /// Throws Error(kUser) naming the file where it is no archive, or one of more than 4 GiB.
  explicit Npz(const std::string& path);

  /// Of its arrays, in the order of the file.
  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return find(name) != nullptr; }

  /// The bytes of the array's .npy file. Throws Error(kUser) where there is none, and where it is
  /// damaged.
  std::vector<uint8_t> array(const std::string& name) const;

 private:
  struct Member {
    std::string name;  ///< without ".npy"
    uint16_t method = 0;
    uint32_t checksum = 0, packed_bytes = 0, bytes = 0, offset = 0;
  };
  const Member* find(const std::string& name) const;
  [[noreturn]] void fail(const std::string& why) const;
  uint32_t number(size_t at, size_t bytes) const;
  size_t directory_end() const;
  void read_directory();

  std::string path_;
  std::vector<uint8_t> file_;
  std::vector<Member> members_;
};

}  // namespace tv::cli
