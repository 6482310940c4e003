#include "runtime/spirv/writer.h"

namespace tv {
namespace {

void append(std::vector<uint32_t>& to, uint32_t op, std::span<const uint32_t> words) {
  to.push_back(static_cast<uint32_t>(words.size() + 1) << 16 | op);
  to.insert(to.end(), words.begin(), words.end());
}

void append(std::vector<uint32_t>& to, uint32_t op, std::initializer_list<uint32_t> words) {
  append(to, op, std::span(words.begin(), words.size()));
}

}  // namespace

void SpirvWriter::copy(const SpirvInstruction& i) {
  switch (i.op) {
    case spv::kCapability:
    case spv::kMemoryModel:
    case spv::kEntryPoint:
      return;
    case 10:
      return append(extensions_, i.op, i.words);
    case spv::kExtInstImport:
      return append(imports_, i.op, i.words);
    case spv::kExecutionMode:
    case spv::kExecutionModeId:
      return modes_.push_back(&i);
    case spv::kDecorate:
    case spv::kMemberDecorate:
      return append(annotations_, i.op, i.words);
    default:
      append(from_.first_function() > 0 && &i < &from_.instructions()[from_.first_function()]
                 ? globals_
                 : functions_,
             i.op, i.words);
  }
}

void SpirvWriter::annotate(uint32_t op, std::initializer_list<uint32_t> words) {
  append(annotations_, op, words);
}

void SpirvWriter::global(uint32_t op, std::initializer_list<uint32_t> words) {
  append(globals_, op, words);
}

void SpirvWriter::inside(uint32_t op, std::initializer_list<uint32_t> words) {
  append(functions_, op, words);
}

void SpirvWriter::inside(uint32_t op, std::span<const uint32_t> words) {
  append(functions_, op, words);
}

uint32_t SpirvWriter::value(uint32_t op, uint32_t type, std::initializer_list<uint32_t> operands) {
  return value(op, type, std::span(operands.begin(), operands.size()));
}

uint32_t SpirvWriter::value(uint32_t op, uint32_t type, std::span<const uint32_t> operands) {
  std::vector<uint32_t> words = {type, id()};
  words.insert(words.end(), operands.begin(), operands.end());
  append(functions_, op, words);
  return words[1];
}

uint32_t SpirvWriter::unique_type(uint32_t op, std::vector<uint32_t> operands) {
  std::vector<uint32_t> key = operands;
  key.push_back(op);
  uint32_t& found = types_[key];
  if (found != 0) return found;
  for (size_t at = 0; at < from_.first_function(); ++at) {
    const SpirvInstruction& i = from_.instructions()[at];
    const auto has = i.operands();
    if (i.op == op && std::vector<uint32_t>(has.begin(), has.end()) == operands)
      return found = i.result;
  }
  found = id();
  operands.insert(operands.begin(), found);
  append(globals_, op, operands);
  return found;
}

uint32_t SpirvWriter::uint_type(uint32_t width) { return unique_type(spv::kTypeInt, {width, 0}); }
uint32_t SpirvWriter::bool_type() { return unique_type(spv::kTypeBool, {}); }
uint32_t SpirvWriter::void_type() { return unique_type(spv::kTypeVoid, {}); }

uint32_t SpirvWriter::check_type() {
  const uint32_t u64 = uint_type(64);
  return unique_type(spv::kTypeFunction, {u64, u64, u64, u64});
}

uint32_t SpirvWriter::pointer_type(uint32_t storage, uint32_t to) {
  uint32_t& found = types_[{storage, to, spv::kTypePointer}];
  if (found == 0) append(globals_, spv::kTypePointer, {found = id(), storage, to});
  return found;
}

uint32_t SpirvWriter::constant(uint32_t type, uint64_t value) {
  uint32_t& found = constants_[{type, value}];
  if (found != 0) return found;
  found = id();
  if (from_.is_type(type) ? from_.type(type).width == 64 : type == uint_type(64)) {
    append(globals_, spv::kConstant,
           {type, found, static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)});
  } else {
    append(globals_, spv::kConstant, {type, found, static_cast<uint32_t>(value)});
  }
  return found;
}

uint32_t SpirvWriter::null(uint32_t type) {
  uint32_t& found = nulls_[type];
  if (found == 0) append(globals_, spv::kConstantNull, {type, found = id()});
  return found;
}

std::vector<uint32_t> SpirvWriter::finish(uint32_t entry, std::span<const uint32_t> interface) {
  std::vector<uint32_t> out = {spv::kMagic, from_.version(), 0, next_, 0};
  bool has[3] = {};
  constexpr uint32_t kWanted[] = {spv::kCapabilityShader, spv::kCapabilityInt64,
                                  spv::kCapabilityAddresses};
  for (const SpirvInstruction& i : from_.instructions()) {
    if (i.op != spv::kCapability) continue;
    append(out, i.op, i.words);
    for (size_t k = 0; k < 3; ++k) has[k] |= i.words[0] == kWanted[k];
  }
  for (size_t k = 0; k < 3; ++k) {
    if (!has[k]) append(out, spv::kCapability, {kWanted[k]});
  }
  out.insert(out.end(), extensions_.begin(), extensions_.end());
  out.insert(out.end(), imports_.begin(), imports_.end());
  append(out, spv::kMemoryModel, {spv::kPhysicalAddressing, spv::kGlsl450});
  std::vector<uint32_t> words = {5, entry, 0x6e69616d, 0};  // GLCompute, "main"
  words.insert(words.end(), interface.begin(), interface.end());
  append(out, spv::kEntryPoint, words);
  for (const SpirvInstruction* mode : modes_) {
    words.assign(mode->words.begin(), mode->words.end());
    words[0] = entry;
    append(out, mode->op, words);
  }
  for (const auto* section : {&annotations_, &globals_, &functions_}) {
    out.insert(out.end(), section->begin(), section->end());
  }
  return out;
}

}  // namespace tv
