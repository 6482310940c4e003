#pragma once
// Memory that a dispatch of the interpreter may touch: every access is checked.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/cpp/kit/interpreter/program.h"

namespace tv::interpreter {

/// A range of device memory that is there for a dispatch, as an operand of it.
struct Range {
  uint64_t address = 0, bytes = 0;
  uint8_t* data = nullptr;
  bool read = true, write = false;
  std::string name;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}
  /// Where these bytes lie. Throws Fault where no range has all of them, or not for this.
  uint8_t* at(uint64_t address, uint64_t bytes, bool write) const;

 private:
  [[noreturn]] void refuse(uint64_t address, uint64_t bytes, bool write) const;
  std::vector<Range> ranges_;
};

/// Memory that the invocations of a workgroup share. Accesses of two invocations to the same word,
/// one of which writes, are a race unless a barrier of both lies between them.
class SharedMemory {
 public:
  explicit SharedMemory(const Program& program);

  /// Who accesses: `lane` of a subgroup, or all of its invocations together.
  struct Who {
    static constexpr uint32_t kAll = UINT32_MAX;
    uint32_t subgroup = 0, lane = 0;
  };
  uint8_t* at(uint64_t address, uint64_t bytes, bool write, const Who& who);
  void barrier();  ///< of the workgroup
  void barrier(uint32_t subgroup);

 private:
  struct Access {
    uint32_t workgroup = 0, epoch = 0;  ///< counts of barriers when it happened; 0: never
    uint32_t subgroup = 0, lane = 0;
    bool several = false;  ///< subgroups, of a read
  };
  bool meets(const Access& before, const Who& now) const;
  void note(Access& access, const Who& who);

  const Program& program_;
  std::vector<uint8_t> bytes_;
  std::vector<Access> reads_, writes_;  ///< of each word of 4 bytes
  uint32_t workgroup_ = 1;
  std::vector<uint32_t> subgroups_;  ///< barriers of each
};

}  // namespace tv::interpreter
