#pragma once
// Pointwise ATen operators as rules: the row of the pointwise table, the arguments, the compute
// type.

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "csrc/codegen/pointwise_table.h"
#include "csrc/converter.h"

namespace tv {

/// The type that an operator computes in.
enum class Compute : uint8_t {
  kPromoted,  ///< torch.result_type of the arguments
  kFloat,     ///< the same, integers and bool as float32
  kBool,      ///< truth values (logical_and)
  kOutput,    ///< the result's dtype
  kSelf,      ///< the first argument's dtype (casts)
};

struct PointwiseRule {
  std::string op;  ///< "aten::add.Tensor"
  /// Row of the pointwise table; "" if `choose` returns it, or the rule has its own `formula`.
  std::string function = {};
  /// A new row, named `function`, or after the operator if that is "": "add" for
  /// "aten::add.Tensor".
  std::optional<PointwiseRow> formula = {};
  /// Arguments in the row's order: tensors first, then scalars (which become immediates). An
  /// argument may be either, as in the node; None is left out.
  std::vector<std::string> args = {"self"};
  Compute compute = Compute::kPromoted;
  /// Arguments that do not affect the compute type (masks, conditions).
  std::vector<std::string> untyped = {};
  /// An argument that must be of rank 0 if it is a tensor; PyTorch raises otherwise.
  std::string number = {};
  /// Picks the row by the node's attributes and may change the immediates' values.
  std::function<std::string(const NodeContext&, PointwiseInstr&)> choose = nullptr;
  std::string notes = {};
  bool keeps_float32 = false;     ///< see Converter
  Moves moves = Moves::kNothing;  ///< see Converter
  TypeRule types = {};            ///< see Converter
};

/// The same rule, kept in float32.
inline PointwiseRule in_float32(PointwiseRule rule) {
  rule.keeps_float32 = true;
  return rule;
}

/// torch.result_type of the named arguments: tensors with dimensions before 0-dim tensors before
/// scalars, with the kind (bool, int, float) deciding between these groups.
DType result_type(const NodeContext& context, const std::vector<std::string>& args);

/// The converter of a rule. A symbolic scalar, and scalars before it, first become 0-dim tensors.
Converter pointwise_converter(PointwiseRule rule);

/// `static const RegisterPointwise unary({{.op = …}, …});`
struct RegisterPointwise {
  explicit RegisterPointwise(std::initializer_list<PointwiseRule> rules) {
    for (const PointwiseRule& rule : rules) Registry::instance().add(pointwise_converter(rule));
  }
};

}  // namespace tv
