#include "csrc/tuner/tuner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>

#include "csrc/tuner/device_bench.h"
#include "csrc/tuner/digest.h"
#include "csrc/tuner/level.h"
#include "csrc/tuner/search.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace tv {

namespace {

constexpr double kComparisonShare = 0.5;  // of the level's time

std::mutex stats_mutex;
TunerStats total_stats;  // guarded by stats_mutex

void add_to_total(const TunerStats& s) {
  const std::lock_guard lock(stats_mutex);
  total_stats.problems += s.problems;
  total_stats.timed += s.timed;
  total_stats.cached += s.cached;
  total_stats.checked += s.checked;
  total_stats.wrong += s.wrong;
  total_stats.lost += s.lost;
  total_stats.refused += s.refused;
  total_stats.cut += s.cut;
  total_stats.disturbed += s.disturbed;
}

class Tuner : public CostModel {
 public:
  Tuner(std::unique_ptr<Bench> bench, std::shared_ptr<TimingCache> cache,
        const TunerOptions& options)
      : bench_(std::move(bench)),
        cache_(std::move(cache)),
        options_(options),
        level_(tuning_level(options.level)),
        journal_(cache_->journal_path()) {
    const bool cpu = bench_->profile().is_cpu();
    left_seconds_ = options.seconds >= 0 ? options.seconds
                    : cpu                ? level_.cpu_seconds
                                         : level_.gpu_seconds;
    comparison_seconds_ = kComparisonShare * left_seconds_;
  }

  ~Tuner() override {
    cache_->save();
    if (disturbed_ > 0) {
      log(LogLevel::kInfo, "[tuner] engines were called beside " + std::to_string(disturbed_) +
                               " timings each time these were made: the shortest counts");
    }
    if (cut_ == 0) return;
    log(LogLevel::kInfo, "[tuner] the time of optimization_level " +
                             std::to_string(options_.level) + " is spent: " + std::to_string(cut_) +
                             " candidates were not timed; another build goes on from here");
  }

  TacticChoice choose(const TacticProblem& problem, size_t rule,
                      const Progress& progress) override {
    const std::vector<size_t> applicable = applicable_of(problem);
    if (!worth_tuning(problem, applicable)) return {.candidate = rule};
    const auto [it, fresh] = choices_.try_emplace(memo_key(problem));
    if (!fresh && !it->second.notes.empty()) return it->second;
    try {
      it->second = decide(problem, applicable, rule, progress);
    } catch (const Error& error) {  // an engine that is not tuned is better than none
      log(LogLevel::kWarn, "[tuner] " + problem.node + " is not tuned: " + error.what());
      it->second = {.candidate = rule};
      it->second.notes.assign(problem.candidates.size(), "not tuned");
    }
    return it->second;
  }

 private:
  static std::vector<size_t> applicable_of(const TacticProblem& problem) {
    std::vector<size_t> applicable;
    for (size_t i = 0; i < problem.candidates.size(); ++i) {
      if (problem.candidates[i].refusal.empty()) applicable.push_back(i);
    }
    return applicable;
  }

  /// A node with one tactic is timed too where that is cheap: the engine records the time.
  bool worth_tuning(const TacticProblem& problem, const std::vector<size_t>& applicable) const {
    const bool cheap = !bench_->profile().is_cpu() && options_.level >= 3;
    if (applicable.size() < 2 && !cheap && !problem.for_comparison) return false;
    // What depends on constants alone runs once per set of weights.
    return !problem.program(applicable.front()).spec.dispatches.empty();
  }

  static std::string memo_key(const TacticProblem& problem) {
    std::string key = problem.text + (problem.for_comparison ? "\ncomparison" : "");
    for (const TacticProblem::Candidate& candidate : problem.candidates) {
      key += "\n" + candidate.name + (candidate.refusal.empty() ? "" : " -");
    }
    return key;
  }

  /// The first ones, as many as the level times, and whatever was timed at a higher level; for a
  /// comparison the very first, whatever is known of others, so that it ends as it did before.
  std::vector<size_t> select(const TacticProblem& problem, const std::vector<size_t>& applicable) {
    std::vector<size_t> selected;
    if (problem.for_comparison) {
      const size_t few = std::min(applicable.size(), level_.compared);
      return {applicable.begin(), applicable.begin() + static_cast<std::ptrdiff_t>(few)};
    }
    const size_t count = level_.count(applicable.size());
    for (size_t i = 0; i < applicable.size(); ++i) {
      const std::string& name = problem.candidates[applicable[i]].name;
      if (i < count || cache_->knows(bench_->profile().tuned_for(), problem.text, name)) {
        selected.push_back(applicable[i]);
      }
    }
    return selected;
  }

  TacticChoice decide(const TacticProblem& problem, const std::vector<size_t>& applicable,
                      size_t rule, const Progress& progress) {
    SearchSetup setup{.problem = problem,
                      .bench = *bench_,
                      .cache = *cache_,
                      .journal = journal_,
                      .level = level_,
                      .progress = progress,
                      .seconds_left = problem.for_comparison
                                          ? std::min(left_seconds_, comparison_seconds_)
                                          : left_seconds_};
    const size_t last = problem.candidates.size() - 1;
    if (problem.candidates[last].refusal.empty()) setup.reference = last;
    Search search(setup, select(problem, applicable));
    const auto start = std::chrono::steady_clock::now();
    const auto account = [&] {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (search.stats().timed + search.stats().checked > 0) {
        left_seconds_ = std::max(0.0, left_seconds_ - took.count());
        if (problem.for_comparison) comparison_seconds_ -= took.count();
      }
      cut_ += search.stats().cut;
      disturbed_ += search.stats().disturbed;
      add_to_total(search.stats());
    };
    try {
      search.run();
    } catch (...) {
      account();
      throw;
    }
    account();
    cache_->save_sometimes();
    TacticChoice choice = search.choice(rule);
    log_choice(problem, choice);
    return choice;
  }

  void log_choice(const TacticProblem& problem, const TacticChoice& choice) const {
    if (!log_enabled(LogLevel::kDebug)) return;
    std::string text = "[tuner] " + problem.node + ": " + problem.text;
    for (size_t i = 0; i < problem.candidates.size(); ++i) {
      const TacticProblem::Candidate& candidate = problem.candidates[i];
      text += std::string("\n  ") + (i == choice.candidate ? "* " : "  ") + candidate.name + ": " +
              (candidate.refusal.empty() ? choice.notes.at(i) : "refused, " + candidate.refusal);
    }
    log(LogLevel::kDebug, text);
  }

  std::unique_ptr<Bench> bench_;
  std::shared_ptr<TimingCache> cache_;
  const TunerOptions options_;
  const TuningLevel& level_;
  Journal journal_;
  double left_seconds_ = 0, comparison_seconds_ = 0;
  uint64_t cut_ = 0, disturbed_ = 0;
  std::map<std::string, TacticChoice> choices_;  // of equal problems in this engine
};

}  // namespace

TunerStats tuner_stats() {
  const std::lock_guard lock(stats_mutex);
  return total_stats;
}

void reset_tuner_stats() {
  const std::lock_guard lock(stats_mutex);
  total_stats = {};
}

std::unique_ptr<CostModel> make_tuner(std::unique_ptr<Bench> bench,
                                      std::shared_ptr<TimingCache> cache,
                                      const TunerOptions& options) {
  return std::make_unique<Tuner>(std::move(bench), std::move(cache), options);
}

std::unique_ptr<CostModel> make_tuner(const DeviceProfile& device, const Settings& settings) {
  if (settings.optimization_level == 0 || settings.check_addresses) return nullptr;
  try {
    for (const DeviceProfile& here : list_devices()) {
      if (here.uuid != device.uuid || !(here == device)) continue;
      return make_tuner(make_device_bench(open_device(here.uuid), settings),
                        open_timing_cache(settings.timing_cache_path),
                        {.level = settings.optimization_level,
                         .seconds = static_cast<double>(settings.tuning_seconds)});
    }
  } catch (const Error& error) {  // no driver: the engine is for another machine
    if (error.kind() != ErrorKind::kDevice) throw;
  }
  return nullptr;
}

}  // namespace tv
