#include "runtime/spirv/types.h"

#include <algorithm>
#include <bit>

#include "runtime/spirv/check.h"
#include "runtime/spirv/rules.h"

namespace tv {

void SpirvCheck::memory() const {
  const SpirvType& pointer = m_.pointer(i_.operand(0));
  const uint32_t value = i_.op == spv::kLoad ? i_.type : type(1);
  require(pointer.element == value);
  const MemoryOperands operands = memory_operands(i_);
  if (pointer.storage != spv::kPhysical) return;
  access_bytes(m_, pointer.element);
  require(operands.alignment != 0);
}

void SpirvCheck::atomic() const {
  const SpirvType& pointer = m_.pointer(i_.operand(0));
  const SpirvKind kind = kind_of(m_, pointer.element);
  const bool store = i_.op == spv::kAtomicStore, adds_floats = i_.op == spv::kAtomicFAdd;
  require(kind.count == 1 && kind.of == (adds_floats ? 'f' : 'i') && kind.width >= 32);
  require(pointer.storage == spv::kPhysical || pointer.storage == spv::kWorkgroup);
  require(store || i_.type == pointer.element);
  const size_t constants = i_.op == 230 ? 3 : 2;  // scope and semantics; CompareExchange has two
  for (size_t k = 1; k <= constants; ++k) constant_operand(k);
  for (size_t k = constants + 1; k < i_.operands().size(); ++k) require(type(k) == pointer.element);
}

void SpirvCheck::chain() const {
  const SpirvType& base = m_.pointer(i_.operand(0));
  uint32_t at = base.element;
  for (const uint32_t id : i_.operands().subspan(1)) {
    const SpirvKind kind = kind_of(m_, m_.type_of(id));
    require(kind.of == 'i' && kind.count == 1);
    at = chain_step(m_, at, id);
  }
  const SpirvType& result = m_.type(i_.type);
  require(result.op == spv::kTypePointer && result.storage == base.storage && result.element == at);
}

void SpirvCheck::call() const {
  const SpirvInstruction& function = m_.definition(i_.operand(0));
  require(function.op == spv::kFunction && function.type == i_.type);
  const auto& wanted = m_.type(function.operand(1)).members;
  require(wanted.size() + 1 == i_.operands().size());
  for (size_t k = 0; k < wanted.size(); ++k) require(m_.type_of(i_.operand(k + 1)) == wanted[k]);
}

namespace {

/// Pointers to variables go where the guard sees them.
void check_pointers(const SpirvModule& m, const SpirvInstruction& i, const SpirvCheck& check) {
  const bool address = i.op == spv::kAccessChain || i.op == spv::kInBoundsAccessChain;
  if (i.type != 0 && !address && check.logical(i.type)) {
    refuse_spirv("a module makes a pointer to a variable by " + spirv_name(i.op));
  }
  if (i.op == spv::kFunctionCall) return;
  const bool atomic =
      (i.op >= spv::kAtomicLoad && i.op <= spv::kAtomicXor) || i.op == spv::kAtomicFAdd;
  const bool first = address || atomic || i.op == spv::kLoad || i.op == spv::kStore;
  const std::string layout = spirv_layout(i.op);
  const size_t skip = layout.find_first_not_of("TR");
  for (size_t k = 0; k < i.operands().size(); ++k) {
    const char c = skip == std::string::npos ? 'I' : layout[std::min(skip + k, layout.size() - 1)];
    if ((c != 'i' && c != 'I') || (i.op == spv::kExtInst && k == 0)) continue;
    const bool logical = check.logical(m.type_of(i.operand(k)));
    if (logical && !(first && k == 0))
      refuse_spirv("a module keeps a pointer to a variable as a value");
  }
}

void check_flow(const SpirvModule& m, const SpirvInstruction& i, const SpirvCheck& check,
                uint32_t returns) {
  switch (i.op) {
    case spv::kBranchConditional:
      return check.require(check.kind(0) == SpirvKind{'b', 1, 1});
    case spv::kSwitch:
      return check.require(check.kind(0) == SpirvKind{'i', 32, 1});
    case spv::kReturn:
      return check.require(m.type(returns).op == spv::kTypeVoid);
    case spv::kReturnValue:
      return check.require(check.type(0) == returns);
    case spv::kPhi:
      check.require(i.operands().size() % 2 == 0);
      for (size_t k = 0; k < i.operands().size(); k += 2) check.same_type(k);
      return;
    case 224:
    case 225:
      for (size_t k = 0; k < i.operands().size(); ++k) check.constant_operand(k);
      return;
    default:
      return;
  }
}

}  // namespace

uint32_t chain_step(const SpirvModule& m, uint32_t type, uint32_t index) {
  const SpirvType& t = m.type(type);
  uint32_t value = 0;
  const bool known = m.constant(index, value);
  if (t.op == spv::kTypeStruct) {
    if (!known || value >= t.count)
      refuse_spirv("a module names a member that a structure does not have");
    return t.members[value];
  }
  if (t.op != spv::kTypeVector && t.op != spv::kTypeArray && t.op != spv::kTypeRuntimeArray) {
    refuse_spirv("a module indexes what has no elements");
  }
  if (known && t.op != spv::kTypeRuntimeArray && value >= t.count) {
    refuse_spirv("a module names element " + std::to_string(value) + " of " +
                 std::to_string(t.count));
  }
  return t.element;
}

uint64_t access_bytes(const SpirvModule& m, uint32_t pointee) {
  const SpirvType& type = m.type(pointee);
  if (type.memory_bytes == 0 || type.has_runtime_array || type.memory_bytes > kMostAccessBytes) {
    refuse_spirv(
        "a module reads or writes a type without a layout, or of more than 4096 bytes, at once");
  }
  return type.memory_bytes;
}

MemoryOperands memory_operands(const SpirvInstruction& i) {
  constexpr uint32_t kVolatile = 1, kAligned = 2, kNontemporal = 4;
  const auto words = i.operands().subspan(i.op == spv::kLoad ? 1 : 2);
  if (words.empty()) return {};
  MemoryOperands found{words[0] & ~kAligned, 0};
  const bool aligned = (words[0] & kAligned) != 0;
  if ((found.mask & ~(kVolatile | kNontemporal)) != 0 || words.size() != (aligned ? 2U : 1U)) {
    refuse_spirv("a module has memory operands that the check does not cover");
  }
  if (aligned) found.alignment = words[1];
  if (aligned && (!std::has_single_bit(words[1]) || words[1] > kMostAlignment)) {
    refuse_spirv("a module has an alignment of " + std::to_string(words[1]) +
                 ", want a power of two up to 64");
  }
  return found;
}

void check_instruction(const SpirvModule& m, const SpirvInstruction& i, uint32_t return_type) {
  const SpirvCheck check(m, i);
  if (i.op != spv::kPhi) check_pointers(m, i, check);
  if (i.op == spv::kLoad || i.op == spv::kStore) return check.memory();
  if ((i.op >= spv::kAtomicLoad && i.op <= spv::kAtomicXor) || i.op == spv::kAtomicFAdd)
    return check.atomic();
  if (i.op == spv::kAccessChain || i.op == spv::kInBoundsAccessChain) return check.chain();
  if (i.op == spv::kFunctionCall) return check.call();
  if (i.op == spv::kPhi) check.require(!check.logical(i.type));
  check_flow(m, i, check, return_type);
  if (i.op != spv::kPhi) check.value();
}

void check_constant(const SpirvModule& m, const SpirvInstruction& i) {
  if (i.op < spv::kConstantTrue || i.op > spv::kSpecConstantOp) return;
  const SpirvCheck check(m, i);
  const SpirvKind kind = kind_of(m, i.type);
  if (i.op == 41 || i.op == 42 || i.op == 48 || i.op == 49)
    return check.require(kind == SpirvKind{'b', 1, 1});
  if (i.op == spv::kConstant || i.op == spv::kSpecConstant) {
    check.require((kind.of == 'i' || kind.of == 'f') && kind.count == 1);
    return check.require(i.operands().size() == (kind.width == 64 ? 2U : 1U));
  }
  for (const uint32_t part :
       i.op == spv::kSpecConstantOp ? std::span<const uint32_t>{} : i.operands()) {
    check.require(m.definition_index(part) < m.first_function());
  }
  if (i.op != spv::kSpecConstantOp) return i.op == spv::kConstantNull ? void() : check.construct();
  const uint32_t op = i.operand(0);
  const bool number = op == 113 || op == 114 || (op >= 126 && op <= 139) ||
                      (op >= 164 && op <= 179) || (op >= 194 && op <= 200) ||
                      op == spv::kCompositeExtract;
  if (!number) refuse_spirv("a module computes a constant by " + spirv_name(op));
  std::vector<uint32_t> words(i.words.begin(), i.words.begin() + 2);
  words.insert(words.end(), i.words.begin() + 3, i.words.end());
  const SpirvInstruction inner{.op = op, .words = words, .type = i.type, .result = i.result};
  const std::string layout = spirv_layout(op);
  for (size_t k = 0; k < inner.operands().size(); ++k) {
    const char c = layout[std::min(k + 2, layout.size() - 1)];
    check.require(c == 'L' ||
                  m.definition_index(inner.operands()[k]) < m.definition_index(i.result));
  }
  check.require(layout.ends_with('L') || inner.operands().size() + 2 == layout.size());
  check_instruction(m, inner, 0);
}

}  // namespace tv
