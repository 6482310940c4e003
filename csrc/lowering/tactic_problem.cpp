#include "csrc/lowering/tactic_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace tv {

namespace {

/// Gives values numbers in the order of their first use.
class Numbering {
 public:
  ValueId operator()(ValueId id) {
    if (id == kNoValue) return id;
    return numbers_.emplace(id, static_cast<ValueId>(numbers_.size())).first->second;
  }
  void apply(std::vector<ValueId>& ids) {
    for (ValueId& id : ids) id = (*this)(id);
  }
  const std::map<ValueId, ValueId>& all() const { return numbers_; }

 private:
  std::map<ValueId, ValueId> numbers_;
};

void note_symbols(const Expr& e, std::set<int32_t>& used) {
  for (const int32_t s : e.symbols()) used.insert(s);
}

std::string value_text(ValueId id, const ValueTable& table, Numbering& number,
                       std::set<int32_t>& used) {
  Value value = table.value(id);
  for (const Expr& dim : value.shape) note_symbols(dim, used);
  if (value.view) {
    note_symbols(value.view->offset, used);
    for (const Expr& stride : value.view->strides) note_symbols(stride, used);
    value.view->base = number(value.view->base);
  }
  return type_text(value) + (table.is_constant(id) ? " constant" : "");
}

/// The program with nan for each factor or term that is not a whole number: layers that differ in
/// their scales alone take the same time, and are one problem.
std::shared_ptr<const PointwiseProgram> without_scales(
    const std::shared_ptr<const PointwiseProgram>& program) {
  static const std::set<std::string> kArithmetic = {"add", "sub", "mul", "div", "div_round"};
  if (program == nullptr) return nullptr;
  auto bare = std::make_shared<PointwiseProgram>(*program);
  for (PointwiseInstr& instr : bare->instrs) {
    if (!kArithmetic.contains(instr.function)) continue;
    for (double& scalar : instr.scalars) {
      if (scalar != std::nearbyint(scalar)) scalar = std::numeric_limits<double>::quiet_NaN();
    }
  }
  return bare;
}

bool is_discontinuous(const PointwiseProgram* program) {
  static const std::set<std::string> kSteps = {
      "div_floor", "div_trunc",  "fmod",           "remainder", "rremainder", "sign",
      "floor",     "ceil",       "trunc",          "round",     "frac",       "round_decimals",
      "heaviside", "threshold",  "copysign",       "div",       "rdiv",       "tan",
      "div_round", "reciprocal", "hardshrink",     "addcdiv",   "rsqrt",      "log",
      "log2",      "log10",      "inverse_square", "logit",     "pow",        "rpow",
      "atan2"};
  if (program == nullptr) return false;
  for (const PointwiseInstr& instr : program->instrs) {
    if (kSteps.contains(instr.function)) return true;
    if (is_float(instr.compute) && !is_float(instr.result)) return true;
  }
  return false;
}

/// Where a node rounds its sums to 16 bits on the way to its result: in its epilogue, and in the
/// program of a product's two halves.
std::vector<DType> narrow_results(const Node& node) {
  std::vector<DType> found;
  const auto add = [&](const PointwiseProgram* program) {
    if (program == nullptr) return;
    for (const PointwiseInstr& instr : program->instrs) {
      if (is_float(instr.result) && size_bytes(instr.result) == 2) found.push_back(instr.result);
    }
  };
  add(node.epilogue.get());
  if (node.op != "tv::pointwise") add(node.program.get());
  return found;
}

/// The smallest dimension above 1 of what the node reads and writes.
int64_t least_dimension(const Node& node, const ValueTable& table) {
  int64_t least = kUnbounded;
  std::vector<ValueId> values = node.all_inputs();
  values.insert(values.end(), node.outputs.begin(), node.outputs.end());
  for (const ValueId id : values) {
    if (id == kNoValue) continue;
    for (const Expr& dim : table.value(id).shape) {
      if (dim == Expr(1)) continue;
      least = std::min(least, dim.bounds(table.graph().symbols).first);
    }
  }
  return std::max<int64_t>(least, 1);
}

TacticProgram make_program(const Node& node, const Tactic& tactic,
                           const ProgramWriter::Parts& engine) {
  TacticProgram program;
  program.spec.name = node.name;
  program.spec.symbols = engine.spec.symbols;
  BufferTable buffers(engine.table, program.spec, engine.buffers.is_output());
  ProgramWriter writer({engine.settings, engine.device, engine.table, buffers, program.spec});
  writer.add(node, tactic);
  program.kernels = writer.kernels();
  std::set<ValueId> results;
  for (ValueId id : node.outputs) {
    if (id != kNoValue) results.insert(engine.table.layout(id).base);
  }
  using Role = TacticProgram::Role;
  for (ValueId base : buffers.bases()) {
    TacticProgram::Memory memory{.value = base, .dtype = DType::kU8, .role = Role::kScratch};
    if (base != kNoValue) {
      memory.dtype = engine.table.value(base).dtype;
      memory.role = results.contains(base)          ? Role::kResult
                    : engine.table.is_scratch(base) ? Role::kScratch
                                                    : Role::kOperand;
    }
    program.memory.push_back(memory);
  }
  return program;
}

std::string problem_text(const Node& node, const ValueTable& table, std::set<int32_t>& used) {
  Numbering number;
  std::vector<ValueId> values = node.all_inputs();
  Node copy = node;
  for (Arg& arg : copy.args) number.apply(arg.values);
  number.apply(copy.prologue_inputs);
  number.apply(copy.epilogue_inputs);
  number.apply(copy.outputs);
  for (auto* program : {&copy.program, &copy.prologue, &copy.epilogue}) {
    *program = without_scales(*program);
  }
  values.insert(values.end(), node.outputs.begin(), node.outputs.end());
  std::string text = signature(copy) + " ->";
  for (const ValueId id : copy.outputs) {
    text += id == kNoValue ? " _" : " %" + std::to_string(id);
  }
  std::set<ValueId> told;
  for (const ValueId id : values) {
    if (id == kNoValue || !told.insert(id).second) continue;
    text += "; %" + std::to_string(number(id)) + " " + value_text(id, table, number, used);
  }
  for (const int32_t s : used) {
    const Symbol& symbol = table.graph().symbols.at(static_cast<size_t>(s));
    text += "; s" + std::to_string(s) + " " + std::to_string(symbol.min) + ".." +
            (symbol.max == kUnbounded ? "" : std::to_string(symbol.max)) + " opt " +
            std::to_string(symbol.opt);
  }
  return text;
}

}  // namespace

std::string problem_text(const Node& node, const ValueTable& table) {
  std::set<int32_t> used;
  return problem_text(node, table, used);
}

TacticProblem tactic_problem(const Node& node, const NodeTactics& tactics,
                             const ProgramWriter::Parts& parts) {
  std::set<int32_t> used;
  TacticProblem problem{.node = node.name,
                        .op = node.op,
                        .text = problem_text(node, parts.table, used),
                        .symbols = parts.spec.symbols,
                        .conditions = parts.spec.conditions};
  problem.used_symbols.assign(used.begin(), used.end());
  for (const Tactic& tactic : tactics.candidates) {
    problem.candidates.push_back({tactic.name, tactic.refusal, tactic.error});
  }
  problem.discontinuous = is_discontinuous(node.program.get()) ||
                          is_discontinuous(node.prologue.get()) ||
                          is_discontinuous(node.epilogue.get());
  problem.roundings = narrow_results(node);
  problem.least_dimension = least_dimension(node, parts.table);
  problem.program = [&node, &tactics, parts](size_t candidate) {
    return make_program(node, tactics.candidates.at(candidate), parts);
  };
  return problem;
}

}  // namespace tv
