#pragma once
// Adds ATen nodes to the Graph that is being imported, and infers their shapes.

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "csrc/frontends/onnx/file/tensor.h"
#include "runtime/base/error.h"

namespace tv::onnx {

/// Thrown where sizes must be equal that are different symbols: the import starts again with one in
/// the place of the other.
struct SameSymbol {
  int32_t kept, replaced;
};

/// Thrown where nodes turn out to be untranslatable after they have left something in the graph:
/// the import starts again without them. By number, with the reason.
struct LeaveOut {
  std::map<int32_t, std::string> nodes;
  std::set<std::string> shape_inputs;  ///< whose values would have made a difference
};

/// A node that cannot be translated: collected, and reported with all others.
struct Refusal {
  std::string reason;
};

[[noreturn]] inline void refuse(const std::string& reason) { throw Refusal{reason}; }

/// Where an Emitter leaves what it makes: parts of an ImportedModel.
struct Destination {
  Graph& graph;
  std::vector<Weight>& weights;
  std::set<std::string>& elements_read;
};

class Emitter {
 public:
  /// `broadcasts`: as in ImportOptions.
  explicit Emitter(const Destination& model, bool broadcasts = false)
      : model_(model), broadcasts_(broadcasts) {}
  /// From now on nodes that would need two symbols to be one are refused.
  void keep_symbols() { merges_ = false; }

  Graph& graph() { return model_.graph; }
  /// The node that is being translated, for names and messages.
  void set_source(std::string name, std::string source, std::string module_path = {}) {
    module_path_ = module_path.empty() ? name : std::move(module_path);
    name_ = std::move(name);
    source_ = std::move(source);
  }
  /// What the nodes that follow are part of; -1: of nothing that is run as a whole.
  void set_origin(int32_t index, std::string op) {
    index_ = index;
    op_ = std::move(op);
  }

  // --- values ---
  Tensor input(const std::string& name, DType dtype, Shape shape);
  Tensor stored(std::shared_ptr<const Stored> stored);
  /// A node that nobody translates, and its results: of kOther where the type is not known.
  std::vector<Tensor> left_out(const std::string& op, std::vector<ValueId> reads,
                               const std::vector<std::pair<DType, Shape>>& outputs,
                               const std::string& reason);
  /// From now on sizes with this symbol are known where `value` is.
  void sized_by(int32_t symbol, ValueId value) { sizes_from_.emplace(symbol, value); }
  /// The values that the symbols of these are known by, beside the graph's inputs.
  std::vector<ValueId> sizes_from(const std::vector<Expr>& sizes) const;
  /// How much the graph holds: equal where nothing was added between.
  std::array<size_t, 3> extent() const {
    const Graph& g = model_.graph;
    return {g.nodes.size(), g.conditions.size(), g.symbols.size()};
  }
  /// The value in the graph: a weight or a constant is added when it is first asked for.
  ValueId id(const Tensor& tensor);
  /// The elements where they are known (small tensors of the file are read); null elsewhere.
  std::shared_ptr<const Host> host(const Tensor& tensor, int64_t limit = kMaxHostElements);
  Tensor from_host(Host host);
  Tensor integers(std::vector<Expr> values, DType dtype = DType::kI64);  ///< a vector
  Tensor number(DType dtype, double value);                              ///< a scalar
  Tensor full(const Shape& shape, DType dtype, double value);
  Tensor full_expr(const Shape& shape, DType dtype, const Expr& value);

  // --- nodes ---
  Tensor node(const std::string& op, std::vector<Arg> args, DType dtype, Shape shape);
  std::vector<Tensor> nodes(const std::string& op, std::vector<Arg> args,
                            const std::vector<std::pair<DType, Shape>>& outputs);
  Arg arg(std::string name, const Tensor& tensor);
  Arg args(std::string name, const std::vector<Tensor>& tensors);

  // --- pointwise; shapes broadcast ---
  Tensor cast(const Tensor& x, DType dtype);
  /// aten::<function>(self)
  Tensor unary(const std::string& function, const Tensor& x);
  /// aten::<function>(self) → bool
  Tensor test(const std::string& function, const Tensor& x);
  /// aten::<function>.Tensor(self, other): add, sub, mul, div, remainder, fmod, pow
  /// (Tensor_Tensor), maximum, minimum, bitwise_and …
  Tensor binary(const std::string& function, const Tensor& a, const Tensor& b);
  /// aten::<function>.Scalar(self, other)
  Tensor with(const std::string& function, const Tensor& a, double b);
  /// eq, ne, lt, le, gt, ge, logical_and … → bool
  Tensor compare(const std::string& function, const Tensor& a, const Tensor& b);
  Tensor divide(const Tensor& a, const Tensor& b, const std::string& rounding);
  Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
  Tensor clamp(const Tensor& x, double low, double high);
  Tensor add(const Tensor& a, const Tensor& b) { return binary("add", a, b); }
  Tensor sub(const Tensor& a, const Tensor& b) { return binary("sub", a, b); }
  Tensor mul(const Tensor& a, const Tensor& b) { return binary("mul", a, b); }
  Tensor div(const Tensor& a, const Tensor& b) { return binary("div", a, b); }

  // --- shapes ---
  Tensor reshape(const Tensor& x, Shape shape);
  /// Likewise, of as many elements: the caller has required that.
  Tensor counted_reshape(const Tensor& x, Shape shape);
  Tensor permute(const Tensor& x, const std::vector<int64_t>& dims);
  Tensor transpose(const Tensor& x, int64_t a, int64_t b);
  Tensor expand(const Tensor& x, const Shape& shape);
  Tensor unsqueeze(const Tensor& x, int64_t dim);
  Tensor squeeze(const Tensor& x, int64_t dim);
  Tensor slice(const Tensor& x, int64_t dim, const Expr& start, const Expr& end, int64_t step = 1);
  /// Likewise, of a range that lies within the dimension whatever its size.
  Tensor cut(const Tensor& x, int64_t dim, const Expr& start, const Expr& end, int64_t step);
  /// Element `index` of a dimension, which goes.
  Tensor select(const Tensor& x, int64_t dim, const Expr& index);
  Tensor flip(const Tensor& x, const std::vector<int64_t>& dims);
  Tensor cat(const std::vector<Tensor>& tensors, int64_t dim);
  Tensor stack(const std::vector<Tensor>& tensors, int64_t dim);
  /// Pads in torch's order: last dimension first, (before, after). Negative ones crop.
  Tensor pad(const Tensor& x, const std::vector<Expr>& pads, double value);
  /// By a tensor of one element.
  Tensor pad(const Tensor& x, const std::vector<Expr>& pads, const Tensor& value);
  Tensor copy(const Tensor& x);

  // --- rows ---
  /// sum, mean, amax, amin, prod over dims (empty: all of them)
  Tensor reduce(const std::string& function, const Tensor& x, std::vector<int64_t> dims, bool keep);
  Tensor softmax(const Tensor& x, int64_t dim, bool log = false);
  Tensor matmul(const Tensor& a, const Tensor& b);
  Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
  Tensor index(const Tensor& x, int64_t dim, const Tensor& index);  ///< below 0: from the end
  Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
  Tensor arange(const Expr& count, DType dtype);
  /// (values, indices); indices int64
  std::pair<Tensor, Tensor> topk(const Tensor& x, const Expr& k, int64_t dim, bool largest);

  /// Sizes that must be equal: symbols are merged, else the node is refused.
  Expr same(const Expr& a, const Expr& b);
  /// Sizes that must be equal: symbols are merged, else it becomes a condition. Gives the first.
  Expr equal(const Expr& a, const Expr& b);
  /// Refuses sizes that are taken for equal, and of which one may be 1 and stretch, where the
  /// import keeps these apart.
  void keep_apart(const Expr& a, const Expr& b);
  /// What the node that is translated takes for granted. Conditions that depend on sizes are
  /// checked when the engine is called; throws Error(kUser) for one that never holds.
  void require(const Expr& left, Relation relation, const Expr& right);
  Shape broadcast(const Shape& a, const Shape& b);
  /// `dim` in [0, rank); throws Refusal elsewhere.
  static int64_t wrap(int64_t dim, int64_t rank);
  Expr numel(const Tensor& x) const { return product(x.shape); }
  /// Elements of a tensor of the file are looked at.
  void note_read(const Stored& stored) { model_.elements_read.insert(stored.name); }
  int64_t node_count() const { return static_cast<int64_t>(model_.graph.nodes.size()); }

 private:
  std::string unique(const std::string& name);
  ValueId add_weight(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                     std::function<WeightBytes()> load);
  ValueId from_host_value(const std::shared_ptr<const Host>& host);
  void set_origin_of(Node& node) const;
  const Graph& graph_of() const { return model_.graph; }
  Tensor of(ValueId id) const;

  Destination model_;
  bool broadcasts_, merges_ = true;
  int32_t index_ = -1;
  std::string op_;
  std::map<int32_t, ValueId> sizes_from_;  ///< of symbols that no input of the graph gives
  std::string name_, source_, module_path_;
  std::set<std::string> names_, conditions_;
  std::map<std::string, int64_t> last_numbers_;  ///< that `unique` gave, by name
  /// Of stored and host values, with the number of what the value is part of.
  std::map<std::pair<const void*, int32_t>, ValueId> known_;
  std::map<const void*, std::shared_ptr<const Host>> read_;
  std::vector<std::shared_ptr<const void>> alive_;  ///< so that the keys above stay unique
};

/// A number as a scalar argument of operators on `dtype`.
Arg number_arg(const std::string& name, DType dtype, double value);
/// The name of a dtype, an attribute of casts.
inline Arg dtype_arg(DType dtype) { return attr_arg("dtype", dtype); }
std::vector<Expr> exprs(const std::vector<int64_t>& values);

}  // namespace tv::onnx
