#pragma once
// Small sets of numbered items for which something holds: bisection, then delta debugging (Zeller
// and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002).

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace tv::cli {

using Items = std::vector<size_t>;

/// A question about sets, which is not asked twice of the same set, and not more often than it may
/// be: then the answer is no.
class Question {
 public:
  Question(std::function<bool(const Items&)> ask, int64_t most)
      : ask_(std::move(ask)), most_(most) {}
  bool operator()(const Items& items);
  int64_t asked() const { return asked_; }
  /// Whether a set was not asked of because there were enough.
  bool spent() const { return spent_; }

 private:
  std::function<bool(const Items&)> ask_;
  int64_t most_, asked_ = 0;
  bool spent_ = false;
  std::map<Items, bool> known_;
};

/// The shortest beginning, or end, that bisection finds, of items for which the answer is yes; it
/// is yes for what they return, too.
Items shortest_prefix(Items items, Question& question);
Items shortest_suffix(Items items, Question& question);

/// Leaves out what can be left out of items for which the answer is yes, larger pieces first: of
/// the rest no single item can be, unless the question is spent.
Items without_needless(Items items, Question& question);

}  // namespace tv::cli
