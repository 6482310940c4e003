#include "runtime/spirv/check.h"

#include <algorithm>

#include "runtime/spirv/rules.h"

namespace tv {

SpirvKind kind_of(const SpirvModule& m, uint32_t id) {
  const SpirvType& type = m.type(id);
  const bool vector = type.op == spv::kTypeVector;
  const SpirvType& number = vector ? m.type(type.element) : type;
  const uint32_t count = vector ? type.count : 1;
  if (number.op == spv::kTypeInt) return {'i', number.width, count};
  if (number.op == spv::kTypeFloat) return {'f', number.width, count};
  if (number.op == spv::kTypeBool) return {'b', 1, count};
  if (number.op == spv::kTypePointer && number.storage == spv::kPhysical) return {'p', 64, 1};
  return {};
}

void SpirvCheck::numbers() const {
  const uint32_t op = i_.op;
  if (op == 126) return alike('i', 1);
  if (op == 127) return alike('f', 1);
  if (op == 142)
    return require(result_.of == 'f' && kind(0) == result_ &&
                   kind(1) == SpirvKind{'f', result_.width, 1});
  if (op == 148)
    return require(kind(0).of == 'f' && kind(0) == kind(1) &&
                   result_ == SpirvKind{'f', kind(0).width, 1});
  if (op >= 149 && op <= 152) {
    const SpirvType& pair = m_.type(i_.type);
    require(pair.op == spv::kTypeStruct && pair.count == 2 && kind(0).of == 'i' &&
            kind(0) == kind(1));
    for (const uint32_t member : pair.members) require(kind_of(m_, member) == kind(0));
    return;
  }
  const bool floats = op == 129 || op == 131 || op == 133 || op == 136 || op == 140 || op == 141;
  alike(floats ? 'f' : 'i', 2);
}

void SpirvCheck::bits() const {
  const uint32_t op = i_.op;
  if (op <= 196) {
    return require(result_.of == 'i' && kind(0) == result_ && kind(1).of == 'i' &&
                   kind(1).count == result_.count);
  }
  if (op <= 199) return alike('i', 2);
  if (op == 200 || op == 204) return alike('i', 1);
  if (op == 205) return converts('i', 'i');
  const size_t values = op == 201 ? 2 : 1;
  alike('i', values);
  index(values);
  index(values + 1);
}

void SpirvCheck::bitcast() const {
  const SpirvKind from = kind(0);
  const auto has_bits = [](const SpirvKind& k) {
    return k.of == 'i' || k.of == 'f' || k.of == 'p';
  };
  require(has_bits(from) && has_bits(result_) &&
          from.width * from.count == result_.width * result_.count);
}

uint32_t SpirvCheck::walk(uint32_t from, std::span<const uint32_t> literals) const {
  for (const uint32_t literal : literals) {
    const SpirvType& t = m_.type(from);
    const bool parts =
        t.op == spv::kTypeStruct || t.op == spv::kTypeArray || t.op == spv::kTypeVector;
    require(parts && literal < t.count);
    from = t.op == spv::kTypeStruct ? t.members[literal] : t.element;
  }
  return from;
}

void SpirvCheck::construct() const {
  const SpirvType& t = m_.type(i_.type);
  const auto parts = i_.operands();
  if (t.op == spv::kTypeVector) {
    uint32_t count = 0;
    for (size_t k = 0; k < parts.size(); ++k) {
      require(kind(k).of == result_.of && kind(k).width == result_.width);
      count += kind(k).count;
    }
    return require(count == result_.count);
  }
  require((t.op == spv::kTypeStruct || t.op == spv::kTypeArray) && parts.size() == t.count);
  for (size_t k = 0; k < parts.size(); ++k) {
    require(type(k) == (t.op == spv::kTypeStruct ? t.members[k] : t.element));
  }
}

void SpirvCheck::composite() const {
  switch (i_.op) {
    case spv::kVectorExtractDynamic:
      index(1);
      chain_step(m_, type(0), i_.operand(1));
      return require(m_.type(type(0)).op == spv::kTypeVector &&
                     m_.type(type(0)).element == i_.type);
    case spv::kVectorInsertDynamic:
      index(2);
      same_type(0);
      chain_step(m_, i_.type, i_.operand(2));
      return require(m_.type(i_.type).op == spv::kTypeVector &&
                     m_.type(i_.type).element == type(1));
    case spv::kVectorShuffle: {
      const auto picks = i_.operands().subspan(2);
      const SpirvKind a = kind(0), b = kind(1);
      require(a.of == result_.of && b.of == a.of && a.width == result_.width && b.width == a.width);
      require(a.count > 1 && b.count > 1 && picks.size() == result_.count);
      for (const uint32_t pick : picks) require(pick < a.count + b.count);
      return;
    }
    case spv::kCompositeConstruct:
      return construct();
    case spv::kCompositeExtract:
      return require(walk(type(0), i_.operands().subspan(1)) == i_.type);
    default:
      same_type(1);
      require(walk(i_.type, i_.operands().subspan(2)) == type(0));
  }
}

/// GLSL.std.450: those of numbers, without pointers or matrices.
void SpirvCheck::extended() const {
  require(m_.definition(i_.operand(0)).op == spv::kExtInstImport);
  const uint32_t number = i_.operand(1);
  const size_t count = i_.operands().size() - 2;
  const auto argument = [&](size_t k) { return kind_of(m_, m_.type_of(i_.operand(k + 2))); };
  const auto all_alike = [&](char of, size_t wanted) {
    require(result_.of == of && count == wanted);
    for (size_t k = 0; k < wanted; ++k) require(argument(k) == result_);
  };
  constexpr uint32_t kOneInt[] = {5, 7, 73, 74, 75}, kTwoInt[] = {38, 39, 41, 42};
  constexpr uint32_t kTwo[] = {25, 26, 37, 40, 48, 79, 80}, kThree[] = {43, 46, 49, 50, 81};
  const auto in = [&](const auto& list) {
    return std::ranges::find(list, number) != std::end(list);
  };
  if (in(kOneInt)) return all_alike('i', 1);
  if (in(kTwoInt)) return all_alike('i', 2);
  if (number == 44 || number == 45) return all_alike('i', 3);
  if (in(kTwo)) return all_alike('f', 2);
  if (in(kThree)) return all_alike('f', 3);
  if (number == 53) {  // Ldexp
    return require(count == 2 && result_.of == 'f' && argument(0) == result_ &&
                   argument(1).of == 'i' && argument(1).count == result_.count);
  }
  if (number == 58)
    return require(count == 1 && argument(0) == SpirvKind{'f', 32, 2} &&
                   result_ == SpirvKind{'i', 32, 1});
  if (number == 62)
    return require(count == 1 && argument(0) == SpirvKind{'i', 32, 1} &&
                   result_ == SpirvKind{'f', 32, 2});
  if (number >= 1 && number <= 32) return all_alike('f', 1);
  refuse_spirv("a module uses the extended instruction " + std::to_string(number) +
               ", which the check does not cover");
}

void SpirvCheck::group() const {
  constant_operand(0);
  const uint32_t op = i_.op;
  const SpirvKind flag{'b', 1, 1}, ballot{'i', 32, 4};
  if (op == 333) return require(result_ == flag);
  if (op == 334 || op == 335) return require(result_ == flag && kind(1) == flag);
  if (op == 336) return require(result_ == flag && kind(1).of != 0);
  if (op == 339) return require(result_ == ballot && kind(1) == flag);
  if (op == 340) return require(result_ == flag && kind(1) == ballot);
  if (op == 341)
    return require(result_ == flag && kind(1) == ballot && kind(2).of == 'i' && kind(2).count == 1);
  if (op == 342)
    return require(result_ == SpirvKind{'i', 32, 1} &&
                   kind_of(m_, m_.type_of(i_.operand(2))) == ballot);
  if (op == 343 || op == 344) return require(result_ == SpirvKind{'i', 32, 1} && kind(1) == ballot);
  if (op >= 349) {
    require(i_.operand(1) <= 3 && m_.type_of(i_.operand(2)) == i_.type && result_.of != 0 &&
            result_.of != 'p');
    require(i_.operands().size() == (i_.operand(1) == 3 ? 4U : 3U));
    if (i_.operand(1) == 3) constant_operand(3);
    return;
  }
  same_type(1);
  require(result_.of != 0 && result_.of != 'p');
  if (op != 338) index(2);
}

void SpirvCheck::value() const {
  const uint32_t op = i_.op;
  if (op == spv::kSelect) {
    same_type(1);
    same_type(2);
    const SpirvKind condition = kind(0);
    return require(condition.of == 'b' &&
                   (condition.count == 1 || condition.count == result_.count));
  }
  if (op == spv::kCopyObject) return same_type(0);
  if (op == 109 || op == 110) return converts('f', 'i');
  if (op == 111 || op == 112) return converts('i', 'f');
  if (op == 113 || op == 114) return converts('i', 'i');
  if (op == 115 || op == 116) return converts('f', 'f');
  if (op == spv::kConvertPtrToU)
    return require(kind(0).of == 'p' && result_ == SpirvKind{'i', 64, 1});
  if (op == spv::kConvertUToPtr)
    return require(kind(0) == SpirvKind{'i', 64, 1} && result_.of == 'p');
  if (op == spv::kBitcast) return bitcast();
  if (op >= 126 && op <= 152) return numbers();
  if (op == 154 || op == 155) return require(kind(0).of == 'b' && result_ == SpirvKind{'b', 1, 1});
  if (op == 156 || op == 157) return converts('f', 'b');
  if (op >= 164 && op <= 168) return alike('b', op == 168 ? 1 : 2);
  if (op >= 170 && op <= 179) return compares('i');
  if (op >= 180 && op <= 191) return compares('f');
  if (op >= 194 && op <= 205) return bits();
  if (op >= spv::kVectorExtractDynamic && op <= spv::kCompositeInsert) return composite();
  if (op == spv::kExtInst) return extended();
  if (op >= 333 && op <= 364) return group();
}

}  // namespace tv
