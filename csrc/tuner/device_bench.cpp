#include "csrc/tuner/device_bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "csrc/codegen/kernel.h"
#include "csrc/tuner/compare.h"
#include "csrc/tuner/trial_memory.h"
#include "runtime/base/error.h"
#include "runtime/base/parallel.h"

namespace tv {

namespace {

// What one submission may take by estimate: far below any watchdog (Windows: 2 s), and below what
// would make a driver on a CPU unbearable.
constexpr double kMostGpuUs = 300e3, kMostCpuUs = 3e6;
constexpr int64_t kGpuSample = 4096, kCpuSample = 64;  // workgroups that fill the device

constexpr int kCpuParts = 3;
constexpr int kTries = 5;  // of a timing that other work disturbs

/// A guess of how many terms an element of the results adds (compare.h): exact for products of
/// matrices, the length of what is reduced for reductions, and never below what a row may have.
double reduction_terms(const TacticProgram& program, const std::vector<int64_t>& symbols) {
  constexpr double kRow = 4096;
  std::vector<double> operands;
  double results = 1;
  for (size_t b = 0; b < program.memory.size(); ++b) {
    const auto item = std::max<int64_t>(size_bytes(program.memory[b].dtype), 1);
    const auto numel = static_cast<double>(program.spec.buffers[b].size_bytes.eval(symbols) / item);
    if (program.memory[b].role == TacticProgram::Role::kOperand) operands.push_back(numel);
    if (program.memory[b].role == TacticProgram::Role::kResult) results = std::max(results, numel);
  }
  std::sort(operands.rbegin(), operands.rend());
  double terms = kRow;
  if (!operands.empty()) terms = std::max(terms, operands[0] / results);
  if (operands.size() > 1) {
    terms = std::max(terms, std::sqrt(operands[0] / results * operands[1]));
  }
  return terms;
}

/// False if a launch would leave its buffers or one of these is too large: symbols without a
/// bound may be bounded by what the shapes of weights allow.
bool fits(const TacticProgram& program, const std::vector<int64_t>& symbols, uint64_t most_bytes) {
  for (const Buffer& buffer : program.spec.buffers) {
    const int64_t bytes = buffer.size_bytes.eval(symbols);
    if (bytes < 0 || static_cast<uint64_t>(bytes) > most_bytes) return false;
  }
  for (const auto* list : {&program.spec.weight_program, &program.spec.dispatches}) {
    for (const Dispatch& dispatch : *list) {
      for (const OperandRange& range : dispatch.operands) {
        const int64_t first = range.offset_bytes.eval(symbols);
        const int64_t size = range.size_bytes.eval(symbols);
        const int64_t all = program.spec.buffers[range.buffer].size_bytes.eval(symbols);
        if (size > 0 && (first < 0 || first + size > all)) return false;
      }
    }
  }
  return true;
}

/// The values to try; those to be timed are kept in any case.
std::vector<std::vector<int64_t>> usable_symbols(const TacticProblem& problem,
                                                 const std::map<size_t, TacticProgram>& programs,
                                                 const DeviceProfile& device) {
  std::vector<std::vector<int64_t>> all = trial_symbols(problem.symbols, problem.conditions);
  const auto is_unusable = [&](const std::vector<int64_t>& values) {
    return std::any_of(programs.begin(), programs.end(), [&](const auto& entry) {
      return !fits(entry.second, values, device.memory_bytes / 8);
    });
  };
  all.erase(std::remove_if(all.begin() + 1, all.end(), is_unusable), all.end());
  return all;
}

class DeviceTrials : public BenchTrials {
 public:
  DeviceTrials(std::shared_ptr<Device> device, const Settings& settings,
               const TacticProblem& problem, std::map<size_t, TacticProgram> programs)
      : device_(std::move(device)),
        settings_(settings),
        problem_(problem),
        programs_(std::move(programs)),
        memory_(device_, usable_symbols(problem, programs_, profile(*device_))),
        is_cpu_(profile(*device_).is_cpu()) {}

  std::map<size_t, std::string> prepare(const std::vector<size_t>& candidates) override {
    for (const size_t candidate : candidates) trials_.try_emplace(candidate);
    std::vector<std::string> refusals(candidates.size());
    for_each_parallel(candidates.size(), [&](size_t i) {
      try {
        make_trial(candidates[i]);
      } catch (const OutOfMemoryError&) {
        throw;
      } catch (const Error& e) {
        if (is_lost(*device_)) throw;
        refusals[i] = e.what();
      }
    });
    std::map<size_t, std::string> refused;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!refusals[i].empty()) refused[candidates[i]] = refusals[i];
    }
    return refused;
  }

  double predict_us(size_t candidate) override { return estimate_us(activate(candidate, 0)); }

  double time_us(size_t candidate, int times) override {
    Trial& trial = activate(candidate, 0);
    if (!is_cpu_ || times < kCpuParts) return run_us(trial, times);
    // Other processes take the cores now and then: the least disturbed part counts.
    double us = run_us(trial, times / kCpuParts);
    for (int i = 1; i < kCpuParts; ++i) us = std::min(us, run_us(trial, times / kCpuParts));
    return us;
  }

  std::vector<float> step_us(size_t candidate) override {
    Trial& trial = activate(candidate, 0);
    const std::vector<double> us = steps_us(trial, INT64_MAX);
    return {us.begin(), us.end()};
  }

  uint64_t disturbed() const override { return disturbed_; }

  std::optional<std::string> difference(size_t candidate, size_t reference) override {
    bool compared = false;
    for (size_t s = 0; s < memory_.symbols().size(); ++s) {
      try {
        const auto& [want, partial] = reference_results(reference, s);
        if (want.empty()) continue;
        const auto got = results(candidate, s, nullptr);
        if (got.empty()) continue;
        compared = true;
        const Tolerance tolerance{
            .terms = reduction_terms(programs_.at(reference), memory_.symbols()[s]),
            .error = problem_.candidates.at(candidate).error,
            .discontinuous = problem_.discontinuous,
            .roundings = problem_.roundings,
            .partial = partial};
        for (size_t i = 0; i < want.size(); ++i) {
          const std::string text =
              tv::difference(want[i].dtype, got.at(i).bytes, want[i].bytes, tolerance);
          if (!text.empty()) return text + at_symbols(s);
        }
      } catch (const OutOfMemoryError&) {
        if (s == 0) throw;      // the largest shapes may be too large for this device
      } catch (const Error&) {  // where the reference itself cannot run, nothing can be said
        if (is_lost(*device_) || references_.contains(s)) throw;
      }
    }
    return compared ? std::optional<std::string>("") : std::nullopt;
  }

 private:
  void make_trial(size_t candidate) {
    std::unique_ptr<Trial>& trial = trials_.at(candidate);
    if (trial) return;
    const TacticProgram& program = programs_.at(candidate);
    EngineSpec spec = program.spec;
    for (const TacticProgram::Kernel& kernel : program.kernels) {
      spec.modules.push_back(compile_kernel(kernel.name, kernel.glsl, settings_));
    }
    trial = std::make_unique<Trial>(device_, std::move(spec));
  }

  static double sum_of(double us) { return us; }
  static double sum_of(const std::vector<double>& us) {
    return std::accumulate(us.begin(), us.end(), 0.0);
  }

  /// A timing beside which the device had nothing else to do. Engines may be called meanwhile:
  /// where each try was disturbed, the shortest counts.
  template <typename Time>
  auto undisturbed(const Trial& trial, const Time& time) -> decltype(time()) {
    auto best = time();
    for (int i = 1; i < kTries && trial.disturbed(); ++i) {
      auto us = time();
      if (!trial.disturbed()) return us;
      if (sum_of(us) < sum_of(best)) best = std::move(us);
    }
    disturbed_ += trial.disturbed();
    return best;
  }
  double run_us(Trial& trial, int times) {
    return undisturbed(trial, [&] { return trial.run(times); });
  }
  std::vector<double> steps_us(Trial& trial, int64_t most_groups) {
    return undisturbed(trial, [&] { return trial.run_steps(most_groups); });
  }

  double most_us() const { return is_cpu_ ? kMostCpuUs : kMostGpuUs; }

  /// µs that a run would take. On a CPU another process may take the core from a sample, and what
  /// it took is multiplied: what seems too long is measured again, by more and more workgroups as
  /// long as these do not take long themselves.
  double estimate_us(Trial& trial) {
    const int64_t first = is_cpu_ ? kCpuSample : kGpuSample;
    double us = sampled_us(trial, first);
    if (!is_cpu_) return us;
    double all = 1;
    for (const int64_t groups : trial.groups()) all = std::max(all, static_cast<double>(groups));
    for (int64_t sample = first;
         us > most_us() && us * static_cast<double>(sample) / all < most_us() / 4; sample *= 4) {
      us = std::min(us, sampled_us(trial, sample));
    }
    return us;
  }

  /// From a part of the workgroups of each launch.
  double sampled_us(Trial& trial, int64_t sample) {
    const std::vector<int64_t> groups = trial.groups();
    // One workgroup first: it may loop for a second all by itself. A CPU driver also compiles here.
    std::vector<double> one = steps_us(trial, 1);
    if (is_cpu_) one = steps_us(trial, 1);
    const bool is_long = std::accumulate(one.begin(), one.end(), 0.0) > most_us() / 4;
    const std::vector<double> some = is_long ? one : steps_us(trial, sample);
    double total = 0;
    for (size_t i = 0; i < groups.size(); ++i) {
      const int64_t taken = std::min(sample, groups[i]);
      // What a launch costs by itself is not repeated.
      const double each = taken > 1 ? std::max(0.0, some[i] - one[i]) / double(taken - 1) : 0;
      total += is_long ? one[i] * std::max(1.0, double(groups[i]) / double(sample))
                       : some[i] + each * double(groups[i] - taken);
    }
    return total;
  }

  /// Places a candidate and runs its weight program, where it is not the one that ran last.
  Trial& activate(size_t candidate, size_t symbols) {
    if (!trials_.contains(candidate) || !trials_.at(candidate)) {
      trials_.try_emplace(candidate);
      make_trial(candidate);
    }
    Trial& trial = *trials_.at(candidate);
    if (active_ == std::pair{candidate, symbols}) return trial;
    active_.reset();
    const auto& values = memory_.symbols().at(symbols);
    trial.bind(values, memory_.place(programs_.at(candidate), symbols, problem_.least_dimension));
    trial.run_weight_program();
    active_ = {candidate, symbols};
    return trial;
  }

  /// Of the reference; `partial`: of a part of its workgroups.
  struct Reference {
    std::vector<ProblemMemory::Result> results;
    bool partial = false;
  };
  const Reference& reference_results(size_t reference, size_t symbols) {
    if (const auto it = references_.find(symbols); it != references_.end()) return it->second;
    bool partial = false;
    auto made = results(reference, symbols, &partial);
    return references_.emplace(symbols, Reference{std::move(made), partial}).first->second;
  }

  /// Results of a run. `partial`, where given, allows a run of a part of the workgroups where all
  /// of them would take too long, and says so; empty if even that cannot be done.
  std::vector<ProblemMemory::Result> results(size_t candidate, size_t symbols, bool* partial) {
    const TacticProgram& program = programs_.at(candidate);
    Trial& trial = activate(candidate, symbols);
    const double us = estimate_us(trial);
    const std::vector<int64_t> groups = trial.groups();
    const bool marked = memory_.reset_results(program, problem_.least_dimension);
    if (us <= most_us()) {
      trial.run(1);
    } else if (partial != nullptr && marked && groups.size() == 1) {
      *partial = true;
      trial.run_steps(static_cast<int64_t>(double(groups[0]) * most_us() / us) + 1);
    } else {
      return {};
    }
    return memory_.read_results(program, symbols);
  }

  std::string at_symbols(size_t symbols) const {
    std::string text;
    for (size_t i = 0; i < problem_.symbols.size(); ++i) {
      text += (i ? ", " : ", at ") + problem_.symbols[i].name + " = " +
              std::to_string(memory_.symbols()[symbols][i]);
    }
    return text;
  }

  std::shared_ptr<Device> device_;
  const Settings& settings_;
  const TacticProblem& problem_;
  std::map<size_t, TacticProgram> programs_;
  ProblemMemory memory_;
  bool is_cpu_;
  uint64_t disturbed_ = 0;
  std::map<size_t, std::unique_ptr<Trial>> trials_;
  std::optional<std::pair<size_t, size_t>> active_;
  std::map<size_t, Reference> references_;  // by symbols
};

class DeviceBench : public Bench {
 public:
  DeviceBench(std::shared_ptr<Device> device, Settings settings)
      : device_(std::move(device)), settings_(std::move(settings)) {}

  const DeviceProfile& profile() const override { return tv::profile(*device_); }
  std::unique_ptr<BenchTrials> open(const TacticProblem& problem,
                                    std::map<size_t, TacticProgram> programs) override {
    return std::make_unique<DeviceTrials>(device_, settings_, problem, std::move(programs));
  }
  bool recover() override {
    if (!is_lost(*device_)) return false;
    device_ = open_device(profile().uuid);
    return true;
  }

 private:
  std::shared_ptr<Device> device_;
  const Settings settings_;
};

}  // namespace

std::unique_ptr<Bench> make_device_bench(std::shared_ptr<Device> device, const Settings& settings) {
  return std::make_unique<DeviceBench>(std::move(device), settings);
}

}  // namespace tv
