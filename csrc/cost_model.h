#pragma once
// The interface through which the compiler asks for measurements. csrc/tuner answers from the
// device, tests from a table; without a cost model the converters' order decides.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/progress.h"
#include "runtime/spec/engine_spec.h"

namespace tv {

/// The launches of one tactic of one node, as an engine without bindings: constant operands and
/// packed forms of them are kPersistent buffers, the others kArena. Launches that read constants
/// alone are the weight program.
struct TacticProgram {
  enum class Role : uint8_t { kOperand, kResult, kScratch };
  struct Memory {
    ValueId value = kNoValue;  ///< equal in all programs of a problem; kNoValue: the check buffer
    DType dtype = DType::kF32;
    Role role = Role::kOperand;
  };
  struct Kernel {
    std::string name, glsl;
  };
  EngineSpec spec;              ///< its modules are still empty
  std::vector<Memory> memory;   ///< of each EngineSpec::buffers
  std::vector<Kernel> kernels;  ///< of each module
};

/// A node's choice of tactics.
struct TacticProblem {
  struct Candidate {
    std::string name, refusal;
    double error = 0;  ///< Tactic::error
  };
  std::string node, op;
  /// What is computed - operator, arguments, fused programs, dtypes, shapes, layouts, what is
  /// constant - with values by number of first use: equal in equal problems of any engine.
  std::string text;
  std::vector<Symbol> symbols;
  std::vector<Condition> conditions = {};  ///< on the symbols: other values are not tried
  std::vector<int32_t> used_symbols;       ///< that the shapes of the node's values name
  std::vector<Candidate>
      candidates;  ///< as the converter emitted them; the last one is the reference
  /// Small differences in the operands can make large ones in the result, because the fused
  /// programs compare, round or convert to integers.
  bool discontinuous = false;
  /// 16-bit dtypes that the epilogue rounds to, an entry for each time.
  std::vector<DType> roundings = {};
  /// Integer operands below this are valid indices into any dimension of any operand.
  int64_t least_dimension = 1;
  std::function<TacticProgram(size_t candidate)> program;  ///< of one that applies
  /// Asked only to compare graphs, one of which will not be built: a few candidates suffice.
  bool for_comparison = false;
};

struct TacticChoice {
  size_t candidate = 0;
  /// Time of each launch in TacticProgram::spec.dispatches, µs; empty: not timed.
  std::vector<float> step_us;
  std::vector<std::string> notes;  ///< on each candidate, for the debug dump; may be empty
  /// Time of each candidate that was timed and may be used, µs, else 0; empty: nothing was timed.
  std::vector<double> candidate_us = {};
};

/// µs that nodes of a graph (indices) take one after the other; nothing if that is not known.
using NodesUs =
    std::function<std::optional<double>(const Graph& graph, std::span<const size_t> nodes)>;

class CostModel {
 public:
  virtual ~CostModel() = default;
  /// Picks among the candidates that apply; `rule` is the first of them. What Progress throws
  /// passes through.
  virtual TacticChoice choose(const TacticProblem& problem, size_t rule,
                              const Progress& progress) = 0;
};

}  // namespace tv
