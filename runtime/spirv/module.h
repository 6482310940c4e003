#pragma once
// A SPIR-V compute module of unknown origin, read with bounds: instructions, ids and types. Knows
// the instructions that kernels need (spirv/grammar.cpp) and refuses every other.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tv {

/// Numbers of the SPIR-V specification that the runtime names.
namespace spv {
inline constexpr uint32_t kMagic = 0x07230203, kVersion14 = 0x00010400, kVersion16 = 0x00010600;
enum Op : uint32_t {
  kUndef = 1,
  kExtInstImport = 11,
  kExtInst = 12,
  kMemoryModel = 14,
  kEntryPoint = 15,
  kExecutionMode = 16,
  kCapability = 17,
  kTypeVoid = 19,
  kTypeBool = 20,
  kTypeInt = 21,
  kTypeFloat = 22,
  kTypeVector = 23,
  kTypeArray = 28,
  kTypeRuntimeArray = 29,
  kTypeStruct = 30,
  kTypePointer = 32,
  kTypeFunction = 33,
  kTypeForwardPointer = 39,
  kConstantTrue = 41,
  kConstant = 43,
  kConstantComposite = 44,
  kConstantNull = 46,
  kSpecConstant = 50,
  kSpecConstantOp = 52,
  kFunction = 54,
  kFunctionParameter = 55,
  kFunctionEnd = 56,
  kFunctionCall = 57,
  kVariable = 59,
  kLoad = 61,
  kStore = 62,
  kAccessChain = 65,
  kInBoundsAccessChain = 66,
  kDecorate = 71,
  kMemberDecorate = 72,
  kVectorExtractDynamic = 77,
  kVectorInsertDynamic = 78,
  kVectorShuffle = 79,
  kCompositeConstruct = 80,
  kCompositeExtract = 81,
  kCompositeInsert = 82,
  kCopyObject = 83,
  kConvertPtrToU = 117,
  kConvertUToPtr = 120,
  kBitcast = 124,
  kIAdd = 128,
  kISub = 130,
  kSDiv = 135,
  kSRem = 138,
  kSMod = 139,
  kLogicalOr = 166,
  kLogicalAnd = 167,
  kLogicalNot = 168,
  kSelect = 169,
  kIEqual = 170,
  kINotEqual = 171,
  kUGreaterThanEqual = 174,
  kULessThan = 176,
  kULessThanEqual = 178,
  kBitwiseOr = 197,
  kBitwiseAnd = 199,
  kAtomicLoad = 227,
  kAtomicStore = 228,
  kAtomicXor = 242,
  kAtomicOr = 241,
  kPhi = 245,
  kLoopMerge = 246,
  kSelectionMerge = 247,
  kLabel = 248,
  kBranch = 249,
  kBranchConditional = 250,
  kSwitch = 251,
  kReturn = 253,
  kReturnValue = 254,
  kUnreachable = 255,
  kExecutionModeId = 331,
  kAtomicFAdd = 6035,
};
enum Storage : uint32_t {
  kInput = 1,
  kWorkgroup = 4,
  kPrivate = 6,
  kInFunction = 7,
  kPushConstant = 9,
  kPhysical = 5349,
};
enum Decoration : uint32_t { kBlock = 2, kArrayStride = 6, kBuiltIn = 11, kOffset = 35 };
inline constexpr uint32_t kCapabilityShader = 1, kCapabilityInt64 = 11, kCapabilityAddresses = 5347;
inline constexpr uint32_t kPhysicalAddressing = 5348, kGlsl450 = 1;
}  // namespace spv

/// One instruction; `words` without the first, which holds its number and length.
struct SpirvInstruction {
  uint32_t op = 0;
  std::span<const uint32_t> words;
  uint32_t type = 0, result = 0;     ///< 0: none
  uint32_t operand(size_t i) const;  ///< after type and result; throws where there are fewer
  std::span<const uint32_t> operands() const;
};

/// What is known of a type, summed up when it is defined: nothing here recurses.
struct SpirvType {
  uint32_t op = 0;                    ///< 0: the id is no type
  uint32_t width = 0, count = 0;      ///< bits of a number; members, components or elements
  uint32_t element = 0, storage = 0;  ///< of vectors, arrays and pointers
  uint64_t bytes = 0;                 ///< in variables
  uint64_t memory_bytes = 0;          ///< by Offset and ArrayStride; 0: it has no layout
  uint64_t align = 1;                 ///< of its largest number
  bool aligned = true;                ///< its parts lie at multiples of theirs
  bool has_pointer = false, has_runtime_array = false;
  std::vector<uint32_t> members = {};
};

/// Throws Error(kUser): an engine's module that cannot be checked, and why.
[[noreturn]] void refuse_spirv(const std::string& what);

class SpirvModule {
 public:
  /// `words` stay the caller's. Throws Error(kUser) on anything malformed, unknown or not allowed.
  explicit SpirvModule(std::span<const uint32_t> words);

  uint32_t version() const { return version_; }
  uint32_t bound() const { return static_cast<uint32_t>(definition_.size()); }
  const std::vector<SpirvInstruction>& instructions() const { return instructions_; }
  /// Where functions begin.
  size_t first_function() const { return first_function_; }
  /// What defines `id`; throws where nothing does.
  /// The operand of a decoration of `id`, or of its member; `found`: whether it has it.
  uint32_t decoration_of(uint32_t id, int64_t member, uint32_t decoration, bool& found) const;
  const SpirvInstruction& definition(uint32_t id) const;
  size_t definition_index(uint32_t id) const;
  const SpirvType& type(uint32_t id) const;  ///< throws where `id` is no type
  uint32_t type_of(uint32_t value) const;    ///< throws where `value` has none
  bool is_type(uint32_t id) const { return id < types_.size() && types_[id].op != 0; }
  /// The value of an integer OpConstant of at most 32 bits; false for all else.
  bool constant(uint32_t id, uint32_t& value) const;
  /// The pointer type of a value; throws where it is none.
  const SpirvType& pointer(uint32_t value) const;

 private:
  void read_header(std::span<const uint32_t> words);
  void read_instruction(std::span<const uint32_t> words);
  void check_operands(const SpirvInstruction& i, const char* layout);
  void check_defined(uint32_t id) const;
  void define_type(const SpirvInstruction& i);
  void define_aggregate(const SpirvInstruction& i, SpirvType& type);

  uint32_t version_ = 0;
  std::vector<SpirvInstruction> instructions_;
  std::vector<int64_t> definition_;  ///< by id; -1: none
  std::vector<SpirvType> types_;
  std::vector<std::vector<size_t>> decorations_;  ///< by id
  std::vector<bool> announced_;                   ///< by OpTypeForwardPointer
  size_t first_function_ = 0;
  bool in_functions_ = false;
};

/// How an instruction is laid out; null: not allowed.
///
/// T result type, R result, t type, i value defined before, f id defined anywhere, l literal, s
/// text; I, L, F: any number of them to the end.
const char* spirv_layout(uint32_t op);
/// True for what may stand in functions alone, false for what stands before them; OpVariable and
/// OpUndef may do both.
bool spirv_in_function(uint32_t op);
/// Its name, for messages: "OpImageRead (98)".
std::string spirv_name(uint32_t op);
bool spirv_allows_capability(uint32_t capability);
bool spirv_allows_extension(const std::string& name);
/// Throws Error(kUser) on descriptors and on builtins that kernels do not need.
void check_spirv_decoration(const SpirvInstruction& i);

}  // namespace tv
