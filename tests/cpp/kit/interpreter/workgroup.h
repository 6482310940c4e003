#pragma once
// A workgroup of the interpreter and its invocations.

#include <cstring>
#include <vector>

#include "tests/cpp/kit/interpreter/arithmetic.h"
#include "tests/cpp/kit/interpreter/interpreter.h"

namespace tv::interpreter {

struct Invocation {
  enum State : uint8_t { kRuns, kWaits, kDone };
  struct Call {
    uint32_t back, result, words;  ///< instruction behind the call; registers of its result
    bool operator==(const Call&) const = default;
  };
  State state = kRuns;
  uint32_t at = 0;    ///< instruction; of one that waits: what it waits for
  uint32_t from = 0;  ///< the block that it came from
  uint32_t subgroup = 0, lane = 0;
  std::vector<Call> calls;
  std::vector<uint64_t> registers;
};

class Workgroup {
 public:
  Workgroup(const Program& program, const Launch& launch, const DeviceMemory& memory,
            const std::array<uint32_t, 3>& id);
  void run();

 private:
  friend class SubgroupOperation;
  void set_builtins(Invocation& invocation, uint32_t index, const Launch& launch,
                    const std::array<uint32_t, 3>& id) const;
  void run(Invocation& invocation);
  void step(Invocation& invocation);
  /// What a function of two numbers gives, which this invocation calls.
  uint64_t call(Invocation& v, uint32_t function, uint64_t x, uint64_t y);
  /// The instruction, where it is one of control; false where it is not.
  bool control(Invocation& v, const Instruction& i);
  void call(Invocation& v, const Instruction& i);
  void leave(Invocation& v, const Instruction& i);
  void enter_block(Invocation& v, uint32_t block);
  bool access(Invocation& v, const Instruction& i);
  void atomic(Invocation& v, const Instruction& i);
  uint64_t chain(const Invocation& v, const Instruction& i) const;
  uint8_t* bytes_at(const Type& pointer, uint64_t address, uint64_t bytes, bool write,
                    const SharedMemory::Who& who);
  /// What all invocations of a subgroup wait for; null where all are done.
  const Instruction* meeting(std::span<Invocation> subgroup) const;
  /// Lets a subgroup go as far as it gets: true where it is done, or stands at a workgroup's
  /// barrier.
  void advance(std::span<Invocation> subgroup);
  bool is_workgroup_barrier(const Invocation& v) const;
  [[noreturn]] void fail(const Invocation& v, const std::string& what) const;

  const Program& program_;
  const DeviceMemory& memory_;
  std::span<const uint8_t> push_;
  std::array<uint32_t, 3> id_;
  SharedMemory shared_;
  std::vector<Invocation> invocations_;
};

/// What a subgroup does together: one instruction, of all of its invocations.
class SubgroupOperation {
 public:
  SubgroupOperation(Workgroup& group, std::span<Invocation> subgroup)
      : group_(group), v_(subgroup) {}
  void run(const Instruction& instruction);

 private:
  void vote(const Instruction& i);
  void move(const Instruction& i);
  void reduce(const Instruction& i);
  void load(const Instruction& i);
  void store(const Instruction& i);
  void multiply(const Instruction& i);
  void reduce_rows(const Instruction& i);
  void convert(const Instruction& i);

  struct Matrix {
    double number[kMostSteps][kMostSteps];
  };
  Matrix gather(const Type& type, uint32_t at) const;
  void scatter(const Matrix& matrix, const Type& type, uint32_t at);
  /// f(row, column) is where an element of memory begins; calls it for each line of 16 numbers.
  template <class F>
  void each_line(const Instruction& i, const Type& type, bool write, uint64_t stride, bool columns,
                 const F& f);
  /// The value of a register that all have in common.
  uint64_t same(uint32_t at, const char* what) const;

  Workgroup& group_;
  std::span<Invocation> v_;
};

}  // namespace tv::interpreter
