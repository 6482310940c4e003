#pragma once
// The checks of one instruction's types (runtime/spirv/types.h), by what it does.

#include <span>

#include "runtime/spirv/module.h"

namespace tv {

/// A scalar or vector: 'i', 'f', 'b'; 'p' for an address in device memory; 0 for any other type.
struct SpirvKind {
  char of = 0;
  uint32_t width = 0, count = 1;
  bool operator==(const SpirvKind&) const = default;
};

SpirvKind kind_of(const SpirvModule& module, uint32_t type);

/// Throws Error(kUser) if the types are not what the instruction wants.
class SpirvCheck {
 public:
  SpirvCheck(const SpirvModule& m, const SpirvInstruction& i) : m_(m), i_(i) {
    if (i.type != 0) result_ = kind_of(m, i.type);
  }

  /// Of everything that is computed from values alone; passes over what is not.
  void value() const;
  void construct() const;
  void memory() const;
  void atomic() const;
  void chain() const;
  void call() const;

  void require(bool fine) const {
    if (!fine) refuse_spirv("a module has " + spirv_name(i_.op) + " of wrong types");
  }
  uint32_t type(size_t k) const { return m_.type_of(i_.operand(k)); }
  SpirvKind kind(size_t k) const { return kind_of(m_, type(k)); }
  bool logical(uint32_t type_id) const {
    const SpirvType& t = m_.type(type_id);
    return t.op == spv::kTypePointer && t.storage != spv::kPhysical;
  }

  /// Result and operands alike, and all of `of`.
  void alike(char of, size_t operands) const {
    require(result_.of == of);
    for (size_t k = 0; k < operands; ++k) require(kind(k) == result_);
  }
  void compares(char of) const {
    require(kind(0).of == of && kind(0) == kind(1) && result_ == SpirvKind{'b', 1, kind(0).count});
  }
  void converts(char from, char to) const {
    require(kind(0).of == from && result_.of == to && kind(0).count == result_.count);
  }
  void constant_operand(size_t k) const {
    uint32_t value = 0;
    require(m_.constant(i_.operand(k), value));
  }
  void same_type(size_t k) const { require(type(k) == i_.type); }
  /// An integer as one index.
  void index(size_t k) const { require(kind(k).of == 'i' && kind(k).count == 1); }

  const SpirvKind& result() const { return result_; }

 private:
  void numbers() const;
  void bits() const;
  void bitcast() const;
  void composite() const;
  uint32_t walk(uint32_t from, std::span<const uint32_t> literals) const;
  void extended() const;
  void group() const;

  const SpirvModule& m_;
  const SpirvInstruction& i_;
  SpirvKind result_;
};

}  // namespace tv
