#include "runtime/spirv/guard_code.h"

namespace tv {
namespace {

constexpr uint32_t kScopeDevice = 1, kRelaxed = 0, kAlignedAccess = 2;

}  // namespace

void GuardCode::write() {
  make_variables();
  read_ = make_check(read_spans_, zeros_, kGuardRead);
  write_ = make_check(write_spans_, sink_, kGuardWrite);
  make_entry();
}

uint32_t GuardCode::private_variable(uint32_t type) {
  const uint32_t id = w_.id();
  w_.global(spv::kVariable,
            {w_.pointer_type(spv::kPrivate, type), id, spv::kPrivate, w_.null(type)});
  if (m_.version() >= spv::kVersion14) interface_.push_back(id);
  return id;
}

void GuardCode::make_variables() {
  const uint32_t u64 = w_.uint_type(64), block = w_.id();
  w_.annotate(spv::kDecorate, {block, spv::kBlock});
  w_.annotate(spv::kMemberDecorate, {block, 0, spv::kOffset, 0});
  w_.global(spv::kTypeStruct, {block, u64});
  push_ = w_.id();
  w_.global(spv::kVariable,
            {w_.pointer_type(spv::kPushConstant, block), push_, spv::kPushConstant});
  if (m_.version() >= spv::kVersion14) interface_.push_back(push_);
  for (uint32_t* variable : {&block_, &zeros_, &sink_}) *variable = private_variable(u64);
  for (uint32_t* variable : {&reports_, &rounds_}) *variable = private_variable(w_.uint_type(32));
  for (uint32_t k = 0; k < request_.ranges; ++k) {
    for (auto* list : {&begins_, &read_spans_, &write_spans_})
      list->push_back(private_variable(u64));
  }
}

/// Whether `bytes` from `address` lie in one of the ranges.
uint32_t GuardCode::inside_ranges(const std::vector<uint32_t>& spans, uint32_t address,
                                  uint32_t bytes) {
  const uint32_t u64 = w_.uint_type(64), flag = w_.bool_type();
  uint32_t any = 0;
  for (uint32_t k = 0; k < request_.ranges; ++k) {
    const uint32_t span = w_.load(u64, spans[k]);
    const uint32_t at = w_.value(spv::kISub, u64, {address, w_.load(u64, begins_[k])});
    const uint32_t begins = w_.value(spv::kULessThanEqual, flag, {at, span});
    const uint32_t rest = w_.value(spv::kISub, u64, {span, at});
    const uint32_t fits = w_.value(spv::kUGreaterThanEqual, flag, {rest, bytes});
    const uint32_t inside = w_.value(spv::kLogicalAnd, flag, {begins, fits});
    any = any == 0 ? inside : w_.value(spv::kLogicalOr, flag, {any, inside});
  }
  return any;
}

uint32_t GuardCode::make_check(const std::vector<uint32_t>& spans, uint32_t instead, uint32_t bit) {
  const uint32_t u64 = w_.uint_type(64), u32 = w_.uint_type(32), flag = w_.bool_type();
  const uint32_t function = w_.id();
  w_.inside(spv::kFunction, {u64, function, 0, w_.check_type()});
  const uint32_t address = w_.value(spv::kFunctionParameter, u64, {});
  const uint32_t bytes = w_.value(spv::kFunctionParameter, u64, {});
  const uint32_t mask = w_.value(spv::kFunctionParameter, u64, {});
  w_.inside(spv::kLabel, {w_.id()});
  const uint32_t low = w_.value(spv::kBitwiseAnd, u64, {address, mask});
  uint32_t fine = w_.value(spv::kIEqual, flag, {low, w_.constant(u64, 0)});
  if (request_.ranges > 0) {
    fine = w_.value(spv::kLogicalAnd, flag, {fine, inside_ranges(spans, address, bytes)});
  } else {
    fine = w_.value(spv::kINotEqual, flag, {mask, mask});
  }
  const uint32_t found =
      w_.value(spv::kSelect, u32, {fine, w_.constant(u32, 0), w_.constant(u32, bit)});
  const uint32_t reports = w_.value(spv::kBitwiseOr, u32, {w_.load(u32, reports_), found});
  w_.inside(spv::kStore, {reports_, reports});
  const uint32_t use = w_.value(spv::kSelect, u64, {fine, address, w_.load(u64, instead)});
  w_.inside(spv::kReturnValue, {use});
  w_.inside(spv::kFunctionEnd, {});
  return function;
}

uint32_t GuardCode::load_word(uint32_t block, uint32_t offset) {
  const uint32_t u64 = w_.uint_type(64);
  const uint32_t at = w_.value(spv::kIAdd, u64, {block, w_.constant(u64, offset)});
  const uint32_t pointer =
      w_.value(spv::kConvertUToPtr, w_.pointer_type(spv::kPhysical, u64), {at});
  return w_.value(spv::kLoad, u64, {pointer, kAlignedAccess, 8});
}

/// The new entry point: fills the guard's variables, calls the kernel's own, and reports.
void GuardCode::make_entry() {
  entry_ = w_.id();
  w_.inside(spv::kFunction, {w_.void_type(), entry_, 0, m_.definition(facts_.entry).operand(1)});
  w_.inside(spv::kLabel, {w_.id()});
  begin_guard();
  w_.value(spv::kFunctionCall, w_.void_type(), {facts_.entry});
  end_guard();
  w_.inside(spv::kReturn, {});
  w_.inside(spv::kFunctionEnd, {});
}

void GuardCode::begin_guard() {
  const uint32_t u64 = w_.uint_type(64), u32 = w_.uint_type(32), flag = w_.bool_type();
  const uint32_t at = w_.value(spv::kAccessChain, w_.pointer_type(spv::kPushConstant, u64),
                               {push_, w_.constant(u32, 0)});
  const uint32_t block = w_.value(spv::kLoad, u64, {at});
  w_.inside(spv::kStore, {block_, block});
  w_.inside(spv::kStore, {zeros_, load_word(block, kGuardZeros)});
  w_.inside(spv::kStore, {sink_, load_word(block, kGuardSink)});
  for (uint32_t k = 0; k < request_.ranges; ++k) {
    const uint32_t range = kGuardRanges + k * kGuardRangeBytes;
    w_.inside(spv::kStore, {begins_[k], load_word(block, range)});
    w_.inside(spv::kStore, {read_spans_[k], load_word(block, range + 8)});
    w_.inside(spv::kStore, {write_spans_[k], load_word(block, range + 16)});
  }
  if (facts_.back_edges.empty()) return;
  // Once an invocation of a dispatch was stopped, the others do not run as long again.
  const uint32_t report = w_.value(spv::kConvertUToPtr, w_.pointer_type(spv::kPhysical, u32),
                                   {load_word(block, kGuardReport)});
  const uint32_t said = w_.value(
      spv::kAtomicLoad, u32, {report, w_.constant(u32, kScopeDevice), w_.constant(u32, kRelaxed)});
  const uint32_t bit = w_.value(spv::kBitwiseAnd, u32, {said, w_.constant(u32, kGuardLoop)});
  const uint32_t stopped = w_.value(spv::kINotEqual, flag, {bit, w_.constant(u32, 0)});
  w_.inside(spv::kStore, {rounds_, w_.value(spv::kSelect, u32,
                                            {stopped, w_.constant(u32, request_.max_iterations),
                                             w_.constant(u32, 0)})});
}

void GuardCode::end_guard() {
  const uint32_t u64 = w_.uint_type(64), u32 = w_.uint_type(32), flag = w_.bool_type();
  const uint32_t many =
      w_.value(spv::kUGreaterThanEqual, flag,
               {w_.load(u32, rounds_), w_.constant(u32, request_.max_iterations)});
  const uint32_t bit =
      w_.value(spv::kSelect, u32, {many, w_.constant(u32, kGuardLoop), w_.constant(u32, 0)});
  const uint32_t all = w_.value(spv::kBitwiseOr, u32, {w_.load(u32, reports_), bit});
  const uint32_t any = w_.value(spv::kINotEqual, flag, {all, w_.constant(u32, 0)});
  const uint32_t report = w_.id(), done = w_.id();
  w_.inside(spv::kSelectionMerge, {done, 0});
  w_.inside(spv::kBranchConditional, {any, report, done});
  w_.inside(spv::kLabel, {report});
  const uint32_t address = load_word(w_.load(u64, block_), kGuardReport);
  const uint32_t word =
      w_.value(spv::kConvertUToPtr, w_.pointer_type(spv::kPhysical, u32), {address});
  w_.value(spv::kAtomicOr, u32,
           {word, w_.constant(u32, kScopeDevice), w_.constant(u32, kRelaxed), all});
  w_.inside(spv::kBranch, {done});
  w_.inside(spv::kLabel, {done});
}

}  // namespace tv
