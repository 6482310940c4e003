#pragma once
// Converters: one entry per operator, registered by the files in converters/. The registry is the
// only list of what is supported.
//
// An entry turns its operator into kernels in one of four ways:
//   expand    - rewrites the node into other operators (addmm → matmul + add). Runs first.
//   pointwise - names a row of the pointwise table and its operands; fusion and codegen follow.
//   view      - describes the result as a view of the input, which needs no kernel if those that
//               use it can read through strides.
//   convert   - emits tactics, each a list of kernel launches (Steps).
// The partitioner calls the same entry's `unsupported`.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/types/types.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

class Builder;    // csrc/builder.h: what `convert` emits into
class Rewriter;   // csrc/rewriter.h: what `expand` writes into
struct Settings;  // csrc/settings.h, not included here: every new setting would recompile us

/// Everything that a decision about one node may depend on.
struct NodeContext {
  const Graph& graph;
  const Node& node;
  const DeviceProfile& device;
  const Settings& settings;

  const Value& value(std::string_view arg) const { return graph.value(node.input(arg)); }
  const Shape& shape(std::string_view arg) const { return value(arg).shape; }
  DType dtype(std::string_view arg) const { return value(arg).dtype; }
  struct Result {
    const Shape& shape;
    DType dtype;
  };
  /// The result of the operator itself, with the dtype that it has before a fused epilogue.
  Result output(size_t i = 0) const;
  int64_t rank(std::string_view arg) const { return graph.rank(node.input(arg)); }
  /// `dim` wrapped into [0, rank); throws Error(kUser) out of range.
  int64_t wrap(int64_t dim, int64_t rank) const;
};

/// A pointwise operator as one instruction: the tensor arguments that it reads, in order, and the
/// row of the pointwise table. It depends on the node alone.
struct PointwiseOp {
  std::vector<ValueId> operands;
  PointwiseInstr instr;  ///< numbers its operands 0 … n-1, in the order above
};

/// How an operator that computes nothing moves the elements of its first tensor argument, bit by
/// bit and whatever their dtype.
enum class Moves : uint8_t {
  kNothing,   ///< it computes, or the entry does not say
  kCopies,    ///< all elements, in the same shape: clone
  kCasts,     ///< the same in another dtype: _to_copy
  kReshapes,  ///< all elements, in row-major order: view
  kPermutes,  ///< all elements, with the dimensions in another order: transpose
  kSpreads,   ///< all elements, repeated: expand. A copy if the shape stays the same
  kCuts,      ///< along each dimension some, in order: slice. A copy if the shape stays the same
  kParts,     ///< the same, as several results: split
  kPicks,     ///< any elements in any order: flip, as_strided
  kJoins,     ///< all elements of a list of tensors: cat
  kStacks,    ///< the same, along a new dimension: stack
  kPads,      ///< all elements, surrounded by copies of a number: constant_pad_nd
  kLargest,   ///< the largest element of each window: max_pool2d
  kMeans,     ///< the mean of each window: avg_pool2d
};

/// The arguments of a matrix product, which is a · b + bias or, without `b_by_steps`, a · bᵀ +
/// bias. If the operator has arguments "beta" and "alpha", it is beta · bias + alpha · …
struct ProductArgs {
  const char *a = nullptr, *b = nullptr;
  const char* bias = nullptr;  ///< null: there is none
  bool b_by_steps = true;      ///< the rows of b, not its columns, are steps of the sum
};

struct Converter {
  std::string op;  ///< "aten::relu", "aten::add.Tensor", "tv::matmul"

  /// "" if the node is supported, else the reason, as a sentence that a user can act on. What every
  /// node needs (dtypes that the device can store, rank, element count < 2^31) is checked before.
  std::function<std::string(const NodeContext&)> unsupported = {};

  std::function<void(const NodeContext&, Rewriter&)> expand = {};
  std::function<PointwiseOp(const NodeContext&)> pointwise = {};
  /// The output as a view of the first tensor argument, whose layout `input` is (strides and offset
  /// in elements, relative to View::base); nullopt: the argument has to be copied first.
  std::function<std::optional<View>(const NodeContext&, const View& input, size_t output_index)>
      view = {};
  std::function<void(const NodeContext&, Builder&)> convert = {};

  /// Tensor arguments that may be views without being copied first, because `convert` reads them
  /// through explicit strides (Builder::strides_of) or through x_load at little cost. "*": all.
  std::vector<std::string> reads_views = {};
  /// A tensor argument each of whose elements is read once, so that a pointwise prologue can be
  /// computed while it is read; "": none.
  std::string prologue_arg = {};
  /// Each element of outputs[0] is written once, through <dst>_store, so that a pointwise epilogue
  /// can be fused.
  bool epilogue = false;
  Moves moves = Moves::kNothing;
  /// Set if the operator is a product of matrices, or of batches of them.
  std::optional<ProductArgs> product = {};
  /// The operator is a convolution of "input" with "weight", plus "bias". The first dimension of
  /// "weight" is the result's channels, or the second if the flag "transposed" is set.
  bool convolves = false;
  /// The number of floating-point operations of a product, convolution or attention, where a
  /// multiplication and an addition count as two (converters/kit/flops.h); others leave it out.
  std::function<Expr(const Graph&, const Node&)> flops = {};
  bool is_compute = true;  ///< false: costs nothing (views), so min_block_size does not count it
  /// Stays float32 where other operators are lowered to 16 bits: its results exceed float16's range
  /// or need more than its mantissa (as with torch.autocast), or it reads the bits of its input, or
  /// it updates only part of its output.
  bool keeps_float32 = false;
  /// Addresses the storage of its first argument, whatever the shape says (as_strided). Engines
  /// take it only if the tensor is all of its storage, in order, which frontends know.
  bool reads_storage = false;
  /// PyTorch refuses a tensor without elements: always when it runs the operator, but not always
  /// when it traces it.
  bool needs_elements = false;
  /// Tensor arguments that may hold small floating-point numbers as codes in uint8. For each there
  /// is an argument `<name>_format`, which names the format. (Operators that only move elements, to
  /// one result, take codes without it.)
  std::vector<std::string> code_args = {};
  /// Supports grouped-query attention: key and value, [batch, heads, …], may have fewer heads than
  /// query.
  bool groups_heads = false;
  /// Whether the operator is faster if its mask is given as numbers: `first`, a tensor of one
  /// integer, and `window` (converters/attention/attention_flash.cpp).
  std::function<bool(const NodeContext&)> sees_by_place = {};
  /// `expand` translates an operator of another library into this project's. It runs before all
  /// passes that look for patterns.
  bool translates = false;
  /// Arguments that keep their dtype where the operator is lowered to 16 bits.
  std::vector<std::string> float32_args = {};
  /// Which shapes go together: "self T[m k], mat2 T[k n] -> [m n]", or a function beside the
  /// converter (csrc/types/types.h). Graph files are checked with it. A pointwise operator whose
  /// result has the shape that its tensors broadcast to needs none, and neither does an operator on
  /// complex values for which the rule of ATen's operator holds.
  TypeRule types = {};

  /// Which arguments frontends may write. For an operator that no library has, this is the whole
  /// schema, "tv::to_small_float(Tensor self, str format) -> Tensor"; for others only the arguments
  /// that the library lacks or declares otherwise: "Tensor? attn_bias, SymInt max_q=0".
  std::string schema = {};

  /// Graphs of one small node each that together make `convert` use every kernel variant. The
  /// kernel tests compile all tactics of each. Required if `convert` is set.
  std::function<std::vector<Graph>()> examples = {};
  std::string notes = {};  ///< for tv.supported_ops()
};

/// Converter::moves of an operator; kNothing if it has no converter.
Moves moves_of(std::string_view op);

/// The reason with which frontends refuse an operator that reads storage.
inline constexpr const char* kPartOfStorage =
    "as_strided of a tensor that is not all of its storage, in order";
/// The fields of the same names; false if the operator has no converter.
bool reads_storage(std::string_view op);
bool needs_elements(std::string_view op);
/// Whether the operator takes tensors of small floating-point numbers as codes.
bool takes_codes(std::string_view op);

/// The converter with keeps_float32 set.
inline Converter in_float32(Converter converter) {
  converter.keeps_float32 = true;
  return converter;
}

/// The converter with this count of operations.
inline Converter counted(Converter converter, decltype(Converter::flops) flops) {
  converter.flops = std::move(flops);
  return converter;
}

/// The converter with this schema.
inline Converter described(Converter converter, std::string schema) {
  converter.schema = std::move(schema);
  return converter;
}

/// The converter with this type rule.
inline Converter typed(Converter converter, TypeRule types) {
  converter.types = std::move(types);
  return converter;
}

class Registry {
 public:
  static Registry& instance();
  void add(Converter converter);                     ///< throws if the operator has an entry
  const Converter* find(std::string_view op) const;  ///< null if there is none
  std::vector<std::string> names() const;            ///< of all operators, sorted
  /// Must not be used while another thread may add an entry.
  const std::map<std::string, Converter, std::less<>>& all() const { return entries_; }

 private:
  std::map<std::string, Converter, std::less<>> entries_;
};

/// Registers a converter at static initialisation: `static const RegisterConverter softmax{{.op =
/// …}};`
struct RegisterConverter {
  explicit RegisterConverter(Converter converter) {
    Registry::instance().add(std::move(converter));
  }
  RegisterConverter(std::initializer_list<Converter> converters) {
    for (const Converter& c : converters) Registry::instance().add(c);
  }
};

}  // namespace tv
