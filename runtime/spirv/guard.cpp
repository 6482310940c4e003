#include "runtime/spirv/guard.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/spirv/guard_code.h"
#include "runtime/spirv/types.h"

namespace tv {
namespace {

constexpr uint32_t kAlignedOperand = 2, kUnroll = 1, kDontUnroll = 2;

class Guard {
 public:
  Guard(const SpirvModule& module, const SpirvFacts& facts, const GuardRequest& request)
      : m_(module),
        facts_(facts),
        w_(module),
        code_(module, facts, request, w_),
        max_iterations_(request.max_iterations) {
    for (const BackEdge& edge : facts.back_edges) {
      edges_[edge.branch] = &edge;
      counts_[edge.count_before] = &edge;
    }
  }

  std::vector<uint32_t> rewrite() {
    for (size_t at = 0; at < m_.first_function(); ++at) emit_global(m_.instructions()[at]);
    code_.write();
    for (size_t at = m_.first_function(); at < m_.instructions().size(); ++at) emit_inside(at);
    interface_.insert(interface_.end(), code_.interface().begin(), code_.interface().end());
    return w_.finish(code_.entry(), interface_);
  }

 private:
  void emit_global(const SpirvInstruction& i);
  void emit_inside(size_t at);
  void emit_plain(const SpirvInstruction& i);
  void emit_variable(const SpirvInstruction& i);
  void emit_access(const SpirvInstruction& i);
  void emit_chain(const SpirvInstruction& i);
  void emit_dynamic(const SpirvInstruction& i);
  void emit_end();
  void emit_count(const BackEdge& edge);

  void enter_function(size_t at);
  void enter_body();
  uint32_t zero(uint32_t type, int depth = 0);
  uint32_t clamped(uint32_t index, uint32_t count);
  bool is_plain_chain(const SpirvInstruction& i) const;

  const SpirvModule& m_;
  const SpirvFacts& facts_;
  SpirvWriter w_;
  GuardCode code_;
  uint32_t max_iterations_;
  std::map<size_t, const BackEdge*> edges_, counts_;
  std::vector<uint32_t> interface_;
  std::vector<uint32_t> unset_globals_;  ///< those that hold pointers, which no constant is
  // Of the function that is being written.
  uint32_t push_here_ = 0;  ///< its pointer to the push constants
  bool body_begun_ = true;
  bool uses_push_ = false;
  std::vector<uint32_t> unset_;  ///< variables that hold pointers
  std::set<uint32_t> safe_;      ///< pointers into the push constants that need no check
  uint32_t goes_on_ = 0;         ///< whether the loop at hand may go on
  uint32_t return_type_ = 0;
};

void Guard::emit_global(const SpirvInstruction& i) {
  switch (i.op) {
    case spv::kEntryPoint:
      return;
    case spv::kDecorate:
      if (i.words[0] == facts_.push) return;
      return w_.copy(i);
    case spv::kTypePointer:
      if (i.operand(0) == spv::kPushConstant) {
        return w_.global(i.op, {i.result, spv::kPhysical, i.operand(1)});
      }
      return w_.copy(i);
    case spv::kTypeForwardPointer:
      return w_.copy(i);
    case spv::kUndef:
      return w_.global(spv::kConstantNull, {i.type, i.result});
    case spv::kVariable: {
      if (i.result == facts_.push) return;
      const uint32_t storage = i.operand(0);
      if (storage == spv::kInput || m_.version() >= spv::kVersion14) interface_.push_back(i.result);
      const SpirvType& pointer = m_.type(i.type);
      if (storage != spv::kPrivate || i.operands().size() > 1) return w_.copy(i);
      if (m_.type(pointer.element).has_pointer) {
        unset_globals_.push_back(i.result);
        return w_.copy(i);
      }
      return w_.global(i.op, {i.type, i.result, storage, w_.null(pointer.element)});
    }
    default:
      w_.copy(i);
  }
}

void Guard::enter_function(size_t at) {
  body_begun_ = false;
  uses_push_ = false;
  unset_.clear();
  if (m_.instructions()[at].result == facts_.entry) unset_ = unset_globals_;
  return_type_ = m_.instructions()[at].type;
  push_here_ = 0;
  for (size_t k = at; facts_.push != 0 && m_.instructions()[k].op != spv::kFunctionEnd; ++k) {
    const SpirvInstruction& i = m_.instructions()[k];
    const bool reads =
        i.op == spv::kLoad || i.op == spv::kAccessChain || i.op == spv::kInBoundsAccessChain;
    uses_push_ |= reads && i.operand(0) == facts_.push;
  }
}

/// What stands behind the variables of a function.
void Guard::enter_body() {
  body_begun_ = true;
  for (const uint32_t variable : unset_) {
    w_.inside(spv::kStore, {variable, zero(m_.pointer(variable).element)});
  }
  if (!uses_push_) return;
  const uint32_t block = w_.load(w_.uint_type(64), code_.block());
  push_here_ = w_.value(spv::kConvertUToPtr, m_.type_of(facts_.push), {block});
}

void Guard::emit_inside(size_t at) {
  const SpirvInstruction& i = m_.instructions()[at];
  const bool head =
      i.op == spv::kFunction || i.op == spv::kFunctionParameter || i.op == spv::kLabel;
  if (i.op == spv::kFunction) enter_function(at);
  if (!head && i.op != spv::kVariable && !body_begun_) enter_body();
  if (const auto edge = counts_.find(at); edge != counts_.end()) emit_count(*edge->second);
  if (const auto edge = edges_.find(at); edge != edges_.end()) {
    return w_.inside(spv::kBranchConditional,
                     {goes_on_, edge->second->header, edge->second->merge});
  }
  emit_plain(i);
}

void Guard::emit_plain(const SpirvInstruction& i) {
  const bool atomic =
      (i.op >= spv::kAtomicLoad && i.op <= spv::kAtomicXor) || i.op == spv::kAtomicFAdd;
  if (i.op == spv::kVariable) return emit_variable(i);
  if (i.op == spv::kLoad || i.op == spv::kStore || atomic) return emit_access(i);
  if (i.op == spv::kAccessChain || i.op == spv::kInBoundsAccessChain) return emit_chain(i);
  if (i.op == spv::kVectorExtractDynamic || i.op == spv::kVectorInsertDynamic)
    return emit_dynamic(i);
  if (i.op == spv::kLoopMerge && i.operand(2) == kUnroll) {  // each access is long now
    return w_.inside(i.op, {i.operand(0), i.operand(1), kDontUnroll});
  }
  if (i.op == spv::kUnreachable) return emit_end();
  if (i.op == spv::kUndef) return w_.inside(spv::kCopyObject, {i.type, i.result, zero(i.type)});
  w_.copy(i);
}

/// What a variable holds before it is set is anything, and two uses may see two values: no check
/// holds.
void Guard::emit_variable(const SpirvInstruction& i) {
  const uint32_t type = m_.type(i.type).element;
  if (i.operands().size() > 1) return w_.copy(i);
  if (!m_.type(type).has_pointer) {
    return w_.inside(i.op, {i.type, i.result, i.operand(0), w_.null(type)});
  }
  unset_.push_back(i.result);
  w_.copy(i);
}

uint32_t Guard::zero(uint32_t type, int depth) {
  constexpr int kDeepest = 4;
  constexpr uint32_t kMostParts = 64;
  const SpirvType& t = m_.type(type);
  if (!t.has_pointer) return w_.null(type);
  if (t.op == spv::kTypePointer) {
    return w_.value(spv::kConvertUToPtr, type, {w_.constant(w_.uint_type(64), 0)});
  }
  if (depth == kDeepest || t.count > kMostParts)
    refuse_spirv("a module keeps too many pointers in a variable");
  std::vector<uint32_t> parts;
  for (uint32_t k = 0; k < t.count; ++k) {
    parts.push_back(zero(t.op == spv::kTypeStruct ? t.members[k] : t.element, depth + 1));
  }
  return w_.value(spv::kCompositeConstruct, type, parts);
}

/// Loads, stores and atomics.
void Guard::emit_access(const SpirvInstruction& i) {
  const uint32_t pointer = i.operand(0);
  const SpirvType& type = m_.pointer(pointer);
  const bool pushed = type.storage == spv::kPushConstant;
  if (type.storage != spv::kPhysical && !pushed) return w_.copy(i);
  if (pushed && i.op != spv::kLoad) refuse_spirv("a module writes to its push constants");
  const bool memory = i.op == spv::kLoad || i.op == spv::kStore;
  const SpirvType& value = m_.type(type.element);
  const MemoryOperands given = memory ? memory_operands(i) : MemoryOperands{};
  const uint32_t alignment =
      given.alignment != 0 ? given.alignment : static_cast<uint32_t>(value.align);
  uint32_t use = pointer == facts_.push ? push_here_ : pointer;
  if (pointer != facts_.push && !safe_.contains(pointer)) {
    const uint32_t u64 = w_.uint_type(64);
    const uint32_t address = w_.value(spv::kConvertPtrToU, u64, {pointer});
    const uint32_t checked = w_.value(
        spv::kFunctionCall, u64,
        {code_.check(/*write=*/i.op != spv::kLoad), address,
         w_.constant(u64, access_bytes(m_, type.element)), w_.constant(u64, alignment - 1)});
    use = w_.value(spv::kConvertUToPtr, m_.type_of(pointer), {checked});
  }
  std::vector<uint32_t> words(i.words.begin(), i.words.end());
  words[words.size() - i.operands().size()] = use;
  if (memory) {
    words.resize(i.op == spv::kLoad ? 3 : 2);
    words.insert(words.end(), {given.mask | kAlignedOperand, alignment});
  }
  w_.inside(i.op, words);
}

/// True if the pointer lies in the push constants whatever happens.
bool Guard::is_plain_chain(const SpirvInstruction& i) const {
  const uint32_t base = i.operand(0);
  if (base != facts_.push && !safe_.contains(base)) return false;
  uint32_t value = 0;
  return std::ranges::all_of(i.operands().subspan(1),
                             [&](uint32_t id) { return m_.constant(id, value); });
}

void Guard::emit_chain(const SpirvInstruction& i) {
  const uint32_t base = i.operand(0);
  const SpirvType& pointer = m_.pointer(base);
  const bool in_memory = pointer.storage == spv::kPhysical || pointer.storage == spv::kPushConstant;
  std::vector<uint32_t> words(i.words.begin(), i.words.end());
  if (is_plain_chain(i)) safe_.insert(i.result);
  if (base == facts_.push) words[2] = push_here_;
  uint32_t at = pointer.element, value = 0;
  for (size_t k = 3; k < words.size(); ++k) {
    const SpirvType& type = m_.type(at);
    at = chain_step(m_, at, words[k]);
    if (!in_memory && !m_.constant(words[k], value)) words[k] = clamped(words[k], type.count);
  }
  w_.inside(spv::kAccessChain, words);
}

/// `index`, no larger than the last of `count`.
uint32_t Guard::clamped(uint32_t index, uint32_t count) {
  const uint32_t type = m_.type_of(index);
  const uint32_t width = m_.type(type).width;
  const uint64_t most = (uint64_t{1} << (width - 1)) - 1;  // positive, whatever the sign
  const uint32_t last = w_.constant(type, std::min<uint64_t>(count - 1, most));
  const uint32_t fine = w_.value(spv::kULessThanEqual, w_.bool_type(), {index, last});
  return w_.value(spv::kSelect, type, {fine, index, last});
}

void Guard::emit_dynamic(const SpirvInstruction& i) {
  std::vector<uint32_t> words(i.words.begin(), i.words.end());
  const SpirvType& vector = m_.type(m_.type_of(i.operand(0)));
  words.back() = clamped(words.back(), vector.count);
  w_.inside(i.op, words);
}

void Guard::emit_end() {
  if (m_.type(return_type_).op == spv::kTypeVoid) return w_.inside(spv::kReturn, {});
  w_.inside(spv::kReturnValue, {zero(return_type_)});
}

void Guard::emit_count(const BackEdge& edge) {
  const uint32_t u32 = w_.uint_type(32), flag = w_.bool_type();
  const uint32_t rounds =
      w_.value(spv::kIAdd, u32, {w_.load(u32, code_.rounds()), w_.constant(u32, 1)});
  w_.inside(spv::kStore, {code_.rounds(), rounds});
  goes_on_ = w_.value(spv::kULessThan, flag, {rounds, w_.constant(u32, max_iterations_)});
  const SpirvInstruction& branch = m_.instructions()[edge.branch];
  if (branch.op == spv::kBranch) return;
  const uint32_t condition = branch.operand(0);
  if (branch.operand(1) == edge.header) {
    goes_on_ = w_.value(spv::kLogicalAnd, flag, {goes_on_, condition});
  } else {
    const uint32_t wants = w_.value(spv::kLogicalNot, flag, {condition});
    goes_on_ = w_.value(spv::kLogicalAnd, flag, {goes_on_, wants});
  }
}

}  // namespace

std::vector<uint32_t> guard_spirv(std::span<const uint32_t> words, const GuardRequest& request) {
  const SpirvModule module(words);
  const SpirvFacts facts = check_spirv(module, request.limits);
  return Guard(module, facts, request).rewrite();
}

}  // namespace tv
