#pragma once
// For converters: pieces of Steps, and example graphs.

#include <string>
#include <utility>
#include <vector>

#include "csrc/builder.h"
#include "csrc/rewriter.h"
#include "runtime/base/error.h"

namespace tv {

/// The value of an expression at the symbols' typical (opt) values. For choosing only, never for
/// sizes.
int64_t typical(const Graph& graph, const Expr& expr);

/// a / b, rounded up, of sizes that are known: ceil_div is that of expressions.
inline int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// A flat grid with at least one invocation for each of `count` elements, for workgroups of
/// `local_x`.
Grid one_each(const Expr& count, uint32_t local_x);

/// Emits `step` as the only tactic, with one invocation for each of `count` elements.
void emit_flat(Builder& builder, Step step, const Expr& count);

Param param(std::string name, Expr value);     ///< a size, stride or offset: a uint in the kernel
Param fixed(std::string name, Expr value);     ///< the same as a specialisation constant
Param number(std::string name, double value);  ///< a float in the kernel

std::string text(int64_t value);  ///< for a define
std::string flag(bool value);     ///< "1" or "0"

/// The number in argument `arg`, integer or float, as a parameter for elements of `dtype`: a fill
/// value.
Param fill_param(std::string name, const Node& node, std::string_view arg, DType dtype);
/// "" if fill_param can pass the number on, as far as it is known, else the reason.
std::string fill_unsupported(const Node& node, std::string_view arg, DType dtype);

Expr product_of(const Shape& shape, size_t first, size_t last);  ///< of dimensions [first, last)

/// A tensor split at one dimension: element (o, i, k) is number (o · size + i) · inner + k.
struct DimSplit {
  Expr outer = 1, size = 1, inner = 1;
};
/// For rank 0 (where torch allows dim 0 and -1) everything is 1.
DimSplit split_at(const Shape& shape, int64_t dim);

/// A tensor argument as `convert` reads it: through its view's strides, or in row-major order if a
/// fused prologue computes it.
struct Source {
  ValueId value = kNoValue;
  Shape shape = {}, strides = {};
  bool raw = true;
  /// A define of <operand>_element(i), which loads from an offset made of `strides`.
  std::pair<std::string, std::string> accessor(const std::string& operand) const;
};
Source source_of(const NodeContext& context, const Builder& builder, const std::string& arg);

/// A strided loop nest: `sizes` outermost first, and for each target a list of strides, in
/// elements.
struct LoopNest {
  Shape sizes = {};
  std::vector<std::pair<std::string, Shape>> targets = {};
  /// Joins neighbouring loops that every target steps through as one, and drops sizes of 1.
  void collapse();
  Expr count() const { return product(sizes); }
  /// Adds the sizes and strides as parameters, and a define NAME_OFFSETS(i) that declares
  /// <target>_offset, the offset at iteration i, for each target.
  void add_to(Step& step, const std::string& name) const;
};

/// The GLSL function that kernels apply to an index: tv_place, which reports one that is out of
/// range, or tv_near, for PyTorch's _unsafe_ operators and for nodes that an expansion made with
/// `indices_of_nothing`.
std::string place_function(const NodeContext& context);
bool checks_indices(const NodeContext& context);
/// An argument that marks a node whose indices may be out of range, because what is read or written
/// there does not count.
Arg indices_of_nothing();
/// An argument that marks a node whose negative indices are out of range: an index_put that stands
/// for index_add or index_copy. index_wraps: whether they count from the end.
Arg indices_from_front();
bool index_wraps(const Node& node);

/// Whether some node or the graph's outputs read the value.
bool is_used(const Graph& graph, ValueId value);

/// "" if the device can run `iterations` loop iterations in one invocation (Step::iterations), else
/// the reason. Of a symbolic number the smallest value is checked.
std::string loops_too_long(const NodeContext& context, const Expr& iterations);

/// "" if both the argument and the output are of a floating type, else the reason.
std::string floats_only(const NodeContext& context, const std::string& arg);
/// The GLSL type that kernels compare elements of a dtype as: "float", "int64_t" or "int".
std::string key_type(DType dtype);

/// A graph with one node, for Converter::examples.
class ExampleGraph {
 public:
  explicit ExampleGraph(std::string op) {
    node_.op = std::move(op);
    node_.name = "node";
  }
  ExampleGraph& input(std::string arg, DType dtype, Shape shape);
  ExampleGraph& none(std::string arg) { return attr(std::move(arg), std::monostate{}); }
  ExampleGraph& inputs(std::string arg, std::vector<std::pair<DType, Shape>> tensors);
  ExampleGraph& attr(std::string arg, Attr value);
  ExampleGraph& output(DType dtype, Shape shape);
  Graph graph() const;

 private:
  ValueId add_input(DType dtype, Shape shape);
  Graph graph_;
  Node node_;
};

/// Attribute values from literals.
Attr ints(std::vector<int64_t> values);
Attr integer(int64_t value);

}  // namespace tv
