// The instructions and capabilities that kernels may use, and how their words are to be read. What
// is not here could reach memory in a way that the guard does not see, or nobody needs it.

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "runtime/spirv/module.h"

namespace tv {
namespace {

struct Range {
  uint32_t first, last;
  const char* layout;
};

// By number, and in groups that are laid out alike.
constexpr Range kBefore[] = {
    {10, 10, "s"},      // Extension
    {11, 11, "Rs"},     // ExtInstImport
    {14, 14, "ll"},     // MemoryModel
    {15, 15, "lfsF"},   // EntryPoint
    {16, 16, "flL"},    // ExecutionMode
    {17, 17, "l"},      // Capability
    {19, 20, "R"},      // TypeVoid, Bool
    {21, 21, "Rll"},    // TypeInt
    {22, 22, "Rl"},     // TypeFloat
    {23, 23, "Rtl"},    // TypeVector
    {28, 28, "Rti"},    // TypeArray
    {29, 29, "Rt"},     // TypeRuntimeArray
    {30, 30, "RF"},     // TypeStruct: of types, pointers announced before
    {32, 32, "Rlt"},    // TypePointer
    {33, 33, "RtI"},    // TypeFunction
    {39, 39, "fl"},     // TypeForwardPointer
    {41, 42, "TR"},     // ConstantTrue, False
    {43, 43, "TRL"},    // Constant
    {44, 44, "TRI"},    // ConstantComposite
    {46, 46, "TR"},     // ConstantNull
    {48, 49, "TR"},     // SpecConstantTrue, False
    {50, 50, "TRL"},    // SpecConstant
    {51, 51, "TRI"},    // SpecConstantComposite
    {52, 52, "TRlL"},   // SpecConstantOp
    {71, 71, "flL"},    // Decorate
    {72, 72, "fllL"},   // MemberDecorate
    {331, 331, "flF"},  // ExecutionModeId
};
constexpr Range kInside[] = {
    {12, 12, "TRilI"},       // ExtInst
    {54, 54, "TRlt"},        // Function
    {55, 55, "TR"},          // FunctionParameter
    {56, 56, ""},            // FunctionEnd
    {57, 57, "TRfI"},        // FunctionCall
    {61, 61, "TRiL"},        // Load
    {62, 62, "iiL"},         // Store
    {65, 66, "TRiI"},        // AccessChain, InBoundsAccessChain
    {77, 77, "TRii"},        // VectorExtractDynamic
    {78, 78, "TRiii"},       // VectorInsertDynamic
    {79, 79, "TRiiL"},       // VectorShuffle
    {80, 80, "TRI"},         // CompositeConstruct
    {81, 81, "TRiL"},        // CompositeExtract
    {82, 82, "TRiiL"},       // CompositeInsert
    {83, 83, "TRi"},         // CopyObject
    {109, 117, "TRi"},       // conversions, ConvertPtrToU
    {120, 120, "TRi"},       // ConvertUToPtr
    {124, 124, "TRi"},       // Bitcast
    {126, 127, "TRi"},       // SNegate, FNegate
    {128, 142, "TRii"},      // arithmetic of numbers and vectors
    {148, 152, "TRii"},      // Dot, IAddCarry … SMulExtended
    {154, 157, "TRi"},       // Any, All, IsNan, IsInf
    {164, 167, "TRii"},      // LogicalEqual … LogicalAnd
    {168, 168, "TRi"},       // LogicalNot
    {169, 169, "TRiii"},     // Select
    {170, 191, "TRii"},      // comparisons
    {194, 199, "TRii"},      // shifts, Or, Xor, And
    {200, 200, "TRi"},       // Not
    {201, 201, "TRiiii"},    // BitFieldInsert
    {202, 203, "TRiii"},     // BitFieldSExtract, UExtract
    {204, 205, "TRi"},       // BitReverse, BitCount
    {224, 224, "iii"},       // ControlBarrier
    {225, 225, "ii"},        // MemoryBarrier
    {227, 227, "TRiii"},     // AtomicLoad
    {228, 228, "iiii"},      // AtomicStore
    {229, 229, "TRiiii"},    // AtomicExchange
    {230, 230, "TRiiiiii"},  // AtomicCompareExchange
    {232, 233, "TRiii"},     // AtomicIIncrement, IDecrement
    {234, 242, "TRiiii"},    // AtomicIAdd … Xor
    {245, 245, "TRF"},       // Phi
    {246, 246, "fflL"},      // LoopMerge
    {247, 247, "fl"},        // SelectionMerge
    {248, 248, "R"},         // Label
    {249, 249, "f"},         // Branch
    {250, 250, "iffL"},      // BranchConditional
    {251, 251, "ifL"},       // Switch
    {253, 253, ""},          // Return
    {254, 254, "i"},         // ReturnValue
    {255, 255, ""},          // Unreachable
    {333, 333, "TRi"},       // GroupNonUniformElect
    {334, 336, "TRii"},      // All, Any, AllEqual
    {337, 337, "TRiii"},     // Broadcast
    {338, 340, "TRii"},      // BroadcastFirst, Ballot, InverseBallot
    {341, 342, "TRiii"},     // BallotBitExtract, BallotBitCount (see below)
    {343, 344, "TRii"},      // BallotFindLSB, FindMSB
    {345, 348, "TRiii"},     // Shuffle, ShuffleXor, ShuffleUp, ShuffleDown
    {349, 364, "TRiliI"},    // reductions
    {4450, 4450, "TRiil"},   // SDot of packed vectors
    {6035, 6035, "TRiiii"},  // AtomicFAddEXT
};
constexpr Range kAnywhere[] = {
    {1, 1, "TR"},      // Undef
    {59, 59, "TRlI"},  // Variable
};

const char* layout_in(const auto& ranges, uint32_t op) {
  const auto found =
      std::ranges::find_if(ranges, [&](const Range& r) { return op >= r.first && op <= r.last; });
  return found == std::end(ranges) ? nullptr : found->layout;
}

// Those that a kernel is likely to come with, for messages.
const std::map<uint32_t, const char*> kRefused = {{24, "OpTypeMatrix"},
                                                  {25, "OpTypeImage"},
                                                  {26, "OpTypeSampler"},
                                                  {27, "OpTypeSampledImage"},
                                                  {31, "OpTypeOpaque"},
                                                  {60, "OpImageTexelPointer"},
                                                  {63, "OpCopyMemory"},
                                                  {64, "OpCopyMemorySized"},
                                                  {67, "OpPtrAccessChain"},
                                                  {68, "OpArrayLength"},
                                                  {73, "OpDecorationGroup"},
                                                  {98, "OpImageRead"},
                                                  {99, "OpImageWrite"},
                                                  {252, "OpKill"},
                                                  {400, "OpCopyLogical"},
                                                  {4456, "OpTypeCooperativeMatrixKHR"},
                                                  {5341, "OpTypeAccelerationStructureKHR"},
                                                  {5358, "OpTypeCooperativeMatrixNV"}};

// Shader, Matrix, numbers of other widths, subgroups, 8 and 16 bits in memory, float controls,
// addresses, dot products of packed bytes, floats added atomically.
constexpr uint32_t kCapabilities[] = {0,    1,    9,    10,   11,   12,   22,   39,   61,   62,
                                      63,   64,   65,   66,   67,   4433, 4434, 4435, 4448, 4449,
                                      4450, 4464, 4466, 4467, 4468, 5347, 6018, 6019, 6033};

}  // namespace

const char* spirv_layout(uint32_t op) {
  if (op == 342) return "TRili";  // BallotBitCount
  if (const char* layout = layout_in(kBefore, op)) return layout;
  if (const char* layout = layout_in(kInside, op)) return layout;
  return layout_in(kAnywhere, op);
}

bool spirv_in_function(uint32_t op) { return layout_in(kInside, op) != nullptr; }

std::string spirv_name(uint32_t op) {
  const auto found = kRefused.find(op);
  const std::string number = std::to_string(op);
  return found == kRefused.end() ? "instruction " + number
                                 : std::string(found->second) + " (" + number + ")";
}

bool spirv_allows_capability(uint32_t capability) {
  return std::ranges::find(kCapabilities, capability) != std::end(kCapabilities);
}

bool spirv_allows_extension(const std::string& name) {
  constexpr std::string_view kNames[] = {"SPV_KHR_physical_storage_buffer",
                                         "SPV_KHR_16bit_storage",
                                         "SPV_KHR_8bit_storage",
                                         "SPV_KHR_float_controls",
                                         "SPV_KHR_integer_dot_product",
                                         "SPV_KHR_storage_buffer_storage_class",
                                         "SPV_EXT_shader_atomic_float_add",
                                         "SPV_EXT_physical_storage_buffer"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

void check_spirv_decoration(const SpirvInstruction& i) {
  const size_t skip = i.op == spv::kMemberDecorate ? 2 : 1;
  const uint32_t what = i.words[skip];
  // Descriptors, locations, other builtins' places.
  if (what == 33 || what == 34 || what == 30 || what == 31) {
    refuse_spirv("a module uses a descriptor (a buffer or image by set and binding)");
  }
  if (what != spv::kBuiltIn) return;
  const uint32_t builtin = i.words.size() > skip + 1 ? i.words[skip + 1] : 0;
  const bool known = (builtin >= 24 && builtin <= 29) || (builtin >= 36 && builtin <= 41) ||
                     (builtin >= 4416 && builtin <= 4420);
  if (!known || skip == 2) refuse_spirv("a module uses the builtin " + std::to_string(builtin));
}

}  // namespace tv
