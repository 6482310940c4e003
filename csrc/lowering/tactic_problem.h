#pragma once

#include "csrc/cost_model.h"
#include "csrc/lowering/program_writer.h"
#include "csrc/lowering/tactics.h"

namespace tv {

/// What a cost model needs to choose among the tactics of `node`. The problem refers to all
/// arguments; calling its `program` changes which values `parts.table` calls constant, for those
/// that the tactic writes.
TacticProblem tactic_problem(const Node& node, const NodeTactics& tactics,
                             const ProgramWriter::Parts& parts);

/// TacticProblem::text.
std::string problem_text(const Node& node, const ValueTable& table);

}  // namespace tv
