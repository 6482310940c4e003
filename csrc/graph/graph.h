#pragma once
// The Graph, as plain data: importers make it, and a pass maps it to another one.
//
// Operators are ATen's functional ones, and those of other libraries, by their full name,
// "aten::add.Tensor" (without the overload if it is `default`: "aten::relu"). Two prefixes are this
// project's: "tv::" for operators that ATen does not have, which passes and importers make, and
// "complex::" for ATen's operators on complex values as pairs of floats
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

/// Where the elements of a value are if it is a view of another: element (i0, i1, …) is
/// base[offset + Σ i_k · strides_k]. Set by choose_layouts; `base` itself is never a view.
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
  std::optional<View> view;  ///< empty: dense, row-major, storage of its own
  /// Of a weight that is a matrix, where its elements were looked at: bit d is set if of each four
  /// neighbours along dimension d two at most are not zero.
  uint8_t two_four = 0;
  /// Of a weight of int8 whose dtype is one of 4 bits in the model: its elements lie in -8 to 7.
  bool four_bits = false;
};

/// An attribute; monostate is None. Integers may be symbolic, so they are Exprs.
using Attr = std::variant<std::monostate, bool, Expr, double, std::string, DType, std::vector<Expr>,
                          std::vector<double>, std::vector<bool>>;

/// One argument of the operator's schema, defaults filled in. A tensor argument holds values
/// (kNoValue: None); `is_list` tells Tensor[] from Tensor.
struct Arg {
  std::string name;
  bool is_tensor = false, is_list = false;
  std::vector<ValueId> values;
  Attr attr;
};

/// What a frontend says of a node beside what it computes. plan() reads it; no pass does.
struct Origin {
  int32_t index = -1;          ///< of what the node is part of, in the frontend's own numbers
  bool whole = false;          ///< the frontend runs all that it is part of, or nothing of it
  std::string op;              ///< the operator in the model, where it is another than Node::op
  std::string refusal;         ///< why the Graph cannot say what it computes: it stays native
  bool free = false;           ///< no node of the model that does work, whatever Node::op is
  bool on_host = false;        ///< it gives the GPU nothing to compute
  bool effect = false;         ///< it keeps its order among its kind: random numbers, assertions
  std::vector<ValueId> after;  ///< what it waits for beside what it reads: where sizes come from
  std::vector<Condition> demands;  ///< on sizes: a condition of the engine that the node is in
};

struct Node {
  std::string op;
  std::string name;  ///< unique in the graph
  std::vector<Arg> args;
  std::vector<ValueId> outputs;        ///< kNoValue if an output is unused and untyped
  std::string source, module_path;     ///< "model.py:42", "layer1.0.conv1"
  std::vector<std::string> fused_ops;  ///< operators that this node computes; empty: just `op`

  /// tv::pointwise: the program, over the tensor argument "inputs".
  std::shared_ptr<const PointwiseProgram> program;
  /// Pointwise epilogue on outputs[0]: program input 0 is the operator's own result, inputs 1… are
  /// `epilogue_inputs` (broadcast against the output). outputs[0] is the epilogue's result.
  std::shared_ptr<const PointwiseProgram> epilogue;
  std::vector<ValueId> epilogue_inputs;
  /// dtype of the operator's own result if an epilogue changes it; else outputs[0]'s.
  DType anchor_dtype = DType::kOther;
  /// Pointwise prologue computed while reading tensor argument `prologue_arg`; its inputs replace
  /// that argument's value (`prologue_inputs`, broadcast against the argument's shape).
  std::shared_ptr<const PointwiseProgram> prologue;
  std::string prologue_arg;
  std::vector<ValueId> prologue_inputs;
  Shape prologue_shape;

  /// Of a product or convolution that may be computed in int8: the real value of a step of its
  /// input, which calibration found; 0: it stays as it is.
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
  /// These, and what it waits for.
  std::vector<ValueId> waits_for() const;
};

struct GraphOutput {
  ValueId value = kNoValue;
  std::string name;
  Shape strides;  ///< promised strides; empty: row-major
  /// An input of the same type that the value overwrites after every reader of the input; it is not
  /// an output of the engine then. Such outputs come after the others.
  ValueId over = kNoValue;
};

struct Graph {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Condition> conditions;  ///< on sizes; importers use add_condition
  std::vector<Value> values;
  std::vector<Node> nodes;               ///< in topological order
  std::vector<ValueId> inputs, weights;  ///< kinds kInput, kWeight
  std::vector<GraphOutput> outputs;
  bool names_of_file = false;  ///< values go by the names that the model's file has for tensors
  bool calibrated = false;     ///< its nodes have their input_scale, or are to have none

  Value& value(ValueId id) { return values.at(id); }
  const Value& value(ValueId id) const { return values.at(id); }
  ValueId add_value(Value v);
  /// Adds a node output named after the node.
  ValueId add_output(Node& node, DType dtype, Shape shape);
  int64_t rank(ValueId id) const { return static_cast<int64_t>(value(id).shape.size()); }
};

/// Node index that makes each value (-1: input or weight), and node indices that read it.
std::vector<int32_t> producers(const Graph& graph);
std::vector<std::vector<int32_t>> consumers(const Graph& graph);
/// Text of a graph, for people and for tests.
std::string dump(const Graph& graph);
/// What a node computes, as text: operator, arguments, programs, but not names, outputs or
/// provenance. Equal text means equal meaning.
std::string signature(const Node& node);
/// "6*s0 multiple of 4": a condition without its source.
std::string condition_text(const Condition& condition);
/// "float32[1, 3, s0]", with the view where there is one.
std::string type_text(const Value& value);
/// Throws Error(kInternal) if the graph is not well formed (order, ids, missing outputs).
void check(const Graph& graph, const char* after_pass);

/// Convenience for making nodes in passes and converters.
Arg tensor_arg(std::string name, ValueId value);
Arg tensor_list_arg(std::string name, std::vector<ValueId> values);
Arg attr_arg(std::string name, Attr attr);

}  // namespace tv
