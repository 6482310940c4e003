#pragma once
// The functions and variables that runtime/spirv/guard.h adds to a module.

#include <vector>

#include "runtime/spirv/guard.h"
#include "runtime/spirv/writer.h"

namespace tv {

class GuardCode {
 public:
  GuardCode(const SpirvModule& module, const SpirvFacts& facts, const GuardRequest& request,
            SpirvWriter& writer)
      : m_(module), facts_(facts), request_(request), w_(writer) {}

  /// Writes them between the declarations and the functions.
  void write();

  uint32_t entry() const { return entry_; }  ///< the new entry point
  /// uint64 check(uint64 address, uint64 bytes, uint64 alignment - 1): the address to use.
  uint32_t check(bool write) const { return write ? write_ : read_; }
  uint32_t block() const { return block_; }    ///< variable: the address of the guard block
  uint32_t rounds() const { return rounds_; }  ///< variable: of all loops so far
  /// Variables that the entry point has to name.
  const std::vector<uint32_t>& interface() const { return interface_; }

 private:
  void make_variables();
  uint32_t private_variable(uint32_t type);
  uint32_t load_word(uint32_t block, uint32_t offset);
  uint32_t make_check(const std::vector<uint32_t>& spans, uint32_t instead, uint32_t bit);
  uint32_t inside_ranges(const std::vector<uint32_t>& spans, uint32_t address, uint32_t bytes);
  void make_entry();
  void begin_guard();
  void end_guard();

  const SpirvModule& m_;
  const SpirvFacts& facts_;
  const GuardRequest& request_;
  SpirvWriter& w_;
  std::vector<uint32_t> interface_;
  uint32_t push_ = 0, block_ = 0, zeros_ = 0, sink_ = 0, reports_ = 0, rounds_ = 0;
  std::vector<uint32_t> begins_, read_spans_, write_spans_;  ///< of each range
  uint32_t read_ = 0, write_ = 0, entry_ = 0;
};

}  // namespace tv
