#include "csrc/lowering/lower.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "csrc/codegen/kernel.h"
#include "csrc/lowering/buffers.h"
#include "csrc/lowering/constant_steps.h"
#include "csrc/lowering/requests.h"

namespace tv {

namespace {

constexpr const char* kBuilderVersion = "0.1.0";

class Lowering {
 public:
  Lowering(const Graph& graph, const Settings& settings, const DeviceProfile& device,
           LoweringReport* report)
      : graph_(graph),
        settings_(settings),
        device_(device),
        report_(report),
        table_(graph),
        buffers_(table_, spec_) {
    spec_.name = graph.name;
    spec_.builder_version = kBuilderVersion;
    spec_.runs_on = device.runs_on();
    spec_.tuned_for = device.tuned_for();
    spec_.symbols = graph.symbols;
  }

  EngineSpec run(const Progress& progress) {
    int64_t done = 0;
    for (const Node& node : graph_.nodes) {
      lower_node(node);
      if (progress) progress("lower", ++done, static_cast<int64_t>(graph_.nodes.size()));
    }
    compile_modules(progress);
    return std::move(spec_);
  }

 private:
  void lower_node(const Node& node) {
    const NodeTactics tactics = convert_node(node, table_, device_, settings_);
    const Tactic& tactic = tactics.offered[tactics.chosen];
    note(node, tactics);
    std::vector<StepRequest> steps;
    for (const Step& step : tactic.steps) steps.push_back(make_request(node, step, table_));
    const std::vector<bool> constant = mark_constant_steps(steps, table_, buffers_.is_output());
    for (size_t i = 0; i < steps.size(); ++i) {
      Dispatch dispatch = make_dispatch(node, steps[i], constant[i]);
      dispatch.tactic = tactic.name;
      if (steps.size() > 1) dispatch.name += "/" + steps[i].kernel.step.kernel;
      (constant[i] ? spec_.weight_program : spec_.dispatches).push_back(std::move(dispatch));
    }
  }

  Dispatch make_dispatch(const Node& node, const StepRequest& request, bool constant) {
    const Step& step = request.kernel.step;
    Settings settings = settings_;
    if (constant) settings.check_addresses = false;  // the weight program has no report
    GeneratedKernel kernel = generate_kernel(request.kernel, settings, device_);
    Dispatch dispatch;
    dispatch.name = node.name;
    dispatch.module_path = node.module_path;
    dispatch.source = node.source;
    dispatch.ops = node.fused_ops.empty() ? std::vector<std::string>{node.op} : node.fused_ops;
    dispatch.grid = step.grid.groups;
    dispatch.flat_grid = step.grid.flat;
    dispatch.words = std::move(kernel.words);
    if (!kernel.operands.empty() && kernel.operands.back() == kCheckOperand) {
      dispatch.words.back() = Expr(static_cast<int64_t>(spec_.dispatches.size()));
    }
    for (uint32_t i : kernel.operands) {
      if (i == kCheckOperand) {
        dispatch.operands.push_back(buffers_.check_range());
        continue;
      }
      const KernelOperand& operand = request.kernel.operands.at(i);
      OperandRange range = buffers_.range_of(request.values.at(i), operand.storage_elements);
      range.read = operand.read;
      range.write = operand.write;
      dispatch.operands.push_back(std::move(range));
    }
    dispatch.pipeline = pipeline_of({module_of(step.kernel, std::move(kernel.glsl)),
                                     std::move(kernel.spec_constants), step.subgroup_size,
                                     step.subgroup_size > 0, kernel.param_block});
    return dispatch;
  }

  /// Equal text is one module, so layers that differ in sizes share it.
  uint32_t module_of(const std::string& kernel, std::string glsl) {
    const auto next = static_cast<uint32_t>(modules_.size());
    const auto [it, fresh] = module_ids_.emplace(std::move(glsl), next);
    if (fresh) modules_.push_back({kernel, &it->first});
    return it->second;
  }

  uint32_t pipeline_of(Pipeline pipeline) {
    const auto it = std::find(spec_.pipelines.begin(), spec_.pipelines.end(), pipeline);
    if (it != spec_.pipelines.end()) {
      return static_cast<uint32_t>(it - spec_.pipelines.begin());
    }
    spec_.pipelines.push_back(std::move(pipeline));
    return static_cast<uint32_t>(spec_.pipelines.size() - 1);
  }

  void compile_modules(const Progress& progress) {
    spec_.modules.resize(modules_.size());
    std::atomic<size_t> next{0};
    std::atomic<int64_t> done{0};
    std::mutex mutex;
    std::exception_ptr failure;  // guarded by mutex
    const auto work = [&](const Progress& report) {
      try {
        for (size_t i = next++; i < modules_.size(); i = next++) {
          spec_.modules[i] = compile_kernel(modules_[i].kernel, *modules_[i].glsl, settings_);
          ++done;
          if (report) report("compile", done, static_cast<int64_t>(modules_.size()));
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = modules_.size();
      }
    };
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    try {
      for (size_t i = 1; i < std::min(cores, modules_.size()); ++i)
        threads.emplace_back(work, nullptr);
    } catch (const std::system_error&) {  // a limit on threads: those that there are do the work
    }
    work(progress);  // a callback runs on the caller's thread only
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    if (report_) {
      for (const Module& module : modules_)
        report_->kernels.push_back({module.kernel, *module.glsl});
    }
  }

  void note(const Node& node, const NodeTactics& tactics) {
    if (!report_) return;
    LoweringReport::NodeReport entry{node.name, node.op, {}, tactics.chosen};
    for (const Tactic& tactic : tactics.offered) {
      entry.tactics.emplace_back(tactic.name, tactic.refusal);
    }
    report_->nodes.push_back(std::move(entry));
  }

  struct Module {
    std::string kernel;
    const std::string* glsl;  // key in module_ids_
  };

  const Graph& graph_;
  const Settings& settings_;
  const DeviceProfile& device_;
  LoweringReport* report_;
  EngineSpec spec_;
  ValueTable table_;
  BufferTable buffers_;
  std::vector<Module> modules_;
  std::map<std::string, uint32_t> module_ids_;  // GLSL text → module
};

}  // namespace

EngineSpec lower(const Graph& graph, const Settings& settings, const DeviceProfile& device,
                 const Progress& progress, LoweringReport* report) {
  return Lowering(graph, settings, device, report).run(progress);
}

}  // namespace tv
