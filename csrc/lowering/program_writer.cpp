#include "csrc/lowering/program_writer.h"

#include <algorithm>

#include "csrc/codegen/kernel.h"
#include "csrc/lowering/constant_steps.h"
#include "csrc/lowering/tactics.h"

namespace tv {

void ProgramWriter::add(const Node& node, const Tactic& tactic, const Expr& where) {
  std::vector<StepRequest> steps;
  for (const Step& step : tactic.steps) steps.push_back(make_request(node, step, parts_.table));
  const std::vector<bool> constant =
      mark_constant_steps(steps, parts_.table, parts_.buffers.is_output());
  for (size_t i = 0; i < steps.size(); ++i) {
    Dispatch dispatch = make_dispatch(node, steps[i], constant[i]);
    dispatch.tactic = tactic.name;
    if (steps.size() > 1) dispatch.name += "/" + steps[i].kernel.step.kernel;
    if (!constant[i]) dispatch.grid[0] *= where;
    EngineSpec& spec = parts_.spec;
    (constant[i] ? spec.weight_program : spec.dispatches).push_back(std::move(dispatch));
  }
}

std::vector<TacticProgram::Kernel> ProgramWriter::kernels() const {
  std::vector<TacticProgram::Kernel> kernels;
  for (const Module& module : modules_) kernels.push_back({module.kernel, *module.glsl});
  return kernels;
}

Dispatch ProgramWriter::make_dispatch(const Node& node, const StepRequest& request, bool constant) {
  const Step& step = request.kernel.step;
  GeneratedKernel kernel = generate_kernel(request.kernel, parts_.settings, parts_.device);
  Dispatch dispatch;
  dispatch.name = node.name;
  dispatch.module_path = node.module_path;
  dispatch.source = node.source;
  dispatch.ops = node.fused_ops.empty() ? std::vector<std::string>{node.op} : node.fused_ops;
  dispatch.grid = step.grid.groups;
  dispatch.flat_grid = step.grid.flat;
  dispatch.looks_up = step.looks_up;
  dispatch.words = std::move(kernel.words);
  const Expr iterations = iterations_of(step, node);
  const int64_t most = iterations.bounds(parts_.table.graph().symbols).second;
  if (most > parts_.device.max_loop_iterations()) dispatch.iterations = iterations;
  if (!kernel.operands.empty() && kernel.operands.back() == kCheckOperand) {
    const auto& program = constant ? parts_.spec.weight_program : parts_.spec.dispatches;
    dispatch.words.back() = Expr(static_cast<int64_t>(program.size()));
  }
  for (uint32_t i : kernel.operands) {
    if (i == kCheckOperand) {
      dispatch.operands.push_back(parts_.buffers.check_range(parts_.settings.check_addresses));
      continue;
    }
    const KernelOperand& operand = request.kernel.operands.at(i);
    OperandRange range = parts_.buffers.range_of(request.values.at(i), operand.storage_elements);
    range.read = operand.read;
    range.write = operand.write;
    dispatch.operands.push_back(std::move(range));
  }
  dispatch.pipeline =
      pipeline_of({module_of(step.kernel, std::move(kernel.glsl)), std::move(kernel.spec_constants),
                   step.subgroup_size, step.subgroup_size > 0, kernel.param_block});
  return dispatch;
}

/// Equal text is one module, so layers that differ in sizes share it.
uint32_t ProgramWriter::module_of(const std::string& kernel, std::string glsl) {
  const auto next = static_cast<uint32_t>(modules_.size());
  const auto [it, fresh] = module_ids_.emplace(std::move(glsl), next);
  if (fresh) modules_.push_back({kernel, &it->first});
  return it->second;
}

uint32_t ProgramWriter::pipeline_of(Pipeline pipeline) {
  std::vector<Pipeline>& pipelines = parts_.spec.pipelines;
  const auto it = std::find(pipelines.begin(), pipelines.end(), pipeline);
  if (it != pipelines.end()) return static_cast<uint32_t>(it - pipelines.begin());
  pipelines.push_back(std::move(pipeline));
  return static_cast<uint32_t>(pipelines.size() - 1);
}

}  // namespace tv
