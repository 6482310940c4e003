#include "tests/cpp/kit/interpreter/workgroup.h"

#include <algorithm>
#include <sstream>

namespace tv::interpreter {

namespace {

constexpr uint64_t kWorkgroupScope = 2;
constexpr uint64_t kMostInstructions = 400'000'000;  // of an invocation: more is an endless loop

/// Numbers of builtins.
enum Which : uint32_t {
  kNumWorkgroups = 24,
  kWorkgroupSize = 25,
  kWorkgroupId = 26,
  kLocalInvocationId = 27,
  kGlobalInvocationId = 28,
  kLocalInvocationIndex = 29,
  kSubgroupSize = 36,
  kNumSubgroups = 38,
  kSubgroupId = 40,
  kSubgroupLocalInvocationId = 41,
};

template <class At>
void read_value(const Type& type, uint64_t address, uint64_t* to, const At& at) {
  switch (type.kind) {
    case Type::kStruct:
      for (size_t m = 0; m < type.members.size(); ++m) {
        read_value(*type.members[m], address + type.byte_at[m], to + type.word_at[m], at);
      }
      return;
    case Type::kVector:
    case Type::kArray:
      for (uint32_t k = 0; k < type.count; ++k) {
        read_value(*type.element, address + k * type.stride, to + k * type.element->words, at);
      }
      return;
    case Type::kMatrix:
    case Type::kRuntimeArray:
      throw Fault("a load of what has no size");
    default: {
      uint64_t value = 0;
      std::memcpy(&value, at(address, type.bytes), type.bytes);
      *to = type.kind == Type::kBool ? value != 0 : value;
    }
  }
}

template <class At>
void write_value(const Type& type, uint64_t address, const uint64_t* from, const At& at) {
  switch (type.kind) {
    case Type::kStruct:
      for (size_t m = 0; m < type.members.size(); ++m) {
        write_value(*type.members[m], address + type.byte_at[m], from + type.word_at[m], at);
      }
      return;
    case Type::kVector:
    case Type::kArray:
      for (uint32_t k = 0; k < type.count; ++k) {
        write_value(*type.element, address + k * type.stride, from + k * type.element->words, at);
      }
      return;
    case Type::kMatrix:
    case Type::kRuntimeArray:
      throw Fault("a store of what has no size");
    default:
      std::memcpy(at(address, type.bytes), from, type.bytes);
  }
}

}  // namespace

Workgroup::Workgroup(const Program& program, const Launch& launch, const DeviceMemory& memory,
                     const std::array<uint32_t, 3>& id)
    : program_(program), memory_(memory), push_(launch.push_constants), id_(id), shared_(program) {
  const uint32_t count = program.local_size[0] * program.local_size[1] * program.local_size[2];
  invocations_.resize(count);
  for (uint32_t index = 0; index < count; ++index) {
    Invocation& v = invocations_[index];
    v.subgroup = index / kSubgroup;
    v.lane = index % kSubgroup;
    v.at = program.functions.at(program.entry).first;
    v.registers = program.registers;
    set_builtins(v, index, launch, id);
  }
}

void Workgroup::set_builtins(Invocation& v, uint32_t index, const Launch& launch,
                             const std::array<uint32_t, 3>& id) const {
  const auto& size = program_.local_size;
  const std::array<uint32_t, 3> local = {index % size[0], index / size[0] % size[1],
                                         index / (size[0] * size[1])};
  for (const Builtin& builtin : program_.builtins) {
    for (uint32_t w = 0; w < builtin.words; ++w) {
      uint64_t& to = v.registers[builtin.at + w];
      switch (builtin.which) {
        case kNumWorkgroups:
          to = launch.groups[w];
          break;
        case kWorkgroupSize:
          to = size[w];
          break;
        case kWorkgroupId:
          to = id[w];
          break;
        case kLocalInvocationId:
          to = local[w];
          break;
        case kGlobalInvocationId:
          to = id[w] * size[w] + local[w];
          break;
        case kLocalInvocationIndex:
          to = index;
          break;
        case kSubgroupSize:
          to = kSubgroup;
          break;
        case kNumSubgroups:
          to = (invocations_.size() + kSubgroup - 1) / kSubgroup;
          break;
        case kSubgroupId:
          to = v.subgroup;
          break;
        case kSubgroupLocalInvocationId:
          to = v.lane;
          break;
        default:
          throw Fault("builtin " + std::to_string(builtin.which) + " is not interpreted");
      }
    }
  }
}

void Workgroup::fail(const Invocation& v, const std::string& what) const {
  std::ostringstream text;
  text << "workgroup (" << id_[0] << ", " << id_[1] << ", " << id_[2] << "), subgroup "
       << v.subgroup << ", invocation " << v.lane << ", instruction " << v.at << " (operation "
       << program_.code.at(std::min<size_t>(v.at, program_.code.size() - 1)).op << "): " << what;
  throw Fault(text.str());
}

void Workgroup::run() {
  std::vector<std::span<Invocation>> subgroups;
  for (size_t first = 0; first < invocations_.size(); first += kSubgroup) {
    const size_t count = std::min<size_t>(kSubgroup, invocations_.size() - first);
    subgroups.emplace_back(invocations_.data() + first, count);
  }
  for (;;) {
    for (const auto& subgroup : subgroups) advance(subgroup);
    const auto done = std::ranges::count_if(
        subgroups, [](const auto& s) { return s.front().state == Invocation::kDone; });
    if (done == static_cast<int64_t>(subgroups.size())) return;
    const Invocation& first = invocations_.front();
    for (const auto& s : subgroups) {
      if (s.front().state == Invocation::kDone)
        fail(s.front(), "ends before a barrier of its workgroup");
      if (s.front().at != first.at || s.front().calls != first.calls) {
        fail(s.front(), "is at another barrier of its workgroup than the first subgroup");
      }
    }
    shared_.barrier();
    for (Invocation& v : invocations_) {
      v.state = Invocation::kRuns;
      ++v.at;
    }
  }
}

bool Workgroup::is_workgroup_barrier(const Invocation& v) const {
  const Instruction& i = program_.code[v.at];
  return i.op == op::kControlBarrier && v.registers[i.operands[0]] == kWorkgroupScope;
}

void Workgroup::advance(std::span<Invocation> subgroup) {
  for (;;) {
    for (Invocation& v : subgroup) {
      if (v.state == Invocation::kRuns) run(v);
    }
    const Instruction* next = meeting(subgroup);
    if (next == nullptr || is_workgroup_barrier(subgroup.front())) return;
    try {
      SubgroupOperation(*this, subgroup).run(*next);
    } catch (const Fault& fault) {
      fail(subgroup.front(), fault.what());
    }
    for (Invocation& v : subgroup) {
      v.state = Invocation::kRuns;
      ++v.at;
    }
  }
}

const Instruction* Workgroup::meeting(std::span<Invocation> subgroup) const {
  const Invocation& first = subgroup.front();
  for (const Invocation& v : subgroup) {
    const bool apart = v.state != first.state || (v.state == Invocation::kWaits &&
                                                  (v.at != first.at || v.calls != first.calls));
    if (apart) {
      fail(v, "its subgroup is apart: invocation 0 " +
                  (first.state == Invocation::kDone
                       ? std::string("has ended")
                       : "is at instruction " + std::to_string(first.at) + " (operation " +
                             std::to_string(program_.code[first.at].op) + ")"));
    }
  }
  return first.state == Invocation::kDone ? nullptr : &program_.code[first.at];
}

void Workgroup::run(Invocation& v) {
  try {
    for (uint64_t made = 0; v.state == Invocation::kRuns; ++made) {
      if (program_.code[v.at].collective) {
        v.state = Invocation::kWaits;
      } else {
        step(v);
      }
      if (made == kMostInstructions) throw Fault("never ends");
    }
  } catch (const Fault& fault) {
    fail(v, fault.what());
  }
}

void Workgroup::step(Invocation& v) {
  const Instruction& i = program_.code[v.at];
  if (control(v, i)) return;
  if (!access(v, i) && !compute(i, v.registers.data())) throw Fault("is not interpreted");
  ++v.at;
}

uint64_t Workgroup::call(Invocation& v, uint32_t function, uint64_t x, uint64_t y) {
  const Function& called = program_.functions.at(function);
  const uint32_t back = v.at, result = called.parameters[0].first;
  const size_t depth = v.calls.size();
  v.registers[called.parameters[0].first] = x;
  v.registers[called.parameters.at(1).first] = y;
  v.calls.push_back({back, result, 1});
  v.at = called.first;
  while (v.calls.size() > depth) step(v);
  return v.registers[result];
}

bool Workgroup::control(Invocation& v, const Instruction& i) {
  const uint64_t* r = v.registers.data();
  const auto go = [&](uint32_t to) {
    v.from = i.operands.back();
    enter_block(v, to);
  };
  switch (i.op) {
    case op::kBranch:
      go(i.operands[0]);
      return true;
    case op::kBranchConditional:
      go(i.operands[r[i.operands[0]] != 0 ? 1 : 2]);
      return true;
    case op::kSwitch: {
      uint32_t to = i.operands[1];
      for (size_t k = 2; k + 2 < i.operands.size(); k += 2) {
        if (static_cast<uint32_t>(r[i.operands[0]]) == i.operands[k]) to = i.operands[k + 1];
      }
      go(to);
      return true;
    }
    case op::kFunctionCall:
      call(v, i);
      return true;
    case op::kReturn:
    case op::kReturnValue:
      leave(v, i);
      return true;
    case op::kUnreachable:
      throw Fault("reaches what is never reached");
    default:
      return false;
  }
}

/// Goes to the block's first instruction behind its phis, which choose by where it came from.
void Workgroup::enter_block(Invocation& v, uint32_t block) {
  std::vector<std::pair<uint32_t, uint64_t>> chosen;
  uint64_t* r = v.registers.data();
  for (; program_.code[block].op == op::kPhi; ++block) {
    const Instruction& phi = program_.code[block];
    for (size_t k = 0; k < phi.operands.size(); k += 2) {
      if (phi.operands[k + 1] != v.from) continue;
      for (uint32_t w = 0; w < phi.type->words; ++w) {
        chosen.emplace_back(phi.result + w, r[phi.operands[k] + w]);
      }
    }
  }
  for (const auto& [to, value] : chosen) r[to] = value;
  v.at = block;
}

void Workgroup::call(Invocation& v, const Instruction& i) {
  const Function& function = program_.functions.at(i.operands[0]);
  uint64_t* r = v.registers.data();
  for (size_t k = 0; k < function.parameters.size(); ++k) {
    const auto [to, words] = function.parameters[k];
    std::copy_n(r + i.operands[k + 1], words, r + to);
  }
  v.calls.push_back({v.at + 1, i.result, i.type->words});
  v.at = function.first;
}

void Workgroup::leave(Invocation& v, const Instruction& i) {
  if (v.calls.empty()) {
    v.state = Invocation::kDone;
    return;
  }
  const Invocation::Call call = v.calls.back();
  v.calls.pop_back();
  uint64_t* r = v.registers.data();
  if (i.op == op::kReturnValue) std::copy_n(r + i.operands[0], call.words, r + call.result);
  v.at = call.back;
}

uint64_t Workgroup::chain(const Invocation& v, const Instruction& i) const {
  uint64_t at = v.registers[i.operands[0]] + i.offset;
  for (const ChainIndex& step : i.chain) {
    uint64_t index = v.registers[step.index];
    if (step.type->is_signed) index = static_cast<uint64_t>(signed_of(index, step.type->bits));
    if (index >= step.limit && step.limit != UINT64_MAX) {
      throw Fault("index " + std::to_string(static_cast<int64_t>(index)) + " of an array of " +
                  std::to_string(step.limit));
    }
    at += index * step.step;
  }
  return at;
}

uint8_t* Workgroup::bytes_at(const Type& pointer, uint64_t address, uint64_t bytes, bool write,
                             const SharedMemory::Who& who) {
  if (pointer.storage == kPhysical) return memory_.at(address, bytes, write);
  if (pointer.storage == kWorkgroup) return shared_.at(address, bytes, write, who);
  if (write || address + bytes > push_.size()) throw Fault("leaves the push constants");
  return const_cast<uint8_t*>(push_.data() + address);  // NOLINT: read alone
}

bool Workgroup::access(Invocation& v, const Instruction& i) {
  uint64_t* r = v.registers.data();
  if (i.op == op::kAccessChain || i.op == op::kInBoundsAccessChain) {
    r[i.result] = chain(v, i);
    return true;
  }
  if (i.op >= op::kAtomicLoad && i.op <= op::kAtomicXor) {
    atomic(v, i);
    return true;
  }
  if (i.op != op::kLoad && i.op != op::kStore) return false;
  const Type& pointer = *i.from;
  const uint64_t address = r[i.operands[0]];
  const bool write = i.op == op::kStore;
  if (!pointer.in_bytes()) {
    if (write) {
      std::copy_n(r + i.operands[1], i.type->words, r + address);
    } else {
      std::copy_n(r + address, i.type->words, r + i.result);
    }
    return true;
  }
  if (pointer.storage == kPhysical && i.alignment > 1 && address % i.alignment != 0) {
    throw Fault("an address that is no multiple of " + std::to_string(i.alignment));
  }
  const auto at = [&](uint64_t where, uint64_t bytes) {
    return bytes_at(pointer, where, bytes, write, {v.subgroup, v.lane});
  };
  if (write) {
    write_value(*i.type, address, r + i.operands[1], at);
  } else {
    read_value(*i.type, address, r + i.result, at);
  }
  return true;
}

/// Atomic operations do not race with each other, and have no order with anything else here: those
/// of shared memory are left out.
void Workgroup::atomic(Invocation& v, const Instruction& i) {
  uint64_t* r = v.registers.data();
  const Type& pointer = *i.from;
  if (pointer.storage != kPhysical) throw Fault("is an atomic operation of shared memory");
  const Type& number = *pointer.element;
  uint8_t* at = memory_.at(r[i.operands[0]], number.bytes, i.op != op::kAtomicLoad);
  uint64_t old = 0;
  std::memcpy(&old, at, number.bytes);
  const auto operand = [&](size_t k) { return r[i.operands.at(k)]; };
  uint64_t now = old;
  switch (i.op) {
    case op::kAtomicLoad:
      break;
    case op::kAtomicStore:
    case op::kAtomicExchange:
      now = operand(3);
      break;
    case op::kAtomicCompareExchange:  // OpAtomicCompareExchange
      now = old == operand(5) ? operand(4) : old;
      break;
    case op::kAtomicIAdd:
      now = old + operand(3);
      break;
    case op::kAtomicISub:
      now = old - operand(3);
      break;
    case op::kAtomicUMin:
      now = std::min(old, operand(3));
      break;
    case op::kAtomicUMax:
      now = std::max(old, operand(3));
      break;
    case op::kAtomicAnd:
      now = old & operand(3);
      break;
    case op::kAtomicOr:
      now = old | operand(3);
      break;
    case op::kAtomicXor:
      now = old ^ operand(3);
      break;
    default:
      throw Fault("is not interpreted");
  }
  std::memcpy(at, &now, number.bytes);
  if (i.op != op::kAtomicStore) r[i.result] = old;
}

void dispatch(const Program& program, const Launch& launch, const DeviceMemory& memory) {
  for (uint32_t z = 0; z < launch.groups[2]; ++z) {
    for (uint32_t y = 0; y < launch.groups[1]; ++y) {
      for (uint32_t x = 0; x < launch.groups[0]; ++x) {
        Workgroup(program, launch, memory, {x, y, z}).run();
      }
    }
  }
}

}  // namespace tv::interpreter
