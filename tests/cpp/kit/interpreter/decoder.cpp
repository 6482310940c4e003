// From the words of a module to a Program.

#include <algorithm>
#include <cstring>

#include "tests/cpp/kit/interpreter/arithmetic.h"
#include "tests/cpp/kit/interpreter/program.h"

namespace tv::interpreter {

namespace {

constexpr uint32_t kNoRegister = UINT32_MAX;
constexpr uint64_t kUnlimited = UINT64_MAX;
enum Decoration : uint32_t { kSpecId = 1, kArrayStride = 6, kBuiltIn = 11, kOffset = 35 };
constexpr uint32_t kWorkgroupSize = 25;  // as a builtin
constexpr uint32_t kLocalSize = 17, kLocalSizeId = 38;
constexpr uint32_t kAligned = 2;

std::string number(uint64_t n) { return std::to_string(n); }

struct Raw {
  uint16_t op;
  std::span<const uint32_t> words;  ///< without the first
};

bool has_no_result(uint16_t op) {
  switch (op) {
    case op::kStore:
    case op::kCopyMemory:
    case op::kControlBarrier:
    case op::kMemoryBarrier:
    case op::kAtomicStore:
    case op::kLoopMerge:
    case op::kSelectionMerge:
    case op::kBranch:
    case op::kBranchConditional:
    case op::kSwitch:
    case op::kReturn:
    case op::kReturnValue:
    case op::kUnreachable:
    case op::kMatrixStoreKhr:
    case op::kMatrixStoreNv:
      return true;
    default:
      return false;
  }
}

/// Whether an instruction is one of a subgroup or workgroup together.
bool is_collective(uint16_t op) {
  return op == op::kControlBarrier || (op >= op::kGroupElect && op <= op::kGroupLogicalXor) ||
         op == op::kMatrixLoadKhr || op == op::kMatrixStoreKhr || op == op::kMatrixMulAddKhr ||
         op == op::kMatrixReduce;
}

}  // namespace

class Decoder {
 public:
  Decoder(Program& program, std::span<const uint32_t> module, std::span<const uint32_t> constants)
      : p_(program), constants_(constants) {
    if (module.size() < 5 || module[0] != 0x07230203) throw Fault("no SPIR-V");
    registers_.resize(module[3], kNoRegister);
    types_.resize(module[3], nullptr);
    for (size_t at = 5; at < module.size();) {
      const uint32_t size = module[at] >> 16;
      if (size == 0 || at + size > module.size()) throw Fault("an instruction leaves the module");
      raw_.push_back({static_cast<uint16_t>(module[at]), module.subspan(at + 1, size - 1)});
      at += size;
    }
  }

  void run() {
    size_t i = 0;
    for (; i < raw_.size() && raw_[i].op != op::kFunction; ++i) declare(raw_[i]);
    for (size_t k = i; k < raw_.size(); ++k) reserve(raw_[k]);
    for (; i < raw_.size(); ++i) decode(raw_[i]);
    for (const auto& [instruction, operand] : labels_) {
      uint32_t& label = p_.code[instruction].operands[operand];
      label = blocks_.at(label);
    }
    if (size_mode_.size() == 3) {
      for (size_t d = 0; d < 3; ++d) {
        p_.local_size[d] =
            size_is_id_ ? static_cast<uint32_t>(constant(size_mode_[d])) : size_mode_[d];
      }
    }
    if (size_constant_ != 0) {
      for (uint32_t d = 0; d < 3; ++d) {
        p_.local_size[d] = static_cast<uint32_t>(p_.registers[registers_[size_constant_] + d]);
      }
    }
  }

 private:
  // What stands before the functions.

  void declare(const Raw& raw) {
    const auto w = raw.words;
    switch (raw.op) {
      case op::kEntryPoint:
        p_.entry = w[1];
        break;
      case op::kExecutionMode:
      case op::kExecutionModeId:
        if (w[1] == kLocalSize || w[1] == kLocalSizeId) {
          size_mode_.assign(w.begin() + 2, w.end());
          size_is_id_ = w[1] == kLocalSizeId;
        }
        break;
      case op::kDecorate:
        decorations_[{w[0], -1, w[1]}] = w.size() > 2 ? w[2] : 0;
        if (w[1] == kBuiltIn && w[2] == kWorkgroupSize) size_constant_ = w[0];
        break;
      case op::kMemberDecorate:
        decorations_[{w[0], w[1], w[2]}] = w.size() > 3 ? w[3] : 0;
        break;
      case op::kTypeForwardPointer:
        make_pointer(w[0], w[1]);
        break;
      case op::kTypeVoid:
      case op::kTypeBool:
      case op::kTypeInt:
      case op::kTypeFloat:
      case op::kTypeVector:
      case op::kTypeArray:
      case op::kTypeRuntimeArray:
      case op::kTypeStruct:
      case op::kTypePointer:
      case op::kTypeMatrixKhr:
      case op::kTypeMatrixNv:
        declare_type(raw);
        break;
      case op::kUndef:
      case op::kConstantTrue:
      case op::kConstantFalse:
      case op::kConstant:
      case op::kConstantComposite:
      case op::kConstantNull:
      case op::kSpecConstantTrue:
      case op::kSpecConstantFalse:
      case op::kSpecConstant:
      case op::kSpecConstantComposite:
      case op::kSpecConstantOp:
        declare_constant(raw);
        break;
      case op::kVariable:
        declare_variable(raw);
        break;
      default:  // capabilities, names, function types
        break;
    }
  }

  uint64_t decoration(uint32_t id, int64_t member, uint32_t which, uint64_t otherwise) const {
    const auto it = decorations_.find({id, member, which});
    return it == decorations_.end() ? otherwise : it->second;
  }

  Type& make_type(uint32_t id, Type::Kind kind) {
    Type*& type = p_.type_ids_[id];
    if (type == nullptr) type = &p_.types_.emplace_back();
    type->kind = kind;
    return *type;
  }

  void make_pointer(uint32_t id, uint32_t storage) {
    Type& type = make_type(id, Type::kPointer);
    type.storage = storage;
    type.bits = 64;
    type.words = 1;
    type.bytes = 8;
  }

  void declare_type(const Raw& raw) {
    const auto w = raw.words;
    if (raw.op == op::kTypePointer) {
      make_pointer(w[0], w[1]);
      make_type(w[0], Type::kPointer).element = &p_.type(w[2]);
      return;
    }
    constexpr Type::Kind kSimple[] = {Type::kVoid, Type::kBool, Type::kInt, Type::kFloat,
                                      Type::kVector};
    if (raw.op >= op::kTypeVoid && raw.op <= op::kTypeVector) {
      Type& type = make_type(w[0], kSimple[raw.op - 19]);
      type.words = type.kind == Type::kVoid ? 0 : 1;
      if (type.kind == Type::kBool) type.bits = 1;
      if (type.kind == Type::kInt || type.kind == Type::kFloat) type.bits = w[1];
      type.is_signed = type.kind == Type::kInt && w[2] != 0;
      type.bfloat16 = type.kind == Type::kFloat && w.size() > 2;
      type.bytes = type.kind == Type::kBool ? 4 : type.bits / 8;
      if (type.kind == Type::kVector) fill_array(type, w[1], w[2], p_.type(w[1]).bytes);
      return;
    }
    if (raw.op == op::kTypeArray) {
      fill_array(make_type(w[0], Type::kArray), w[1], static_cast<uint32_t>(constant(w[2])),
                 decoration(w[0], -1, kArrayStride, p_.type(w[1]).bytes));
    } else if (raw.op == op::kTypeRuntimeArray) {
      fill_array(make_type(w[0], Type::kRuntimeArray), w[1], 0,
                 decoration(w[0], -1, kArrayStride, p_.type(w[1]).bytes));
    } else if (raw.op == op::kTypeStruct) {
      declare_struct(w);
    } else {
      declare_matrix(raw);
    }
  }

  void fill_array(Type& type, uint32_t element, uint32_t count, uint64_t stride) {
    type.element = &p_.type(element);
    type.bits = type.element->bits;
    type.count = count;
    type.stride = stride;
    type.words = count * type.element->words;
    type.bytes = count * stride;
  }

  void declare_struct(std::span<const uint32_t> w) {
    Type& type = make_type(w[0], Type::kStruct);
    for (size_t m = 1; m < w.size(); ++m) {
      const Type& member = p_.type(w[m]);
      type.members.push_back(&member);
      type.word_at.push_back(type.words);
      type.byte_at.push_back(decoration(w[0], static_cast<int64_t>(m) - 1, kOffset, type.bytes));
      type.words += member.words;
      type.bytes = std::max(type.bytes, type.byte_at.back() + member.bytes);
    }
  }

  void declare_matrix(const Raw& raw) {
    const auto w = raw.words;
    Type& type = make_type(w[0], Type::kMatrix);
    type.element = &p_.type(w[1]);
    type.bits = type.element->bits;
    type.fragment.rows = static_cast<uint32_t>(constant(w[3]));
    type.fragment.columns = static_cast<uint32_t>(constant(w[4]));
    if (raw.op == op::kTypeMatrixKhr) {
      type.fragment.use = static_cast<Fragment::Use>(constant(w[5]));
    }
    const auto [rows, columns, use] = type.fragment;
    const bool known =
        rows == 16 ? columns == 16 || columns == kMostSteps : rows == kMostSteps && columns == 16;
    if (constant(w[2]) != 3 || !known) {
      throw Fault(
          "cooperative matrices other than a subgroup's of 16x16, and of 32 steps of k, are "
          "not interpreted");
    }
    type.count = type.words = components(p_.layout, type.fragment);
  }

  uint64_t constant(uint32_t id) const {
    if (registers_.at(id) == kNoRegister) throw Fault("%" + number(id) + " is no constant");
    return p_.registers[registers_[id]];
  }

  uint32_t new_registers(uint32_t words) {
    const auto at = static_cast<uint32_t>(p_.registers.size());
    p_.registers.resize(at + words, UINT64_MAX);  // what is not computed is no number
    return at;
  }

  void declare_constant(const Raw& raw) {
    const auto w = raw.words;
    const Type& type = p_.type(w[0]);
    const uint32_t id = w[1];
    std::vector<uint64_t> value(type.words, 0);
    const uint64_t spec = decoration(id, -1, kSpecId, UINT64_MAX);
    const bool specialised = spec < constants_.size();
    switch (raw.op) {
      case op::kConstantTrue:
      case op::kSpecConstantTrue:
        value[0] = 1;
        break;
      case op::kConstant:
      case op::kSpecConstant:
        value[0] = w[2];
        if (w.size() > 3) value[0] |= uint64_t{w[3]} << 32;
        if (type.bits < 32) value[0] &= (uint64_t{1} << type.bits) - 1;
        break;
      case op::kConstantComposite:
      case op::kSpecConstantComposite: {
        if (type.kind == Type::kMatrix) {  // of one number
          std::fill(value.begin(), value.end(), constant(w[2]));
          break;
        }
        uint32_t at = 0;
        for (const uint32_t part : w.subspan(2)) {
          for (uint32_t k = 0; k < types_[part]->words; ++k) {
            value[at++] = p_.registers[registers_[part] + k];
          }
        }
        break;
      }
      case op::kSpecConstantOp:
        declare_computed(raw);
        return;
      default:
        break;
    }
    if (specialised && (raw.op == op::kSpecConstantTrue || raw.op == op::kSpecConstantFalse))
      value[0] = constants_[spec] != 0;
    if (specialised && raw.op == op::kSpecConstant) value[0] = constants_[spec];
    const uint32_t at = new_registers(type.words);
    std::copy(value.begin(), value.end(), p_.registers.begin() + at);
    registers_[id] = at;
    types_[id] = &type;
  }

  /// OpSpecConstantOp: an instruction on what is known already.
  void declare_computed(const Raw& raw) {
    std::vector<uint32_t> words = {raw.words[0], raw.words[1]};
    words.insert(words.end(), raw.words.begin() + 3, raw.words.end());
    const Raw inner{static_cast<uint16_t>(raw.words[2]), words};
    reserve(inner);
    const size_t before = p_.code.size();
    decode(inner);
    if (p_.code.size() > before) {
      if (!compute(p_.code.back(), p_.registers.data())) {
        throw Fault("constants of operation " + number(inner.op) + " are not interpreted");
      }
      p_.code.pop_back();
    }
  }

  void declare_variable(const Raw& raw) {
    const auto w = raw.words;
    const Type& type = p_.type(w[0]);
    const Type& pointee = *type.element;
    const uint32_t at = new_registers(1);
    registers_[w[1]] = at;
    types_[w[1]] = &type;
    uint64_t address = 0;
    if (type.storage == kWorkgroup) {
      constexpr uint64_t kApart = 64;
      address = (p_.shared_bytes + kApart + 15) / 16 * 16;
      p_.shared_bytes = address + pointee.bytes;
      p_.shared.push_back({address, p_.shared_bytes});
    } else if (type.storage == kPushConstant) {
      p_.push_bytes = pointee.bytes;
    } else if (type.storage == kPhysical) {
      throw Fault("a variable in device memory");
    } else {
      const uint32_t first = new_registers(pointee.words);
      address = first;
      if (w.size() > 3) {
        std::copy_n(p_.registers.begin() + registers_[w[3]], pointee.words,
                    p_.registers.begin() + first);
      }
      const uint64_t builtin = decoration(w[1], -1, kBuiltIn, UINT64_MAX);
      if (type.storage == kInput) {
        p_.builtins.push_back({static_cast<uint32_t>(builtin), first, pointee.words});
      }
    }
    p_.registers[at] = address;
  }

  // Functions.

  /// Gives a result its registers: loops use what comes later.
  void reserve(const Raw& raw) {
    const auto w = raw.words;
    if (raw.op == op::kFunction) {
      types_[w[1]] = &p_.type(w[0]);
      return;
    }
    if (raw.op == op::kFunctionEnd || raw.op == op::kLine || raw.op == op::kNoLine ||
        raw.op == op::kNop || has_no_result(raw.op))
      return;
    if (raw.op == op::kLabel) return;
    const Type& type = p_.type(w[0]);
    types_[w[1]] = &type;
    if (raw.op != op::kVariable) registers_[w[1]] = new_registers(type.words);
  }

  void decode(const Raw& raw) {
    const auto w = raw.words;
    switch (raw.op) {
      case op::kFunction:
        function_ = w[1];
        p_.functions[function_].first = static_cast<uint32_t>(p_.code.size());
        return;
      case op::kFunctionParameter:
        p_.functions[function_].parameters.emplace_back(registers_[w[1]], types_[w[1]]->words);
        return;
      case op::kLabel:
        block_ = w[0];
        blocks_[block_] = static_cast<uint32_t>(p_.code.size());
        return;
      case op::kVariable:
        decode_variable(w);
        return;
      case op::kMatrixLengthKhr:
      case op::kMatrixLengthNv:
        p_.registers[registers_[w[1]]] = components(p_.layout, p_.type(w[2]).fragment);
        return;
      case op::kNop:
      case op::kLine:
      case op::kNoLine:
      case op::kFunctionEnd:
      case op::kUndef:
      case op::kLoopMerge:
      case op::kSelectionMerge:
      case op::kMemoryBarrier:
        return;
      default:
        break;
    }
    Instruction made;
    made.op = raw.op;
    std::span<const uint32_t> rest = w;
    if (!has_no_result(raw.op)) {
      made.type = types_[w[1]];
      made.result = registers_[w[1]];
      rest = w.subspan(2);
    }
    decode_operands(made, rest);
    // With GL_NV_cooperative_matrix2 a conversion makes an operand of sums: another layout.
    const bool deals_anew = made.op == op::kFConvert && made.type->kind == Type::kMatrix &&
                            made.type->fragment.use != made.from->fragment.use;
    made.collective = is_collective(made.op) || deals_anew;
    p_.code.push_back(std::move(made));
  }

  void decode_variable(std::span<const uint32_t> w) {
    if (registers_[w[1]] != kNoRegister) return;
    declare_variable({op::kVariable, w.first(3)});
    if (w.size() > 3) {  // set each time that it is reached
      Instruction made;
      made.op = op::kCopyObject;
      made.type = p_.type(w[0]).element;
      made.result = static_cast<uint32_t>(p_.registers[registers_[w[1]]]);
      made.operands = {reg(w[3])};
      p_.code.push_back(std::move(made));
    }
  }

  uint32_t reg(uint32_t id) const {
    if (registers_.at(id) == kNoRegister) throw Fault("%" + number(id) + " has no value");
    return registers_[id];
  }
  void add(Instruction& made, std::span<const uint32_t> ids) {
    for (const uint32_t id : ids) made.operands.push_back(reg(id));
  }
  void add_label(Instruction& made, uint32_t label) {
    labels_.emplace_back(p_.code.size(), made.operands.size());
    made.operands.push_back(label);
  }

  void decode_operands(Instruction& made, std::span<const uint32_t> w) {
    switch (made.op) {
      case op::kExtInst:
        made.operands.push_back(w[1]);
        made.from = types_[w[2]];
        add(made, w.subspan(2));
        return;
      case op::kLoad:
        add(made, w.first(1));
        made.from = types_[w[0]];
        if (w.size() > 2 && (w[1] & kAligned) != 0) made.alignment = w[2];
        return;
      case op::kStore:
        add(made, w.first(2));
        made.from = types_[w[0]];
        made.type = types_[w[1]];
        if (w.size() > 3 && (w[2] & kAligned) != 0) made.alignment = w[3];
        return;
      case op::kAccessChain:
      case op::kInBoundsAccessChain:
        decode_chain(made, w);
        return;
      case op::kCompositeExtract: {
        const auto [offset, part] = walk(types_[w[0]], w.subspan(1));
        made.op = op::kCopyObject;
        made.operands = {reg(w[0]) + offset};
        return;
      }
      case op::kCompositeInsert: {
        const auto [offset, part] = walk(made.type, w.subspan(2));
        made.operands = {reg(w[0]), reg(w[1]), offset, part->words};
        return;
      }
      case op::kCompositeConstruct:
        for (const uint32_t id : w) {
          made.operands.push_back(reg(id));
          made.operands.push_back(types_[id]->words);
        }
        return;
      case op::kVectorShuffle:
        add(made, w.first(2));
        made.from = types_[w[0]];
        made.operands.insert(made.operands.end(), w.begin() + 2, w.end());
        return;
      case op::kFunctionCall:
        made.operands.push_back(w[0]);
        add(made, w.subspan(1));
        return;
      case op::kSDot:  // of bytes in a word
        add(made, w.first(2));
        if (w.size() < 3 || w[2] != 0) throw Fault("a product of other than packed bytes");
        made.from = types_[w[0]];
        return;
      default:
        break;
    }
    if (made.op >= op::kPhi && made.op <= op::kUnreachable) {
      decode_branch(made, w);
    } else if (made.op >= op::kGroupIAdd && made.op <= op::kGroupLogicalXor) {
      made.operands = {w[1], reg(w[2])};
      made.from = types_[w[2]];
    } else if (made.op == op::kControlBarrier) {
      add(made, w);
    } else if (made.op >= op::kTypeMatrixKhr) {
      decode_matrix(made, w);
    } else {
      add(made, w);
      if (!w.empty()) made.from = types_[w[0]];
    }
  }

  void decode_branch(Instruction& made, std::span<const uint32_t> w) {
    switch (made.op) {
      case op::kPhi:
        for (size_t i = 0; i + 1 < w.size(); i += 2) {
          made.operands.push_back(reg(w[i]));
          made.operands.push_back(w[i + 1]);
        }
        return;
      case op::kBranch:
        add_label(made, w[0]);
        break;
      case op::kBranchConditional:
        add(made, w.first(1));
        add_label(made, w[1]);
        add_label(made, w[2]);
        break;
      case op::kSwitch:
        add(made, w.first(1));
        add_label(made, w[1]);
        for (size_t i = 2; i + 1 < w.size(); i += 2) {
          made.operands.push_back(w[i]);
          add_label(made, w[i + 1]);
        }
        break;
      case op::kReturnValue:
        add(made, w.first(1));
        made.type = types_[w[0]];
        break;
      default:
        break;
    }
    made.operands.push_back(block_);
  }

  /// Loads become (pointer, stride, layout), stores (pointer, matrix, stride, layout).
  void decode_matrix(Instruction& made, std::span<const uint32_t> w) {
    made.from = types_[w[0]];
    switch (made.op) {
      case op::kMatrixLoadNv:
        made.op = op::kMatrixLoadKhr;
        add(made, w.first(3));
        return;
      case op::kMatrixLoadKhr:
        made.operands = {reg(w[0]), reg(w[2]), reg(w[1])};
        return;
      case op::kMatrixStoreNv:
        made.op = op::kMatrixStoreKhr;
        add(made, w.first(4));
        made.type = types_[w[1]];
        return;
      case op::kMatrixStoreKhr:
        made.operands = {reg(w[0]), reg(w[1]), reg(w[3]), reg(w[2])};
        made.type = types_[w[1]];
        return;
      case op::kMatrixReduce:
        made.operands = {reg(w[0]), w[1], w[2]};
        return;
      case op::kMatrixMulAddNv:
      case op::kMatrixMulAddKhr:
        add(made, w.first(3));
        made.second = types_[w[1]];
        if (made.op == op::kMatrixMulAddKhr) check_signs(*made.type, w.size() > 3 ? w[3] : 0);
        made.op = op::kMatrixMulAddKhr;
        return;
      default:
        throw Fault("operation " + number(made.op) + " is not interpreted");
    }
  }

  /// Operands and sums of integers are signed; nothing is saturated.
  static void check_signs(const Type& sums, uint32_t operands) {
    constexpr uint32_t kAllSigned = 15;
    if (operands != (sums.element->kind == Type::kInt ? kAllSigned : 0)) {
      throw Fault("a product with operands of its own kind");
    }
  }

  /// Where a part of a composite in registers begins, and its type.
  std::pair<uint32_t, const Type*> walk(const Type* type,
                                        std::span<const uint32_t> literals) const {
    uint32_t offset = 0;
    for (const uint32_t index : literals) {
      if (type->kind == Type::kStruct) {
        offset += type->word_at.at(index);
        type = type->members[index];
      } else {
        type = type->element;
        offset += index * type->words;
      }
    }
    return {offset, type};
  }

  void decode_chain(Instruction& made, std::span<const uint32_t> w) {
    made.operands = {reg(w[0])};
    const bool bytes = types_[w[0]]->in_bytes();
    const Type* type = types_[w[0]]->element;
    for (const uint32_t id : w.subspan(1)) {
      const bool known = reg(id) < constants_end();
      if (type->kind == Type::kStruct) {
        const auto member = static_cast<size_t>(p_.registers[reg(id)]);
        made.offset += bytes ? type->byte_at.at(member) : type->word_at.at(member);
        type = type->members[member];
        continue;
      }
      if (type->element == nullptr) throw Fault("a chain into a number");
      const bool array = type->kind == Type::kArray || type->kind == Type::kRuntimeArray;
      const uint64_t step = !bytes  ? type->element->words
                            : array ? type->stride
                                    : type->element->bytes;
      const uint64_t limit = type->kind == Type::kRuntimeArray ? kUnlimited : type->count;
      if (known && p_.registers[reg(id)] < limit) {
        made.offset += p_.registers[reg(id)] * step;
      } else {
        made.chain.push_back({reg(id), types_[id], step, limit});
      }
      type = type->element;
    }
  }

  /// Registers before this hold constants, whose values are known.
  uint32_t constants_end() {
    if (constants_end_ == 0) {
      for (const Raw& raw : raw_) {
        if (raw.op == op::kFunction) break;
        if (raw.op >= op::kConstantTrue && raw.op <= op::kSpecConstantOp) {
          constants_end_ = std::max(constants_end_, registers_[raw.words[1]] + 1);
        }
      }
    }
    return constants_end_;
  }

  Program& p_;
  std::span<const uint32_t> constants_;
  std::vector<Raw> raw_;
  std::vector<uint32_t> registers_;  // by id
  std::vector<const Type*> types_;   // of values, by id
  std::map<std::tuple<uint32_t, int64_t, uint32_t>, uint32_t> decorations_;
  std::vector<uint32_t> size_mode_;
  bool size_is_id_ = false;
  uint32_t size_constant_ = 0;
  uint32_t function_ = 0, block_ = 0, constants_end_ = 0;
  std::map<uint32_t, uint32_t> blocks_;  // label → instruction
  std::vector<std::pair<size_t, size_t>> labels_;
};

const Type& Program::type(uint32_t id) const {
  const auto it = type_ids_.find(id);
  if (it == type_ids_.end()) throw Fault("%" + number(id) + " is no type that is interpreted");
  return *it->second;
}

Program::Program(std::span<const uint32_t> module, std::span<const uint32_t> constants,
                 FragmentLayout fragments)
    : layout(fragments) {
  Decoder(*this, module, constants).run();
}

}  // namespace tv::interpreter
