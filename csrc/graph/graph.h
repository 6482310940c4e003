#pragma once
// The Graph, as plain data. Importers create it, and each pass turns one Graph into another.
//
// Operators go by their full names, "aten::add.Tensor" (without the overload if it is `default`:
// "aten::relu"). They are ATen's functional operators and those of other libraries. Two prefixes
// belong to this project: "tv::" for operators that ATen does not have, which passes and importers
// create, and "complex::" for ATen's operators on complex values that are held as pairs of floats
// (converters/complex/complex.h).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "csrc/graph/pointwise_program.h"
#include "runtime/base/condition.h"
#include "runtime/base/dtype.h"
#include "runtime/base/expr.h"

namespace tv {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

enum class ValueKind : uint8_t { kInput, kWeight, kNode };

/// Where the elements of a value lie if it is a view of another value: element (i0, i1, …) is
/// base[offset + Σ i_k · strides_k]. choose_layouts sets it; `base` itself is never a view.
struct View {
  ValueId base = kNoValue;
  Expr offset;
  Shape strides;
  bool operator==(const View&) const = default;
};

struct Value {
  std::string name;
  DType dtype = DType::kOther;
  Shape shape;
  ValueKind kind = ValueKind::kNode;
  std::optional<View> view;  ///< empty: dense, row-major, in storage of its own
  /// 2:4 sparsity of a weight that is a matrix, if its elements were examined: bit d is set if at
  /// most two of any four neighbours along dimension d are nonzero.
  uint8_t two_four = 0;
  /// An int8 weight that the model has in a 4-bit dtype: its elements are between -8 and 7.
  bool four_bits = false;
};

/// An attribute. monostate stands for None; integers are Exprs because they may be symbolic.
using Attr = std::variant<std::monostate, bool, Expr, double, std::string, DType, std::vector<Expr>,
                          std::vector<double>, std::vector<bool>>;

/// One argument of the operator's schema, with defaults filled in. A tensor argument holds values
/// (kNoValue for None); `is_list` distinguishes Tensor[] from Tensor.
struct Arg {
  std::string name;
  bool is_tensor = false, is_list = false;
  std::vector<ValueId> values;
  Attr attr;
};

/// What a frontend says about a node besides what the node computes. plan() reads it; passes do
/// not.
struct Origin {
  int32_t index = -1;    ///< the frontend's own number of the model's node that this is part of
  bool whole = false;    ///< the frontend runs that node of the model as a whole or not at all
  std::string op;        ///< the operator in the model, if it differs from Node::op
  std::string refusal;   ///< why the Graph cannot express the node, which then stays native
  bool free = false;     ///< counts as no work in the model, whatever Node::op is
  bool on_host = false;  ///< leaves the GPU nothing to compute
  bool effect = false;   ///< must keep its order among its kind: random numbers, assertions
  std::vector<ValueId> after;      ///< what it waits for without reading it, such as sizes
  std::vector<Condition> demands;  ///< conditions on sizes of any engine that contains the node
};

struct Node {
  std::string op;
  std::string name;  ///< unique in the graph
  std::vector<Arg> args;
  std::vector<ValueId> outputs;        ///< kNoValue if an output is unused and untyped
  std::string source, module_path;     ///< "model.py:42", "layer1.0.conv1"
  std::vector<std::string> fused_ops;  ///< all operators that this node computes; empty: just `op`

  /// Of tv::pointwise: the program, whose inputs are the tensor argument "inputs".
  std::shared_ptr<const PointwiseProgram> program;
  /// Pointwise epilogue on outputs[0]: program input 0 is the operator's own result, inputs 1… are
  /// `epilogue_inputs` (broadcast against the output). outputs[0] is the epilogue's result.
  std::shared_ptr<const PointwiseProgram> epilogue;
  std::vector<ValueId> epilogue_inputs;
  /// The dtype that the operator itself produces, before the epilogue; kOther: that of outputs[0].
  DType own_result_dtype = DType::kOther;
  /// Pointwise prologue, computed while tensor argument `prologue_arg` is read. `prologue_inputs`
  /// (broadcast against the argument's shape) take the place of the argument's value.
  std::shared_ptr<const PointwiseProgram> prologue;
  std::string prologue_arg;
  std::vector<ValueId> prologue_inputs;
  Shape prologue_shape;

  /// Of a product or convolution that may be computed in int8: the scale of its input that
  /// calibration found; 0: it is computed as it is.
  double input_scale = 0;

  Origin origin;

  const Arg* find(std::string_view arg_name) const;  ///< null if there is none
  const Arg& arg(std::string_view arg_name) const;   ///< throws Error(kInternal)
  bool has(std::string_view arg_name) const;         ///< present and not None
  ValueId input(std::string_view arg_name) const;    ///< the value; kNoValue for None or absent
  const std::vector<ValueId>& inputs(std::string_view arg_name) const;
  Expr expr(std::string_view arg_name) const;        ///< symbolic integer
  int64_t integer(std::string_view arg_name) const;  ///< throws Error(kUnsupported) when symbolic
  double number(std::string_view arg_name) const;    ///< int, float or bool as double
  bool flag(std::string_view arg_name) const;        ///< false if absent or None
  std::string text(std::string_view arg_name) const;
  std::vector<Expr> exprs(std::string_view arg_name) const;  ///< one Expr counts as a list of one
  std::vector<int64_t> integers(std::string_view arg_name) const;
  /// Every value the node reads, in order: arguments, epilogue and prologue inputs (no kNoValue).
  std::vector<ValueId> all_inputs() const;
  /// all_inputs() and Origin::after.
  std::vector<ValueId> waits_for() const;
};

struct GraphOutput {
  ValueId value = kNoValue;
  std::string name;
  Shape strides;  ///< promised strides; empty: row-major
  /// An input of the same type that this value overwrites once everything has read the input. Such
  /// an output is not returned by the engine; these come after the others.
  ValueId over = kNoValue;
};

struct Graph {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Condition> conditions;  ///< on sizes; importers add them with add_condition
  std::vector<Value> values;
  std::vector<Node> nodes;               ///< in topological order
  std::vector<ValueId> inputs, weights;  ///< kinds kInput, kWeight
  std::vector<GraphOutput> outputs;
  bool names_of_file = false;  ///< values have the names that tensors have in the model's file
  bool calibrated = false;     ///< input_scale is final: nodes without one are to have none

  Value& value(ValueId id) { return values.at(id); }
  const Value& value(ValueId id) const { return values.at(id); }
  ValueId add_value(Value v);
  /// Adds an output to the node, as a value named after it.
  ValueId add_output(Node& node, DType dtype, Shape shape);
  int64_t rank(ValueId id) const { return static_cast<int64_t>(value(id).shape.size()); }
};

/// For each value, the index of the node that produces it (-1: input or weight), and the indices of
/// the nodes that read it.
std::vector<int32_t> producers(const Graph& graph);
std::vector<std::vector<int32_t>> consumers(const Graph& graph);
/// The graph as text, for people and for tests.
std::string dump(const Graph& graph);
/// What a node computes, as text: operator, arguments and programs, but not names, outputs or
/// provenance. Nodes with equal text compute the same.
std::string signature(const Node& node);
/// "6*s0 multiple of 4": a condition without its source.
std::string condition_text(const Condition& condition);
/// "float32[1, 3, s0]", followed by the view if there is one.
std::string type_text(const Value& value);
/// Throws Error(kInternal) if the graph is malformed (order, ids, missing outputs).
void check(const Graph& graph, const char* after_pass);

/// Convenience for making nodes in passes and converters.
Arg tensor_arg(std::string name, ValueId value);
Arg tensor_list_arg(std::string name, std::vector<ValueId> values);
Arg attr_arg(std::string name, Attr attr);

}  // namespace tv
