#pragma once
// The tuner's timings on disk: one JSON file that people can read and compare.
//
//   {"format": "torch_vulkan timings", "version": 1,
//    "devices": {<tuned_for>: {<problem>: {<tactic>: {"kernels": <digest>, "time_us": 12.3, …}}}}}
//
// There is one file for all problems, so that users can name it, move it between machines and
// compare two of them. Processes share it: a writer takes a lock, reads the file again, adds its
// own entries and replaces the file atomically. A damaged file of timings is set aside and counts
// as empty. A file that is something else, under a name that a user gave, stays as it is, and
// timings are not kept.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/json.h"

namespace tv {

struct TimingKey {
  std::string device;   ///< DeviceProfile::tuned_for()
  std::string problem;  ///< TacticProblem::text
  std::string tactic;
  std::string kernels;  ///< digest of everything that is launched
  auto operator<=>(const TimingKey&) const = default;
};

struct Timing {
  /// kTimed: `us` is a median; kSlow: one timing or an estimate, far from the best; kWrong, kLost,
  /// kRefused: never to be used, `why` says why.
  enum class Kind : uint8_t { kTimed, kSlow, kWrong, kLost, kRefused };
  Kind kind = Kind::kTimed;
  double us = 0;
  std::vector<float> step_us = {};
  bool checked = false;  ///< its results agree with the reference's
  std::string why = {};
  bool operator==(const Timing&) const = default;

  bool usable() const { return kind == Kind::kTimed || kind == Kind::kSlow; }
};

class TimingCache {
 public:
  /// Reads the file ("": in memory only), and takes over what processes that died were timing
  /// (journal.h). A link is followed; a device or a FIFO is only written to, at the end.
  explicit TimingCache(std::string path);
  ~TimingCache();  ///< saves
  TimingCache(const TimingCache&) = delete;

  std::optional<Timing> find(const TimingKey& key) const;
  /// True if the tactic has an entry, whatever its digest.
  bool knows(const std::string& device, const std::string& problem,
             const std::string& tactic) const;
  /// Returns what is kept, and what a later process will read: times to a nanosecond.
  Timing put(const TimingKey& key, Timing timing);
  /// Merges new entries into the file. A failure is logged once and not fatal.
  void save();
  /// Saves where the last time was a while ago.
  void save_sometimes();
  /// Path of the journal, beside the file; "": there is none.
  const std::string& journal_path() const { return is_file_ && !foreign_ ? path_ : no_path_; }

 private:
  void load();
  void set_aside(const std::string& text, const std::string& why);
  void merge(const Json& file);
  Json to_json() const;

  const std::string path_, no_path_;
  const bool is_file_;                 ///< or will be
  std::atomic<bool> foreign_ = false;  ///< the file is somebody else's: it is not written
  mutable std::mutex mutex_;
  /// By device, problem and tactic; the digest must match too.
  struct Entry {
    std::string kernels;
    Timing timing;
    bool fresh = false;  ///< not in the file yet
  };
  std::map<std::string, std::map<std::string, std::map<std::string, Entry>>> entries_;
  const Entry* entry_of(const std::string& device, const std::string& problem,
                        const std::string& tactic) const;
  bool dirty_ = false, told_ = false;
  int64_t saved_ms_ = 0;
};

/// The cache of `path`, shared in the process; read again where another process changed the file.
std::shared_ptr<TimingCache> open_timing_cache(const std::string& path);

}  // namespace tv
