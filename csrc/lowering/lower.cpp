#include "csrc/lowering/lower.h"

#include <atomic>

#include "csrc/codegen/kernel.h"
#include "csrc/lowering/program_writer.h"
#include "csrc/lowering/size_buckets.h"
#include "csrc/lowering/tactic_problem.h"
#include "csrc/version.h"
#include "runtime/base/parallel.h"

namespace tv {

namespace {

/// Timing several sizes takes several times as long.
constexpr int64_t kBucketsFromLevel = 3;

class Lowering {
 public:
  Lowering(const Graph& graph, const Settings& settings, const DeviceProfile& device,
           const LoweringOptions& options)
      : graph_(graph),
        settings_(settings),
        device_(device),
        options_(options),
        table_(graph),
        buffers_(table_, spec_),
        parts_{settings, device, table_, buffers_, spec_},
        writer_(parts_) {
    spec_.name = graph.name;
    spec_.builder_version = kBuilderVersion;
    spec_.runs_on = device.runs_on();
    spec_.tuned_for = device.tuned_for();
    spec_.symbols = graph.symbols;
    spec_.conditions = graph.conditions;
  }

  EngineSpec run(const Progress& progress) {
    int64_t done = 0;
    for (const Node& node : graph_.nodes) {
      lower_node(node, progress);
      if (progress) progress("lower", ++done, static_cast<int64_t>(graph_.nodes.size()));
    }
    compile_modules(progress);
    return std::move(spec_);
  }

 private:
  void lower_node(const Node& node, const Progress& progress) {
    const NodeTactics tactics = convert_node(node, table_, device_, settings_);
    std::vector<BucketChoice> choices = {{{}, {.candidate = tactics.chosen}}};
    if (options_.costs && !tactics.named) choices = choose(node, tactics, progress);
    for (const auto& [bucket, choice] : choices) {
      const size_t first = spec_.dispatches.size();
      writer_.add(node, tactics.candidates.at(choice.candidate), bucket.contains(spec_.symbols));
      for (size_t i = first; i < spec_.dispatches.size(); ++i) {
        Dispatch& dispatch = spec_.dispatches[i];
        if (i - first < choice.step_us.size()) dispatch.time_us = choice.step_us[i - first];
        if (choices.size() > 1) dispatch.name += " (" + bucket.str(spec_.symbols) + ")";
      }
    }
    note(node, tactics, choices.front().choice);
  }

  struct BucketChoice {
    SizeBucket bucket;
    TacticChoice choice;
  };

  /// What is chosen at the typical sizes, and for much smaller and larger ones where another tactic
  /// is enough faster there to be worth launches and packed weights of its own.
  std::vector<BucketChoice> choose(const Node& node, const NodeTactics& tactics,
                                   const Progress& progress) {
    constexpr double kWorth = 1.1;
    const TacticProblem problem = tactic_problem(node, tactics, parts_);
    std::vector<BucketChoice> choices = {
        {{}, options_.costs->choose(problem, tactics.chosen, progress)}};
    if (settings_.optimization_level < kBucketsFromLevel) return choices;
    const std::vector<SizeBucket> buckets = size_buckets(spec_.symbols, problem.used_symbols);
    const size_t typical = choices[0].choice.candidate;
    SizeBucket rest = buckets.front();
    for (size_t i = 1; i < buckets.size(); ++i) {
      const SizeBucket& bucket = buckets[i];
      TacticChoice choice = options_.costs->choose(in_bucket(problem, bucket), typical, progress);
      const auto us_of = [&](size_t candidate) {
        return candidate < choice.candidate_us.size() ? choice.candidate_us[candidate] : 0.0;
      };
      if (choice.candidate == typical || us_of(typical) < kWorth * us_of(choice.candidate)) {
        (bucket.point < rest.point ? rest.first : rest.last) =
            bucket.point < rest.point ? bucket.first : bucket.last;
      } else {
        choices.push_back({bucket, std::move(choice)});
      }
    }
    if (choices.size() > 1) choices[0].bucket = rest;
    return choices;
  }

  void compile_modules(const Progress& progress) {
    const std::vector<TacticProgram::Kernel> kernels = writer_.kernels();
    spec_.modules.resize(kernels.size());
    std::atomic<int64_t> done{0};
    for_each_parallel(
        kernels.size(),
        [&](size_t i) {
          spec_.modules[i] = compile_kernel(kernels[i].name, kernels[i].glsl, settings_);
          ++done;
        },
        [&] {
          if (progress) progress("compile", done, static_cast<int64_t>(kernels.size()));
        });
    if (!options_.report) return;
    for (const auto& kernel : kernels)
      options_.report->kernels.push_back({kernel.name, kernel.glsl});
  }

  void note(const Node& node, const NodeTactics& tactics, const TacticChoice& choice) {
    if (!options_.report) return;
    LoweringReport::NodeReport entry{node.name, node.op, {}, choice.candidate};
    for (size_t i = 0; i < tactics.candidates.size(); ++i) {
      entry.tactics.push_back({tactics.candidates[i].name, tactics.candidates[i].refusal,
                               i < choice.notes.size() ? choice.notes[i] : ""});
    }
    options_.report->nodes.push_back(std::move(entry));
  }

  const Graph& graph_;
  const Settings& settings_;
  const DeviceProfile& device_;
  const LoweringOptions options_;
  EngineSpec spec_;
  ValueTable table_;
  BufferTable buffers_;
  ProgramWriter::Parts parts_;
  ProgramWriter writer_;
};

}  // namespace

EngineSpec lower(const Graph& graph, const Settings& settings, const DeviceProfile& device,
                 const Progress& progress, const LoweringOptions& options) {
  return Lowering(graph, settings, device, options).run(progress);
}

}  // namespace tv
