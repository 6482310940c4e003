#pragma once
// Converters: one entry per ATen operator, registered by the files in converters/. The registry is
// the only list of what is supported.
//
// An entry says in one of four ways how its operator becomes kernels:
//   expand   - rewrites the node into other operators (addmm → matmul + add). Runs first.
//   pointwise- gives a row of the pointwise table and its operands; fusion and codegen do the rest.
//   view     - describes the result as a view of its input; no kernel where consumers can read it.
//   convert  - emits tactics, each a list of kernel launches (Steps).
// The partitioner asks the same entry's `unsupported`.

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
struct Settings;  // csrc/settings.h: each row of them recompiles what includes it

/// What a decision about one node may depend on.
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
  /// The result of the operator itself, with its type before a fused epilogue.
  Result output(size_t i = 0) const;
  int64_t rank(std::string_view arg) const { return graph.rank(node.input(arg)); }
  /// `dim` wrapped into [0, rank); throws Error(kUser) out of range.
  int64_t wrap(int64_t dim, int64_t rank) const;
};

/// A pointwise operator as one instruction: the tensor arguments that it reads, in order, and the
/// row of the pointwise table. Made from the node alone.
struct PointwiseOp {
  std::vector<ValueId> operands;
  PointwiseInstr instr;  ///< operands are numbered 0 … n-1 in the order above
};

/// What an operator's results have of its first tensor argument, bit by bit and whatever the dtype.
enum class Moves : uint8_t {
  kNothing,   ///< it computes, or nobody says
  kCopies,    ///< all elements, in the same shape: clone
  kCasts,     ///< the same, but for the dtype: _to_copy
  kReshapes,  ///< all elements, in row-major order: view
  kPermutes,  ///< all elements, with the dimensions in another order: transpose
  kSpreads,   ///< all elements, over and over: expand. In the shape that they had they are a copy
  kCuts,    ///< along each dimension some in their order: slice. In the shape that they had, a copy
  kParts,   ///< the same, as several results: split
  kPicks,   ///< any elements in any order: flip, as_strided
  kJoins,   ///< all elements of a list of tensors: cat
  kStacks,  ///< the same, along a new dimension: stack
  kPads,    ///< all elements, and copies of a number around them: constant_pad_nd
  kLargest,  ///< of windows of elements the largest: max_pool2d
  kMeans,    ///< of windows of elements the mean: avg_pool2d
};

/// A product of matrices by the arguments that it reads: a · bᵀ + bias, or a · b + bias where the
/// rows of b are steps of the sum. With arguments "beta" and "alpha" it is beta · bias + alpha · …
struct ProductArgs {
  const char *a = nullptr, *b = nullptr;
  const char* bias = nullptr;  ///< null: it adds none
  bool b_by_steps = true;
};

struct Converter {
  std::string op;  ///< "aten::relu", "aten::add.Tensor", "tv::matmul"

  /// "" if the node is supported, else a sentence that a user can act on. Checks that apply to
  /// every node (dtypes that the device can store, rank, element count < 2^31) come before it.
  std::function<std::string(const NodeContext&)> unsupported = {};

  std::function<void(const NodeContext&, Rewriter&)> expand = {};
  std::function<PointwiseOp(const NodeContext&)> pointwise = {};
  /// The output as a view of the first tensor argument, given that value's layout (strides and
  /// offset in elements, relative to View::base); nullopt: it needs a copy first.
  std::function<std::optional<View>(const NodeContext&, const View& input, size_t output_index)>
      view = {};
  std::function<void(const NodeContext&, Builder&)> convert = {};

  /// Tensor arguments that `convert` reads through explicit strides (Builder::strides_of) or
  /// through flat loads at small cost, so that a view needs no copy. "*": all of them.
  std::vector<std::string> reads_views = {};
  /// A tensor argument that is read once per element, so that a pointwise prologue can be computed
  /// while reading it; "": none.
  std::string prologue_arg = {};
  /// outputs[0] is written once per element through <dst>_store, so a pointwise epilogue can fuse.
  bool epilogue = false;
  Moves moves = Moves::kNothing;
  /// Of an operator that is such a product, of matrices or of batches of them.
  std::optional<ProductArgs> product = {};
  /// Is a convolution of "input" by "weight", whose first dimension is the result's channels (its
  /// second where a flag "transposed" is set), plus "bias".
  bool convolves = false;
  /// Floating-point operations of a product, convolution or attention, a multiplication and an
  /// addition counting two (converters/kit/flops.h); others have none.
  std::function<Expr(const Graph&, const Node&)> flops = {};
  bool is_compute = true;  ///< false: free (views, getitem), not counted by min_block_size
  /// Stays float32 when others are stored in 16 bits: its results leave float16's range or need
  /// more of its mantissa (as for torch.autocast), or it reads bits, or it updates its output only
  /// in part.
  bool keeps_float32 = false;
  /// Counts places of its first argument's storage, whatever the shape says: an engine can have it
  /// where the tensor is all of that, in order, which frontends know.
  bool reads_storage = false;
  /// PyTorch refuses it for a tensor without elements: always when it runs, and not always when it
  /// traces.
  bool needs_elements = false;
  /// Tensor arguments that may be codes of small floating-point numbers, in uint8, each with an
  /// argument `<name>_format` that says of which. (What moves elements to one result as they are
  /// moves codes without any.)
  std::vector<std::string> code_args = {};
  /// Supports grouped heads: key and value, [batch, heads, …], may have fewer heads than query.
  bool groups_heads = false;
  /// True if the operator is faster when the mask is given as numbers: `first`, a tensor of one
  /// integer, and `window` (converters/attention/attention_flash.cpp).
  std::function<bool(const NodeContext&)> sees_by_place = {};
  /// `expand` translates another library's operator into this project's; it runs before all passes
  /// that look for patterns.
  bool translates = false;
  /// Arguments that keep their dtype where the operator is stored in 16 bits.
  std::vector<std::string> float32_args = {};
  /// What shapes go together: "self T[m k], mat2 T[k n] -> [m n]", or a function beside the
  /// converter (csrc/types/types.h). Graph files are checked by it. A pointwise operator has
  /// none where its result is what its tensors broadcast to, and one on complex values where ATen's
  /// holds.
  TypeRule types = {};

  /// What frontends may write as arguments: the whole schema of an operator that no library has,
  /// "tv::to_small_float(Tensor self, str format) -> Tensor"; of another the arguments that are not
  /// as the library says, or that it lacks: "Tensor? attn_bias, SymInt max_q=0".
  std::string schema = {};

  /// Graphs with one small node each that together make `convert` use every kernel variant: the
  /// kernel tests compile all tactics of each. Required if `convert` is set.
  std::function<std::vector<Graph>()> examples = {};
  std::string notes = {};  ///< for tv.supported_ops()
};

/// What the operator moves: kNothing for one that has no converter.
Moves moves_of(std::string_view op);

/// Why a frontend refuses an operator that reads storage.
inline constexpr const char* kPartOfStorage =
    "as_strided of a tensor that is not all of its storage, in order";
/// False, too, for one that has no converter.
bool reads_storage(std::string_view op);
bool needs_elements(std::string_view op);
/// Whether tensors of small floating-point numbers can be given to it by their codes.
bool takes_codes(std::string_view op);

/// The same converter, kept in float32.
inline Converter in_float32(Converter converter) {
  converter.keeps_float32 = true;
  return converter;
}

/// The same converter, with that count.
inline Converter counted(Converter converter, decltype(Converter::flops) flops) {
  converter.flops = std::move(flops);
  return converter;
}

/// The same converter, with that schema.
inline Converter described(Converter converter, std::string schema) {
  converter.schema = std::move(schema);
  return converter;
}

/// The same converter, of these types.
inline Converter typed(Converter converter, TypeRule types) {
  converter.types = std::move(types);
  return converter;
}

class Registry {
 public:
  static Registry& instance();
  void add(Converter converter);                     ///< throws on a second entry for an operator
  const Converter* find(std::string_view op) const;  ///< null if there is none
  std::vector<std::string> names() const;            ///< of all operators, in order
  /// Not while another thread may add one.
  const std::map<std::string, Converter, std::less<>>& all() const { return entries_; }

 private:
  std::map<std::string, Converter, std::less<>> entries_;
};

/// Registers at static initialisation: `static const RegisterConverter softmax{{.op = …}};`
struct RegisterConverter {
  explicit RegisterConverter(Converter converter) {
    Registry::instance().add(std::move(converter));
  }
  RegisterConverter(std::initializer_list<Converter> converters) {
    for (const Converter& c : converters) Registry::instance().add(c);
  }
};

}  // namespace tv
