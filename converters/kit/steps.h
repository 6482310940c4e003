#pragma once
// What converters share: pieces of Steps, and example graphs.

#include <string>
#include <utility>
#include <vector>

#include "csrc/builder.h"
#include "csrc/rewriter.h"
#include "runtime/base/error.h"

namespace tv {

/// The value of an expression at the symbols' typical (opt) values: for choosing, never for sizes.
int64_t typical(const Graph& graph, const Expr& expr);

/// A flat grid with at least one invocation for each of `count` elements.
Grid one_each(const Expr& count, uint32_t local_x);

/// One invocation for each of `count` elements, as the only tactic.
void emit_flat(Builder& builder, Step step, const Expr& count);

Param param(std::string name, Expr value);
Param fixed(std::string name, Expr value);  ///< becomes a specialisation constant
Param number(std::string name, double value);

std::string text(int64_t value);  ///< what a define says
std::string flag(bool value);     ///< "1" or "0"

/// A number of either kind, as an operator's fill value for elements of `dtype`.
Param fill_param(std::string name, const Node& node, std::string_view arg, DType dtype);
/// "" where fill_param can pass the number on, as far as it is known.
std::string fill_unsupported(const Node& node, std::string_view arg, DType dtype);

Expr product_of(const Shape& shape, size_t first, size_t last);  ///< of dimensions [first, last)

/// A tensor split at one dimension: element (o, i, k) is number (o · size + i) · inner + k.
struct DimSplit {
  Expr outer = 1, size = 1, inner = 1;
};
/// For rank 0 (where torch allows dim 0 and -1) everything is 1.
DimSplit split_at(const Shape& shape, int64_t dim);

/// A tensor argument as `convert` reads it: through its view's strides, or, where a pointwise head
/// is computed on the fly, in row-major order.
struct Source {
  ValueId value = kNoValue;
  Shape shape = {}, strides = {};
  bool raw = true;
  /// A define of <operand>_element(i), which loads from an offset made of `strides`.
  std::pair<std::string, std::string> accessor(const std::string& operand) const;
};
Source source_of(const NodeContext& context, const Builder& builder, const std::string& arg);

/// Nested loops over coordinates: `sizes` outermost first, one list of strides per target.
struct LoopNest {
  Shape sizes = {};
  std::vector<std::pair<std::string, Shape>> targets = {};
  /// Joins neighbours that every target steps through like one, drops sizes of 1.
  void collapse();
  Expr count() const { return product(sizes); }
  /// Adds the sizes and strides as parameters and a define NAME_OFFSETS(i), which
  /// declares <target>_offset, the offset at iteration i, for each target.
  void add_to(Step& step, const std::string& name) const;
};

/// What kernels make of an index: tv_place, which says where it is out of range, or tv_near of
/// PyTorch's _unsafe_ operators and of nodes that an expansion made with `indices_of_nothing`.
std::string place_function(const NodeContext& context);
bool checks_indices(const NodeContext& context);
/// Among the arguments of a node: its indices may be out of range, where nothing is read or written
/// that counts.
Arg indices_of_nothing();

/// Whether some node or the graph's outputs read the value.
bool is_used(const Graph& graph, ValueId value);

/// "" where the device makes `iterations` loop iterations in one invocation (Step::iterations), of
/// a symbolic number the least.
std::string loops_too_long(const NodeContext& context, const Expr& iterations);

/// "" where both the argument and the output are of a floating type.
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
