#include "runtime/spirv/module.h"

#include <algorithm>
#include <limits>

#include "runtime/base/error.h"

namespace tv {
namespace {

constexpr size_t kHeaderWords = 5, kMaxWords = size_t{1} << 24;
constexpr uint64_t kMostBytes = uint64_t{1} << 40;  // sizes end here, so that sums and products fit

constexpr size_t kMostMembers = 1024, kMostDecorations = 8192;

uint64_t capped(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMostBytes : std::min(product, kMostBytes);
}

bool is_debug(uint32_t op) {  // names, sources, lines
  return op == 0 || (op >= 2 && op <= 8) || op == 317 || op == 330;
}

/// Words that a text takes; 0 if it does not end.
size_t text_words(std::span<const uint32_t> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    for (int byte = 0; byte < 4; ++byte) {
      if ((words[i] >> (8 * byte) & 0xFFU) == 0) return i + 1;
    }
  }
  return 0;
}

}  // namespace

void refuse_spirv(const std::string& what) {
  throw Error(ErrorKind::kUser,
              "[check_addresses] " + what +
                  "; an engine that has to do so runs without check_addresses alone, which is for "
                  "files that you trust");
}

uint32_t SpirvInstruction::operand(size_t i) const {
  const auto all = operands();
  if (i >= all.size()) refuse_spirv(spirv_name(op) + " is too short");
  return all[i];
}

std::span<const uint32_t> SpirvInstruction::operands() const {
  return words.subspan((type != 0 ? 1 : 0) + (result != 0 ? 1 : 0));
}

SpirvModule::SpirvModule(std::span<const uint32_t> words) {
  read_header(words);
  for (size_t at = kHeaderWords; at < words.size();) {
    const size_t count = words[at] >> 16;
    if (count == 0 || count > words.size() - at)
      refuse_spirv("a module's instruction passes its end");
    if (!is_debug(words[at] & 0xFFFFU)) read_instruction(words.subspan(at, count));
    at += count;
  }
  if (!in_functions_) refuse_spirv("a module has no function");
  for (uint32_t id = 0; id < bound(); ++id) {
    if (announced_[id] && type(id).storage != spv::kPhysical)
      refuse_spirv("a module announces no pointer");
  }
}

void SpirvModule::read_header(std::span<const uint32_t> words) {
  if (words.size() < kHeaderWords || words.size() > kMaxWords || words[0] != spv::kMagic) {
    refuse_spirv("a module is not SPIR-V");
  }
  version_ = words[1];
  if (version_ < 0x00010000 || version_ > spv::kVersion16 || (version_ & 0xFF0000FFU) != 0) {
    refuse_spirv("a module is of an unknown version of SPIR-V");
  }
  const uint32_t bound = words[3];
  if (bound == 0 || bound > words.size()) refuse_spirv("a module's bound of ids is wrong");
  if (words[4] != 0) refuse_spirv("a module's schema is unknown");
  definition_.assign(bound, -1);
  types_.resize(bound);
  decorations_.resize(bound);
  announced_.assign(bound, false);
}

void SpirvModule::read_instruction(std::span<const uint32_t> words) {
  SpirvInstruction i{.op = words[0] & 0xFFFFU, .words = words.subspan(1)};
  const char* layout = spirv_layout(i.op);
  if (!layout)
    refuse_spirv("a module uses " + spirv_name(i.op) + ", which the check does not cover");
  if (i.op == spv::kCapability && words.size() == 2 && !spirv_allows_capability(words[1])) {
    refuse_spirv("a module wants the capability " + std::to_string(words[1]) +
                 (words[1] == 6022 || words[1] == 5357 ? " (matrix units)" : "") +
                 ", which the check does not cover");
  }
  const bool anywhere = i.op == spv::kVariable || i.op == spv::kUndef;
  if (i.op == spv::kFunction && !in_functions_) {
    in_functions_ = true;
    first_function_ = instructions_.size();
  }
  if (!anywhere && spirv_in_function(i.op) != in_functions_) {
    refuse_spirv("a module has " + spirv_name(i.op) + " in a wrong place");
  }
  check_operands(i, layout);
  for (const char* c = layout; *c == 'T' || *c == 'R'; ++c) {
    (*c == 'T' ? i.type : i.result) = i.words[static_cast<size_t>(c - layout)];
  }
  if (i.type != 0) type(i.type);
  if (i.result != 0) {
    if (definition_[i.result] >= 0) refuse_spirv("a module defines an id twice");
    definition_[i.result] = static_cast<int64_t>(instructions_.size());
  }
  if (i.op == spv::kDecorate || i.op == spv::kMemberDecorate) {
    if (is_type(i.words[0])) refuse_spirv("a module decorates a type behind its definition");
    if (decorations_[i.words[0]].size() == kMostDecorations)
      refuse_spirv("a module decorates an id too often");
    decorations_[i.words[0]].push_back(instructions_.size());
  }
  if (i.op == spv::kTypeForwardPointer) announced_[i.words[0]] = true;
  instructions_.push_back(i);
  if (i.op >= spv::kTypeVoid && i.op <= spv::kTypeFunction) define_type(i);
}

void SpirvModule::check_operands(const SpirvInstruction& i, const char* layout) {
  size_t at = 0;
  for (const char* c = layout; *c; ++c) {
    const bool rest = *c == 'I' || *c == 'L' || *c == 'F';
    if (!rest && at >= i.words.size())
      refuse_spirv("a module's " + spirv_name(i.op) + " is too short");
    do {
      if (at >= i.words.size()) break;
      const uint32_t word = i.words[at++];
      if (*c == 's') {
        const size_t words = text_words(i.words.subspan(at - 1));
        if (words == 0) refuse_spirv("a module has a text without an end");
        at += words - 1;
      } else if (*c != 'l' && *c != 'L') {
        if (word == 0 || word >= bound()) refuse_spirv("a module has an id outside of its bound");
        if (*c == 'i' || *c == 'I') check_defined(word);
        if (*c == 't' || *c == 'T') type(word);
      }
    } while (rest);
  }
  if (at != i.words.size()) refuse_spirv("a module's " + spirv_name(i.op) + " is too long");
}

void SpirvModule::check_defined(uint32_t id) const {
  if (definition_[id] < 0) refuse_spirv("a module uses an id before its definition");
}

const SpirvInstruction& SpirvModule::definition(uint32_t id) const {
  return instructions_[definition_index(id)];
}

size_t SpirvModule::definition_index(uint32_t id) const {
  if (id >= bound() || definition_[id] < 0)
    refuse_spirv("a module uses an id that nothing defines");
  return static_cast<size_t>(definition_[id]);
}

const SpirvType& SpirvModule::type(uint32_t id) const {
  if (!is_type(id)) refuse_spirv("a module uses an id as a type that is none");
  return types_[id];
}

uint32_t SpirvModule::type_of(uint32_t value) const {
  const uint32_t type = definition(value).type;
  if (type == 0) refuse_spirv("a module uses an id as a value that is none");
  return type;
}

const SpirvType& SpirvModule::pointer(uint32_t value) const {
  const SpirvType& found = type(type_of(value));
  if (found.op != spv::kTypePointer)
    refuse_spirv("a module uses a value as a pointer that is none");
  return found;
}

bool SpirvModule::constant(uint32_t id, uint32_t& value) const {
  if (id >= bound() || definition_[id] < 0) return false;
  const SpirvInstruction& i = definition(id);
  if (i.op != spv::kConstant || i.operands().size() != 1) return false;
  const SpirvType& number = type(i.type);
  if (number.op != spv::kTypeInt || number.width > 32) return false;
  value = i.operand(0);
  return true;
}

uint32_t SpirvModule::decoration_of(uint32_t id, int64_t member, uint32_t decoration,
                                    bool& found) const {
  found = false;
  for (const size_t at : decorations_[id]) {
    const SpirvInstruction& i = instructions_[at];
    const size_t skip = i.op == spv::kMemberDecorate ? 2 : 1;
    if ((member >= 0) != (skip == 2) || i.words.size() <= skip || i.words[skip] != decoration)
      continue;
    if (member >= 0 && i.words[1] != static_cast<uint64_t>(member)) continue;
    found = true;
    return i.words.size() > skip + 1 ? i.words[skip + 1] : 0;
  }
  return 0;
}

void SpirvModule::define_type(const SpirvInstruction& i) {
  SpirvType made{.op = i.op};
  const auto bad = [&] { refuse_spirv("a module defines a type that is wrong"); };
  switch (i.op) {
    case spv::kTypeInt:
    case spv::kTypeFloat:
      made.width = i.operand(0);
      made.bytes = made.memory_bytes = made.align = made.width / 8;
      if (made.width != 8 && made.width != 16 && made.width != 32 && made.width != 64) bad();
      if (i.op == spv::kTypeFloat && made.width == 8) bad();
      break;
    case spv::kTypeBool:
      made.bytes = 4;
      break;
    case spv::kTypePointer:
      made.storage = i.operand(0);
      made.element = i.operand(1);
      made.has_pointer = true;
      made.bytes = made.align = 8;
      made.memory_bytes = made.storage == spv::kPhysical ? 8 : 0;
      if (type(made.element).op == spv::kTypeVoid || type(made.element).op == spv::kTypeFunction)
        bad();
      if (made.storage != spv::kPhysical && type(made.element).op == spv::kTypePointer &&
          type(made.element).storage != spv::kPhysical) {
        bad();
      }
      break;
    case spv::kTypeFunction:
      made.element = i.operand(0);
      made.members.assign(i.operands().begin() + 1, i.operands().end());
      for (const uint32_t member : made.members) type(member);
      break;
    case spv::kTypeVoid:
      break;
    default:
      define_aggregate(i, made);
  }
  types_[i.result] = std::move(made);
}

/// Of values alone; pointers in them are those to device memory.
void SpirvModule::define_aggregate(const SpirvInstruction& i, SpirvType& made) {
  static const SpirvType kAddress{.op = spv::kTypePointer,
                                  .storage = spv::kPhysical,
                                  .bytes = 8,
                                  .memory_bytes = 8,
                                  .align = 8,
                                  .has_pointer = true};
  const auto part = [&](uint32_t id) -> const SpirvType& {
    const SpirvType& p = announced_[id] ? kAddress : type(id);
    const bool logical = p.op == spv::kTypePointer && p.storage != spv::kPhysical;
    if (p.op == spv::kTypeVoid || p.op == spv::kTypeFunction || logical)
      refuse_spirv("a module defines a type that is wrong");
    made.has_pointer |= p.has_pointer;
    made.has_runtime_array |= p.has_runtime_array;
    made.align = std::max(made.align, p.align);
    made.aligned &= p.aligned;
    return p;
  };
  bool found = false;
  if (i.op == spv::kTypeStruct) {
    made.members.assign(i.operands().begin(), i.operands().end());
    made.count = static_cast<uint32_t>(made.members.size());
    if (made.count > kMostMembers) refuse_spirv("a module has a structure of too many members");
    bool laid_out = true;
    for (uint32_t m = 0; m < made.count; ++m) {
      const SpirvType& p = part(made.members[m]);
      const uint64_t offset = decoration_of(i.result, m, spv::kOffset, found);
      made.aligned &= offset % p.align == 0;
      laid_out = laid_out && found && (p.memory_bytes != 0 || p.op == spv::kTypeRuntimeArray);
      made.bytes = std::min(made.bytes + p.bytes, kMostBytes);
      made.memory_bytes =
          std::max(made.memory_bytes, std::min(offset + p.memory_bytes, kMostBytes));
    }
    if (!laid_out) made.memory_bytes = 0;
    return;
  }
  made.element = i.operand(0);
  const SpirvType& p = part(made.element);
  made.has_runtime_array |= i.op == spv::kTypeRuntimeArray;
  if (i.op == spv::kTypeRuntimeArray) return;
  const bool number = p.op == spv::kTypeInt || p.op == spv::kTypeFloat || p.op == spv::kTypeBool;
  if (i.op == spv::kTypeArray) {
    if (!constant(i.operand(1), made.count) || made.count == 0 || p.op == spv::kTypeRuntimeArray) {
      refuse_spirv("a module has an array whose length is no positive constant");
    }
    const uint64_t stride = decoration_of(i.result, -1, spv::kArrayStride, found);
    made.aligned &= stride % p.align == 0;
    if (found && p.memory_bytes != 0 && p.memory_bytes < kMostBytes) {
      made.memory_bytes = std::min(capped(stride, made.count - 1) + p.memory_bytes, kMostBytes);
    }
  } else {
    made.count = i.operand(1);
    if (made.count < 2 || made.count > 4 || !number)
      refuse_spirv("a module has a vector that is wrong");
    made.memory_bytes = p.memory_bytes * made.count;
  }
  made.bytes = capped(p.bytes, made.count);
}

}  // namespace tv
