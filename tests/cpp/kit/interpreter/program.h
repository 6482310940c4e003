#pragma once
// A SPIR-V compute module, specialised and decoded for the interpreter (interpreter.h).
//
// Every value has its place in the registers of an invocation, 64-bit words: one for a number or
// pointer, as many as their parts take for composites, and the invocation's own components for a
// cooperative matrix. GLSL does not recurse, so the places are fixed for the whole module, and
// variables of invocations are registers too, their pointers the numbers of these. Pointers into
// memory that invocations share are addresses in bytes.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cpp/kit/interpreter/fragments.h"
#include "tests/cpp/kit/interpreter/opcodes.h"

namespace tv::interpreter {

/// What a kernel must not do, or what the interpreter does not know.
class Fault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum Storage : uint32_t {
  kInput = 1,
  kWorkgroup = 4,
  kPrivate = 6,
  kInFunction = 7,
  kPushConstant = 9,
  kPhysical = 5349,
};

struct Type {
  enum Kind : uint8_t {
    kVoid,
    kBool,
    kInt,
    kFloat,
    kVector,
    kArray,
    kRuntimeArray,
    kStruct,
    kPointer,
    kMatrix
  };
  Kind kind = kVoid;
  bool is_signed = false, bfloat16 = false;
  uint32_t bits = 0;              ///< of a number; of a vector's or matrix's
  uint32_t count = 0;             ///< components or elements
  uint32_t storage = 0;           ///< of a pointer
  const Type* element = nullptr;  ///< of vectors, arrays, pointers and matrices
  std::vector<const Type*> members;
  uint32_t words = 0;              ///< registers
  std::vector<uint32_t> word_at;   ///< of each member
  uint64_t bytes = 0, stride = 0;  ///< in memory; of an array's elements
  std::vector<uint64_t> byte_at;   ///< of each member
  Fragment fragment;               ///< of a cooperative matrix
  /// Whether what it points to lies in bytes.
  bool in_bytes() const {
    return storage == kPhysical || storage == kWorkgroup || storage == kPushConstant;
  }
  /// What single numbers of it are.
  const Type& number() const { return kind == kVector || kind == kMatrix ? *element : *this; }
};

/// One index of an access chain that is not known beforehand: register, step and the number of
/// elements there are.
struct ChainIndex {
  uint32_t index;
  const Type* type;  ///< of the index
  uint64_t step, limit;
};

struct Instruction {
  uint16_t op = 0;
  bool collective = false;       ///< of a subgroup or workgroup together
  const Type* type = nullptr;    ///< of the result; of what is stored
  const Type* from = nullptr;    ///< of the first operand
  const Type* second = nullptr;  ///< of a product of matrices: of its right operand
  uint32_t result = 0;           ///< a register
  /// Registers, literals, and places of instructions, in the order of the specification. Branches:
  /// the last is the block that they end.
  std::vector<uint32_t> operands;
  std::vector<ChainIndex> chain;
  uint64_t offset = 0;     ///< of an access chain: what is known of it
  uint64_t alignment = 0;  ///< of a load or store, where it names one
};

struct Function {
  uint32_t first = 0;                                     ///< instruction
  std::vector<std::pair<uint32_t, uint32_t>> parameters;  ///< registers and words of each
};

struct Builtin {
  uint32_t which, at, words;  ///< as SPIR-V numbers them; registers
};

class Program {
 public:
  /// `constants`: of ids 0, 1, …. Throws Fault on what is not known.
  Program(std::span<const uint32_t> module, std::span<const uint32_t> constants,
          FragmentLayout layout);

  std::vector<Instruction> code;
  std::vector<uint64_t> registers;  ///< as an invocation finds them: constants and pointers
  std::map<uint32_t, Function> functions;
  uint32_t entry = 0;
  std::array<uint32_t, 3> local_size = {1, 1, 1};
  uint64_t shared_bytes = 0, push_bytes = 0;
  std::vector<std::pair<uint64_t, uint64_t>>
      shared;  ///< where each shared variable begins and ends
  std::vector<Builtin> builtins;
  FragmentLayout layout = FragmentLayout::kNvidia;

  const Type& type(uint32_t id) const;

 private:
  friend class Decoder;
  std::deque<Type> types_;
  std::map<uint32_t, Type*> type_ids_;
};

}  // namespace tv::interpreter
