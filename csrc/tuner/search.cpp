#include "csrc/tuner/search.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <numeric>

#include "csrc/tuner/digest.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace tv {

namespace {

constexpr double kGiveUp = 1.5;   // a first timing above this many times the best is enough
constexpr double kFarAbove = 8;   // an estimate above this many times the best is enough …
constexpr double kSureUs = 1000;  // … where it is not made of launches' own overhead
constexpr double kLongestGpuUs = 300e3,
                 kLongestCpuUs = 3e6;  // of a run; longer ones are only estimated
constexpr double kWarmUpSeconds = 0.02;
constexpr double kSampleGpuUs = 400, kSampleCpuUs = 2000;  // of one timing, by several runs

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string text_of(double us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", us);
  return text;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Why a program cannot be timed at the typical sizes of `symbols`, or "": a CPU driver ends loops.
std::string loops_refusal(const TacticProgram& program, const std::vector<Symbol>& symbols,
                          const DeviceProfile& device) {
  std::vector<int64_t> values;
  for (const Symbol& symbol : symbols) values.push_back(symbol.opt);
  int64_t most = 0;
  for (const Dispatch& dispatch : program.spec.dispatches) {
    most = std::max(most, dispatch.iterations.eval(values));
  }
  if (most <= device.max_loop_iterations()) return "";
  return std::to_string(most) + " loop iterations; it makes " +
         std::to_string(device.max_loop_iterations());
}

/// One timing at a time in this process: two would measure each other.
std::mutex& device_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

}  // namespace

Search::Search(const SearchSetup& setup, std::vector<size_t> candidates)
    : setup_(setup),
      candidates_(std::move(candidates)),
      deadline_s_(now_s() + setup.seconds_left) {}

Search::~Search() = default;

void Search::run() {
  ++stats_.problems;
  look_up();
  const std::lock_guard lock(device_mutex());
  if (!pending_.empty()) {
    time_pending();
    check_winner();  // before others are measured by it
    time_contenders();
  }
  check_winner();
  if (trials_) stats_.disturbed += trials_->disturbed();
}

void Search::look_up() {
  const std::string device = setup_.bench.profile().tuned_for();
  std::vector<size_t> wanted = candidates_;
  if (setup_.reference &&
      std::find(wanted.begin(), wanted.end(), *setup_.reference) == wanted.end())
    wanted.push_back(*setup_.reference);
  for (const size_t candidate : wanted) {
    Entry& entry = entries_[candidate];
    try {
      const TacticProgram& program =
          programs_.emplace(candidate, setup_.problem.program(candidate)).first->second;
      entry.key = {device, setup_.problem.text, setup_.problem.candidates[candidate].name,
                   program_digest(program, setup_.bench.profile())};
      entry.timing = setup_.cache.find(entry.key);
    } catch (const Error& error) {  // a tactic whose kernel cannot be generated
      log(LogLevel::kWarn, "[tuner] " + setup_.problem.node + ": " + error.what());
      entry.note = error.what();
    }
  }
  for (const size_t candidate : candidates_) {
    if (!programs_.contains(candidate)) continue;
    Entry& entry = entries_[candidate];
    const std::string why =
        loops_refusal(programs_.at(candidate), setup_.problem.symbols, setup_.bench.profile());
    if (entry.timing) {
      ++stats_.cached;
    } else if (!why.empty()) {
      entry.timing = {.kind = Timing::Kind::kRefused, .why = why};
    } else {
      pending_.push_back(candidate);
    }
  }
  steps_ = static_cast<int64_t>(pending_.size());
}

bool Search::spent() const { return now_s() >= deadline_s_; }

BenchTrials& Search::trials() {
  if (!trials_) trials_ = setup_.bench.open(setup_.problem, programs_);
  return *trials_;
}

void Search::report(const std::string& what) {
  if (setup_.progress) setup_.progress(what + " " + setup_.problem.op, steps_done_, steps_);
}

void Search::record(size_t candidate, Timing timing) {
  Entry& entry = entries_.at(candidate);
  entry.timing = setup_.cache.put(entry.key, std::move(timing));
}

template <typename Body>
bool Search::guarded(size_t candidate, Guard guard, const Body& body) {
  if (guard == Guard::kJournal) setup_.journal.write(entries_.at(candidate).key);
  try {
    body();
    setup_.journal.write(std::nullopt);
    return true;
  } catch (const OutOfMemoryError& error) {  // now; another time there may be enough
    setup_.journal.write(std::nullopt);
    entries_.at(candidate).note = error.what();
    return false;
  } catch (const Error& error) {
    setup_.journal.write(std::nullopt);
    trials_.reset();
    const bool lost = setup_.bench.recover();
    ++(lost ? stats_.lost : stats_.refused);
    record(candidate,
           {.kind = lost ? Timing::Kind::kLost : Timing::Kind::kRefused, .why = error.what()});
    if (lost) setup_.cache.save();
    log(LogLevel::kWarn, "[tuner] " + setup_.problem.candidates[candidate].name + " of " +
                             setup_.problem.node + " is not used: " + error.what());
    return false;
  } catch (...) {
    setup_.journal.write(std::nullopt);
    throw;
  }
}

void Search::time_pending() {
  constexpr size_t kAtOnce = 16;  // compiled together; what the time does not reach is not compiled
  for (size_t first = 0; first < pending_.size(); first += kAtOnce) {
    const size_t end = std::min(first + kAtOnce, pending_.size());
    std::vector<size_t> batch(pending_.begin() + static_cast<std::ptrdiff_t>(first),
                              pending_.begin() + static_cast<std::ptrdiff_t>(end));
    report("compile candidates of");
    is_warm_ = false;
    if (!spent()) {
      try {
        for (const auto& [candidate, why] : trials().prepare(batch)) {
          ++stats_.refused;
          record(candidate, {.kind = Timing::Kind::kRefused, .why = why});
          std::erase(batch, candidate);
        }
      } catch (const OutOfMemoryError& error) {
        for (const size_t candidate : batch) entries_.at(candidate).note = error.what();
        return;
      } catch (const Error&) {  // whoever is compiled next by itself will say what is wrong
        trials_.reset();
        if (!setup_.bench.recover()) throw;
      }
    }
    for (const size_t candidate : batch) {
      report("tune");
      if (spent()) {
        ++stats_.cut;
        entries_.at(candidate).note = "not timed, the time of the level is spent";
      } else {
        time_first(candidate);
      }
      ++steps_done_;
    }
  }
}

void Search::time_first(size_t candidate) {
  guarded(candidate, Guard::kJournal, [&] {
    ++stats_.timed;
    const double estimate = trials().predict_us(candidate);
    if (estimate > most_us() || (estimate > kSureUs && estimate > kFarAbove * best_us())) {
      record(candidate, {.kind = Timing::Kind::kSlow, .us = estimate});
      return;
    }
    record(candidate, {.kind = Timing::Kind::kSlow, .us = first_timing(candidate, runs(estimate))});
  });
}

double Search::first_timing(size_t candidate, int times) {
  double us = trials().time_us(candidate, times);
  if (setup_.bench.profile().is_cpu()) return us;
  // A GPU lowers its clocks while candidates are compiled.
  const double until = is_warm_ ? 0 : now_s() + kWarmUpSeconds;
  do {
    us = std::min(us, trials().time_us(candidate, times));
  } while (now_s() < until);
  is_warm_ = true;
  return us;
}

int Search::runs(double us) const {
  const double sample = setup_.bench.profile().is_cpu() ? kSampleCpuUs : kSampleGpuUs;
  return static_cast<int>(std::clamp(sample / std::max(us, 1.0), 1.0, 100.0));
}

double Search::most_us() const {
  return setup_.bench.profile().is_cpu() ? kLongestCpuUs : kLongestGpuUs;
}

double Search::best_us() const {
  const auto winner = best();
  return winner ? entries_.at(*winner).timing->us : 1e300;
}

void Search::time_contenders() {
  std::map<size_t, std::vector<double>> contenders;
  const double limit = kGiveUp * best_us();
  for (const auto& [candidate, entry] : entries_) {
    if (!entry.timing || entry.timing->kind != Timing::Kind::kSlow) continue;
    // What lost another time stays so while some of those it may have lost to are not timed.
    if (stats_.cut > 0 && std::find(pending_.begin(), pending_.end(), candidate) == pending_.end())
      continue;
    if (entry.timing->us <= std::min(limit, most_us())) contenders[candidate] = {entry.timing->us};
  }
  for (int round = 1; round < setup_.level.rounds; ++round) {
    double best = 1e300;
    for (const auto& [candidate, us] : contenders) {
      if (!us.empty()) best = std::min(best, median(us));
    }
    for (auto& contender : contenders) {
      const size_t candidate = contender.first;
      std::vector<double>& us = contender.second;  // (clang 14 binds no names for lambdas)
      report("tune");
      if (us.empty() || median(us) > kGiveUp * best) continue;
      if (round > 1 && spent()) break;  // long runs are told apart by fewer of them
      if (!guarded(candidate, Guard::kRanBefore,
                   [&] { us.push_back(trials().time_us(candidate, runs(us[0]))); }))
        us.clear();
    }
  }
  for (const auto& [candidate, us] : contenders) {
    if (us.empty()) continue;
    Timing timing = *entries_.at(candidate).timing;
    timing.kind = Timing::Kind::kTimed;
    timing.us = median(us);
    const auto time_steps = [&, candidate = candidate] {
      timing.step_us = trials().step_us(candidate);
    };
    if (guarded(candidate, Guard::kRanBefore, time_steps)) record(candidate, timing);
  }
}

std::optional<size_t> Search::best() const {
  std::optional<size_t> best;
  for (const auto& [candidate, entry] : entries_) {
    if (!entry.timing || !entry.timing->usable()) continue;
    if (!best || entry.timing->us < entries_.at(*best).timing->us) best = candidate;
  }
  return best;
}

void Search::check_winner() {
  while (const auto winner = best()) {
    Timing timing = *entries_.at(*winner).timing;
    if (timing.checked || !timing.why.empty()) return;
    if (!setup_.reference || winner == setup_.reference) return;
    if (!programs_.contains(*setup_.reference)) return;
    std::optional<std::string> difference;
    report("check");
    const bool ran = guarded(*winner, Guard::kJournal,
                             [&] { difference = trials().difference(*winner, *setup_.reference); });
    if (!ran && entries_.at(*winner).timing->usable()) return;  // no memory for it now
    if (!ran) continue;
    if (!difference) {
      timing.why = "not checked, the reference takes too long";
      record(*winner, timing);
      return;
    }
    ++stats_.checked;
    if (difference->empty()) {
      timing.checked = true;
      record(*winner, timing);
      return;
    }
    ++stats_.wrong;
    record(*winner, {.kind = Timing::Kind::kWrong, .why = *difference});
    setup_.cache.save();
    log(LogLevel::kWarn, "[tuner] " + setup_.problem.candidates[*winner].name + " of " +
                             setup_.problem.node + " is wrong and not used: " + *difference +
                             "; problem: " + setup_.problem.text);
  }
}

TacticChoice Search::choice(size_t rule) const {
  TacticChoice choice{.candidate = rule};
  auto winner = best();
  // What is known for having lost to others does not win because their kernels are new and the time
  // for them is spent.
  if (winner && entries_.at(*winner).timing->kind == Timing::Kind::kSlow &&
      programs_.contains(rule) && !entries_.at(rule).timing) {
    winner.reset();
  }
  if (winner) {
    choice.candidate = *winner;
    const Timing& timing = *entries_.at(*winner).timing;
    std::vector<float> shares = timing.step_us;
    if (shares.empty()) shares.assign(programs_.at(*winner).spec.dispatches.size(), 1);
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (const float share : shares) {
      // Launches run faster after one another than by themselves.
      choice.step_us.push_back(sum > 0 ? static_cast<float>(share * timing.us / sum) : 0);
    }
  } else if (entries_.contains(rule) && entries_.at(rule).timing) {
    // Known not to work: the next one that is not.
    for (const size_t candidate : candidates_) {
      if (entries_.at(candidate).timing || !programs_.contains(candidate)) continue;
      choice.candidate = candidate;
      break;
    }
  }
  for (size_t i = 0; i < setup_.problem.candidates.size(); ++i) {
    std::string note = "not timed at this level";
    if (const auto it = entries_.find(i); it != entries_.end()) {
      const auto& [key, timing, text] = it->second;
      if (timing && timing->usable()) {
        note = text_of(timing->us) + (timing->kind == Timing::Kind::kSlow ? ", given up" : "") +
               (timing->checked ? ", checked" : "") +
               (timing->why.empty() ? "" : ", " + timing->why);
      } else if (timing) {
        constexpr const char* kWhy[] = {"", "", "wrong: ", "lost: ", "refused by the driver: "};
        note = kWhy[static_cast<size_t>(timing->kind)] + timing->why;
      } else if (!text.empty()) {
        note = text;
      }
    }
    choice.notes.push_back(setup_.problem.candidates[i].refusal.empty() ? note : "");
    const auto it = entries_.find(i);
    const bool timed = it != entries_.end() && it->second.timing && it->second.timing->usable();
    choice.candidate_us.push_back(timed ? it->second.timing->us : 0);
  }
  return choice;
}

}  // namespace tv
