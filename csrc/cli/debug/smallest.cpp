#include "csrc/cli/debug/smallest.h"

#include <algorithm>

namespace tv::cli {
namespace {

Items first(const Items& items, size_t count) {
  return {items.begin(), items.begin() + static_cast<int64_t>(count)};
}

Items last(const Items& items, size_t count) {
  return {items.end() - static_cast<int64_t>(count), items.end()};
}

Items bisect(Items items, Items (*piece)(const Items&, size_t), Question& question) {
  size_t low = 0, high = items.size();  // yes for `high`
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (question(piece(items, middle))) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return piece(items, high);
}

}  // namespace

bool Question::operator()(const Items& items) {
  const auto found = known_.find(items);
  if (found != known_.end()) return found->second;
  if (asked_ >= most_) {
    spent_ = true;
    return false;
  }
  ++asked_;
  const bool yes = ask_(items);
  known_.emplace(items, yes);
  return yes;
}

Items shortest_prefix(Items items, Question& question) {
  return bisect(std::move(items), first, question);
}

Items shortest_suffix(Items items, Question& question) {
  return bisect(std::move(items), last, question);
}

Items without_needless(Items items, Question& question) {
  size_t piece = std::max<size_t>(1, items.size() / 2);
  for (;;) {
    bool smaller = false;
    for (size_t at = 0; at < items.size();) {
      const size_t end = std::min(at + piece, items.size());
      Items rest = first(items, at);
      rest.insert(rest.end(), items.begin() + static_cast<int64_t>(end), items.end());
      if (question(rest)) {
        items = std::move(rest);
        smaller = true;
      } else {
        at = end;
      }
    }
    if (piece > 1) {
      piece = std::min(piece / 2, std::max<size_t>(1, items.size() / 2));
    } else if (!smaller) {
      return items;
    }
  }
}

}  // namespace tv::cli
