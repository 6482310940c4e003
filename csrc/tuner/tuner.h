#pragma once
// The tuner: the cost model that measures on a device (docs/design/0004-tuner.md).

#include <memory>

#include "csrc/cost_model.h"
#include "csrc/settings.h"
#include "csrc/tuner/bench.h"
#include "csrc/tuner/timing_cache.h"

namespace tv {

/// Counts of all tuners of this process, in candidates except for `problems`.
struct TunerStats {
  uint64_t problems = 0;  ///< nodes with something to choose, equal ones of an engine counted once
  uint64_t timed = 0;     ///< run on the device
  uint64_t cached = 0;    ///< answered by the timing cache
  uint64_t checked = 0;   ///< winners compared with the reference
  uint64_t wrong = 0, lost = 0, refused = 0;
  uint64_t cut = 0;  ///< left out because the level's time was spent
  /// Timings that stand though engines were called meanwhile, each time they were made.
  uint64_t disturbed = 0;
};
TunerStats tuner_stats();
void reset_tuner_stats();

struct TunerOptions {
  int64_t level = 3;    ///< 1 to 5
  double seconds = -1;  ///< of timing; negative: the level's
};

/// A tuner for one engine. Saves the cache as it goes and when it is destroyed, so that an
/// interrupted compilation loses nothing; the next one goes on from there.
std::unique_ptr<CostModel> make_tuner(std::unique_ptr<Bench> bench,
                                      std::shared_ptr<TimingCache> cache,
                                      const TunerOptions& options);

/// The tuner that `settings` ask for, on the device of this machine that has the profile's UUID;
/// null for level 0, for kernels with address checks, and if there is no such device.
std::unique_ptr<CostModel> make_tuner(const DeviceProfile& device, const Settings& settings);

}  // namespace tv
