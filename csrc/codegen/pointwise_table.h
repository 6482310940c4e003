#pragma once
// The pointwise functions that programs are made of: one row each, here or, for an operator of one
// tensor, with the operator (converters/pointwise/pointwise_unary.cpp).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/graph/pointwise_program.h"

namespace tv {

/// Expressions use $0, $1, … for operands, which have the variable type of the instruction's
/// compute dtype (float, int, int64_t or bool). Operands beyond those that the instruction names
/// are its immediates: $k is integers[k - n], or scalars[k - n] where it has no integers, n the
/// number of operands named. Each expression gives the variable type of the instruction's result
/// dtype where `result` says so, else that of the compute dtype. Null: not defined for that class.
struct PointwiseRow {
  const char* name = "";
  int arity = 1;  ///< operands and immediates together
  const char* on_float = nullptr;
  const char* on_int = nullptr;  ///< int; wraps to the result dtype afterwards
  const char* on_int64 = nullptr;
  const char* on_bool = nullptr;
  /// Bit k set: operand k is a bool whatever the compute dtype is.
  unsigned bool_operands = 0;
  bool gives_bool = false;  ///< the expression is a bool whatever the compute dtype is
  /// Largest error of the float form: "exact", also where it has eager's bits, "n" ULP of the
  /// result, or "n of S", units in the last place of max(|result|, S) (docs/accuracy.md).
  const char* error = "exact";
  /// Where the error is measured, of an operator of one tensor: one of the DOMAINS of
  /// tests/accuracy/function_cases.py; "": that file says how the row is called.
  const char* domain = "";
  /// Loop iterations that the float form makes at most, in the functions that it calls, too; those
  /// of rows that the compiler brings are counted by the names of these functions.
  int iterations = 0;
  /// Two operands give the same bits whatever their order.
  bool commutes = false;
};

/// The row called `name`; null if there is none.
const PointwiseRow* find_pointwise(std::string_view name);
std::vector<PointwiseRow> pointwise_rows();
/// Adds a row, whose texts live on. Throws Error(kInternal) if there is one of that name.
void add_pointwise(const std::string& name, PointwiseRow row);

/// Says which row computes an operator, "" if its arguments choose. For tv.supported_ops().
void tell_pointwise_function(std::string op, std::string function);
/// The row that was told, or "".
std::string pointwise_function(const std::string& op);

/// The operand of an instruction on integers that it divides by, which must not be 0; -1: none.
int32_t divisor_of(const PointwiseInstr& instr);
/// Whether an element of a tensor is such an operand: kernels then look at it
/// (Settings::check_indices).
bool may_divide_by_zero(const PointwiseProgram& program);

/// Loop iterations that computing a program once may make.
int64_t pointwise_iterations(const PointwiseProgram& program);

}  // namespace tv
