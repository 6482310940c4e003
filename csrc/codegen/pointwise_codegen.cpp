#include "csrc/codegen/pointwise_codegen.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "csrc/codegen/glsl_types.h"
#include "csrc/codegen/pointwise_table.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

[[noreturn]] void fail(const PointwiseInstr& instr, const std::string& what) {
  throw Error(ErrorKind::kInternal, "[pointwise] " + instr.function + ": " + what);
}

const char* expression_for(const PointwiseInstr& instr, const PointwiseRow& row) {
  const char* text = nullptr;
  switch (glsl_class(instr.compute)) {
    case GlslClass::kFloat:
      text = row.on_float;
      break;
    case GlslClass::kInt:
      text = row.on_int;
      break;
    case GlslClass::kInt64:
      text = row.on_int64;
      break;
    case GlslClass::kBool:
      text = row.on_bool;
      break;
  }
  if (text == nullptr) fail(instr, "is not defined for " + std::string(name(instr.compute)));
  return text;
}

/// lavapipe's own arithmetic takes x * 0 for 0, x + 0 for x and 0 - x for -x where it sees that the
/// operand is 0, `precise` or not: a zero that it does not see (a lerp's 1, too, from which it
/// makes one). Null: the literal will do.
const char* hidden_number(const PointwiseRow& row, double value, DType dtype) {
  const std::string_view name = row.name, error = row.error;
  if (glsl_class(dtype) != GlslClass::kFloat || error == "exact") return nullptr;
  // No grid has 2^31 workgroups.
  if (value == 1 && name == "lerp") {
    return "uintBitsToFloat(gl_NumWorkGroups.x >> 31 | 0x3f800000u)";
  }
  if (value != 0) return nullptr;
  return std::signbit(value) ? "uintBitsToFloat(gl_NumWorkGroups.x >> 31 | 0x80000000u)"
                             : "uintBitsToFloat(gl_NumWorkGroups.x >> 31)";
}

/// What stands for $k.
std::string argument(const PointwiseProgram& program, const PointwiseInstr& instr,
                     const PointwiseRow& row, size_t k) {
  const DType wanted = (row.bool_operands >> k & 1u) != 0 ? DType::kBool : instr.compute;
  if (k < instr.operands.size()) {
    const int32_t operand = instr.operands[k];
    const DType from = pointwise_dtype(program, operand);
    return glsl_convert("v" + std::to_string(operand), from, wanted, false);
  }
  const size_t at = k - instr.operands.size();
  if (!instr.integers.empty()) {
    if (at >= instr.integers.size()) fail(instr, "too few operands");
    const auto number = static_cast<double>(instr.integers[at]);
    if (const char* hidden = hidden_number(row, number, wanted)) return hidden;
    return glsl_literal(instr.integers[at], wanted);
  }
  if (at >= instr.scalars.size()) fail(instr, "too few operands");
  if (const char* hidden = hidden_number(row, instr.scalars[at], wanted)) return hidden;
  return glsl_literal(instr.scalars[at], wanted);
}

std::string instruction(const PointwiseProgram& program, const PointwiseInstr& instr) {
  const PointwiseRow* row = find_pointwise(instr.function);
  if (row == nullptr) fail(instr, "is not in the pointwise table");
  if (static_cast<int>(instr.operands.size()) > row->arity) {
    fail(instr, "got " + std::to_string(instr.operands.size()) + " operands, want at most " +
                    std::to_string(row->arity));
  }
  std::string text = "(", expression = expression_for(instr, *row);
  // A number is looked at before there is a kernel.
  const int32_t divisor = divisor_of(instr);
  if (divisor >= static_cast<int32_t>(instr.operands.size())) {
    const std::string_view call = "tv_divisor(";
    expression.erase(expression.find(call), call.size() - 1);
  }
  for (const char* p = expression.c_str(); *p != '\0'; ++p) {
    if (*p == '$' && std::isdigit(static_cast<unsigned char>(p[1])) != 0) {
      text += argument(program, instr, *row, static_cast<size_t>(*++p - '0'));
    } else {
      text += *p;
    }
  }
  text += ")";
  // Integers wrap to a narrow compute type before the result's type is made of them.
  const DType made = row->gives_bool ? DType::kBool : instr.compute;
  if (glsl_class(made) == GlslClass::kInt && made != DType::kI32) {
    text = glsl_convert(text, DType::kI32, made, false);
  }
  return glsl_convert(text, made, instr.result, instr.function == "cast");
}

}  // namespace

std::string pointwise_line(const PointwiseProgram& program, const std::string& name) {
  std::string text = pointwise_function(program, name);
  std::ranges::replace(text, '\n', ' ');
  return text;
}

DType pointwise_dtype(const PointwiseProgram& program, int32_t operand) {
  const size_t n = program.inputs.size();
  const auto at = static_cast<size_t>(operand);
  if (operand < 0 || at >= n + program.instrs.size()) {
    throw Error(ErrorKind::kInternal, "[pointwise] operand " + std::to_string(operand) + " of " +
                                          std::to_string(n + program.instrs.size()));
  }
  return at < n ? program.inputs[at] : program.instrs[at - n].result;
}

std::string pointwise_function(const PointwiseProgram& program, const std::string& name) {
  std::string head, body;
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const DType dtype = program.inputs[k];
    const std::string number = std::to_string(k);
    head += (k != 0 ? ", " : "") + glsl_type(dtype) + " a" + number;
    const bool is_bool = glsl_class(dtype) == GlslClass::kBool;
    body += "  " + glsl_value_type(dtype) + " v" + number + " = a" + number +
            (is_bool ? " != 0" : "") + ";\n";
  }
  int32_t at = static_cast<int32_t>(program.inputs.size());
  for (const PointwiseInstr& instr : program.instrs) {
    // Else drivers take x - x for 0 and x / x for 1, whatever x is.
    if (glsl_class(instr.result) == GlslClass::kFloat) body += "  precise";
    body += "  " + glsl_value_type(instr.result) + " v" + std::to_string(at++) + " = " +
            instruction(program, instr) + ";\n";
  }
  for (size_t k = 0; k < program.results.size(); ++k) {
    const DType dtype = pointwise_dtype(program, program.results[k]);
    const std::string number = std::to_string(k);
    head += (head.empty() ? "out " : ", out ") + glsl_type(dtype) + " r" + number;
    const std::string value = "v" + std::to_string(program.results[k]);
    body += "  r" + number + " = " +
            (glsl_class(dtype) == GlslClass::kBool ? "int(" + value + ")" : value) + ";\n";
  }
  return "void " + name + "(" + head + ") {\n" + body + "}\n";
}

}  // namespace tv
