#pragma once
// Writes a module: what is copied from another, and what is added, each in its section.

#include <array>
#include <initializer_list>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "runtime/spirv/module.h"

namespace tv {

class SpirvWriter {
 public:
  explicit SpirvWriter(const SpirvModule& from) : from_(from), next_(from.bound()) {}

  uint32_t id() { return next_++; }
  /// To where such an instruction belongs. Memory models and entry points are made by `finish`.
  void copy(const SpirvInstruction& i);
  void annotate(uint32_t op, std::initializer_list<uint32_t> words);
  void global(uint32_t op, std::initializer_list<uint32_t> words);
  void inside(uint32_t op, std::initializer_list<uint32_t> words);
  void inside(uint32_t op, std::span<const uint32_t> words);
  /// An instruction in a function, with a result; returns that.
  uint32_t value(uint32_t op, uint32_t type, std::initializer_list<uint32_t> operands);
  uint32_t value(uint32_t op, uint32_t type, std::span<const uint32_t> operands);
  uint32_t load(uint32_t type, uint32_t variable) { return value(spv::kLoad, type, {variable}); }

  // Types and constants, found or made.
  uint32_t uint_type(uint32_t width);
  uint32_t bool_type();
  uint32_t void_type();
  uint32_t pointer_type(uint32_t storage, uint32_t to);
  /// uint64(uint64, uint64, uint64)
  uint32_t check_type();
  uint32_t constant(uint32_t type, uint64_t value);
  uint32_t null(uint32_t type);

  /// The module, which `entry` enters.
  std::vector<uint32_t> finish(uint32_t entry, std::span<const uint32_t> interface);

 private:
  /// A type without parts of its own that is there once at most; makes it where `from` has none.
  uint32_t unique_type(uint32_t op, std::vector<uint32_t> operands);

  const SpirvModule& from_;
  uint32_t next_;
  std::vector<uint32_t> capabilities_, extensions_, imports_, annotations_, globals_, functions_;
  std::vector<const SpirvInstruction*> modes_;
  std::map<std::vector<uint32_t>, uint32_t> types_;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> constants_;
  std::map<uint32_t, uint32_t> nulls_;
};

}  // namespace tv
