#pragma once
// The candidate that is being timed, on disk: if the process dies with it, it is never tried again.

#include <optional>
#include <string>
#include <vector>

#include "csrc/tuner/timing_cache.h"

namespace tv {

/// A file beside the timing cache, locked as long as its process lives. Not thread-safe.
class Journal {
 public:
  /// `cache_path` "": keeps nothing.
  explicit Journal(const std::string& cache_path);
  ~Journal();  ///< removes the file
  Journal(const Journal&) = delete;

  /// Written through to the disk before the candidate runs; no key: nothing is being timed.
  void write(const std::optional<TimingKey>& key);

 private:
  std::string path_;
  int fd_ = -1;
};

/// What processes that ended without closing their journal were timing; their files are removed.
std::vector<TimingKey> abandoned(const std::string& cache_path);

}  // namespace tv
