#pragma once
// Pointwise ATen operators as rules: which table row, which arguments, which compute type.

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
  /// Row of the pointwise table; "" where `choose` gives it, or the rule brings its own.
  std::string function = {};
  /// A new row, called `function`, or where that is "" as the operator is: "add" of
  /// "aten::add.Tensor".
  std::optional<PointwiseRow> formula = {};
  /// Arguments in the row's order: tensors first, then scalars (which follow as immediates). An
  /// argument may be either, as the node has it; a None is left out.
  std::vector<std::string> args = {"self"};
  Compute compute = Compute::kPromoted;
  /// Arguments that take no part in the choice of the compute type (masks, conditions).
  std::vector<std::string> untyped = {};
  /// An argument that PyTorch wants to be of rank 0, where it is a tensor; it raises otherwise.
  std::string number = {};
  /// Picks the row by the node's attributes and may change the immediates' values.
  std::function<std::string(const NodeContext&, PointwiseInstr&)> choose = nullptr;
  std::string notes = {};
  bool keeps_float32 = false;  ///< Converter's
};

/// The same, kept in float32.
inline PointwiseRule in_float32(PointwiseRule rule) {
  rule.keeps_float32 = true;
  return rule;
}

/// torch.result_type of the named arguments: tensors with dimensions before 0-dim tensors before
/// scalars, the kind (bool, int, float) deciding between these groups.
DType result_type(const NodeContext& context, const std::vector<std::string>& args);

/// The converter of a rule. A scalar that is symbolic becomes a 0-dim tensor first, and with it
/// those before it.
Converter pointwise_converter(PointwiseRule rule);

/// `static const RegisterPointwise unary({{.op = …}, …});`
struct RegisterPointwise {
  explicit RegisterPointwise(std::initializer_list<PointwiseRule> rules) {
    for (const PointwiseRule& rule : rules) Registry::instance().add(pointwise_converter(rule));
  }
};

}  // namespace tv
