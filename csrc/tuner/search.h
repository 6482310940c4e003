#pragma once

#include <optional>

#include "csrc/tuner/bench.h"
#include "csrc/tuner/journal.h"
#include "csrc/tuner/level.h"
#include "csrc/tuner/timing_cache.h"
#include "csrc/tuner/tuner.h"

namespace tv {

struct SearchSetup {
  const TacticProblem& problem;
  Bench& bench;
  TimingCache& cache;
  Journal& journal;
  const TuningLevel& level;
  const Progress& progress;
  double seconds_left = 0;
  std::optional<size_t> reference = {};  ///< the candidate that winners are checked against
};

/// Finds the fastest right tactic of one problem among some of its candidates.
class Search {
 public:
  Search(const SearchSetup& setup, std::vector<size_t> candidates);
  ~Search();

  /// Times what the cache does not know and checks the winner. What was measured is in the cache
  /// even where this throws.
  void run();
  /// After `run`. `rule` where nothing was timed, unless that is known not to work.
  TacticChoice choice(size_t rule) const;
  const TunerStats& stats() const { return stats_; }

 private:
  struct Entry {
    TimingKey key;
    std::optional<Timing> timing;
    std::string note;
  };

  void look_up();
  bool spent() const;
  BenchTrials& trials();
  void time_pending();
  void time_first(size_t candidate);
  double first_timing(size_t candidate, int times);
  void time_contenders();
  void check_winner();
  std::optional<size_t> best() const;
  double best_us() const;
  double most_us() const;
  int runs(double us) const;  ///< of a candidate that takes `us`, for one timing
  void record(size_t candidate, Timing timing);
  /// Runs `body`, first writing `candidate` to the journal where it may be its first run at these
  /// shapes; false if that lost the device, was refused or found no memory.
  enum class Guard : uint8_t { kJournal, kRanBefore };
  template <typename Body>
  bool guarded(size_t candidate, Guard guard, const Body& body);
  void report(const std::string& what);

  const SearchSetup setup_;
  const std::vector<size_t> candidates_;
  std::map<size_t, Entry> entries_;
  std::map<size_t, TacticProgram> programs_;
  std::unique_ptr<BenchTrials> trials_;
  std::vector<size_t> pending_;
  bool is_warm_ = false;
  int64_t steps_done_ = 0, steps_ = 0;  // for progress
  double deadline_s_ = 0;
  TunerStats stats_;
};

}  // namespace tv
