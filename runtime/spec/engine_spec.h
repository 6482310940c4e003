#pragma once
// An engine as plain data: the compiler's result, the runtime's input, and the contents of a .vke
// file.
//
// A dispatch names its operands as byte ranges of buffers; the encoder derives every barrier from
// them. Whatever depends on a shape is an Expr over the engine's symbols and is evaluated when a
// concrete shape is recorded.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/condition.h"
#include "runtime/base/dtype.h"
#include "runtime/base/expr.h"

namespace tv {

/// An input, output or weight tensor. Inputs and weights are dense row-major; an output is dense
/// in the order of its strides (a permutation of row-major). A `written` input is a result, too:
/// the engine leaves it in the input's memory.
struct Binding {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  Shape strides;  ///< in elements
  bool written = false;
  bool operator==(const Binding&) const = default;
};

enum class BufferKind : uint8_t {
  kInput,       ///< caller's memory, read only but where the input is `written`; index: into
                ///< EngineSpec::inputs
  kOutput,      ///< caller's memory, written;    index: into EngineSpec::outputs
  kWeight,      ///< caller's weights, read only; index: into EngineSpec::weights
  kPersistent,  ///< result of the weight program, kept per set of weights
  kArena,       ///< activation; lives from first to last dispatch that names it
  kCheck,       ///< where kernels report (kCheckWords), zero before a run; index: 1 if each call
                ///< waits for what they say (address checks), else the next one on CUDA tensors may
};

/// Words of a kCheck buffer: invocations that found a fault, then of the first of them the number
/// of the dispatch and what it is: an operand that was left, or a bad value (report.glsl).
/// Kernels write them by atomics alone, so dispatches need no order for them.
inline constexpr int64_t kCheckWords = 3;

struct Buffer {
  BufferKind kind = BufferKind::kArena;
  uint32_t index = 0;
  Expr size_bytes;  ///< constant for kWeight and kPersistent
  std::string name;
  bool operator==(const Buffer&) const = default;
};

/// One operand of a dispatch: `size_bytes` bytes of `buffer` from `offset_bytes`, as the kernel may
/// touch them. The address pushed is that of offset_bytes.
struct OperandRange {
  uint32_t buffer = 0;
  Expr offset_bytes, size_bytes;
  bool read = false, write = false;
  bool operator==(const OperandRange&) const = default;
};

/// A number that a kernel computes with: `value` as `dtype`, which has to hold it. 8 to 32-bit
/// integers are passed as int, bool as 0 or 1, floats as the nearest float32, int64 in two words.
struct NumberWord {
  Expr value;
  DType dtype = DType::kI32;
  bool high = false;  ///< of an int64: the upper half
  bool operator==(const NumberWord&) const = default;
};

/// A 32-bit word passed to a kernel: a size, stride or offset (modulo 2^32, as addresses count), a
/// float, or a number.
using ParamWord = std::variant<Expr, float, NumberWord>;
/// The expression that a word is computed from; null for a float.
const Expr* expr_of(const ParamWord& word);
/// A word's 32 bits at these symbols. Throws Error(kUnsupported) if the value does not fit it.
uint32_t word_at(const ParamWord& word, std::span<const int64_t> symbols);

struct Pipeline {
  uint32_t module = 0;                   ///< into EngineSpec::modules
  std::vector<uint32_t> spec_constants;  ///< constant_id 0, 1, …; 32-bit words
  uint32_t subgroup_size = 0;            ///< required size; 0: the driver's choice
  bool full_subgroups = false;
  bool param_block = false;  ///< parameters exceed 128 bytes: passed in memory, its address pushed
  bool operator==(const Pipeline&) const = default;
};

/// One kernel launch. Parameter bytes: the operands' 64-bit addresses in order, then the words.
struct Dispatch {
  std::string name;  ///< "conv2d_1+relu", leads back to the module path
  uint32_t pipeline = 0;
  std::vector<OperandRange> operands = {};
  std::vector<ParamWord> words = {};
  std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)};  ///< workgroups
  /// grid[0] counts workgroups on a line (grid[1] = grid[2] = 1); the encoder folds it into three
  /// dimensions where it passes the device's limit and the kernel's tv_group() undoes that.
  bool flat_grid = false;
  std::string tactic = {};                    ///< name of the chosen tactic
  std::string module_path = {}, source = {};  ///< "layer1.0.conv1", "model.py:42"
  std::vector<std::string> ops = {};          ///< ATen operators computed here
  float time_us = 0;                          ///< measured by the tuner; 0: not timed
  /// Loop iterations of an invocation, where a shape may ask for more than the device makes
  /// (DeviceProfile::max_loop_iterations); 0: never.
  Expr iterations = 0;
  /// Reads some rows of its weights alone: fewer bytes than a copy of them would move.
  bool looks_up = false;
  bool operator==(const Dispatch&) const = default;
};

struct EngineSpec {
  std::string name;
  std::string builder_version;
  std::string runs_on, tuned_for;  ///< fingerprints, see DeviceProfile
  std::vector<Symbol> symbols;
  std::vector<Condition> conditions;  ///< besides the symbols' ranges
  std::vector<Binding> inputs, outputs, weights;
  std::vector<Buffer> buffers;
  std::vector<std::vector<uint32_t>> modules;  ///< SPIR-V
  std::vector<Pipeline> pipelines;
  std::vector<Dispatch> weight_program;  ///< touches kWeight and kPersistent only
  std::vector<Dispatch> dispatches;
  bool operator==(const EngineSpec&) const = default;
};

/// Throws Error(kUser) for anything that an engine must not have: an index out of range, an operand
/// outside its buffer at the symbols' bounds, a write to a weight or to an input that is not
/// `written`, a kWeight size that is not constant, a symbol that no input shape determines, SPIR-V
/// without its magic number.
void validate(const EngineSpec& spec);

/// The part of `validate` that depends on the symbols' values: conditions, sizes, ranges and grids
/// at `symbols`. Of a symbolic engine `validate` can only try some values, so the runtime calls
/// this for each new shape. Throws Error(kUser), and Error(kUnsupported) for 2^31 elements and
/// more.
void validate_at(const EngineSpec& spec, std::span<const int64_t> symbols);

}  // namespace tv
