#pragma once
// What sizes have to fulfil beside their ranges: found while a network is imported, kept with the
// engine, and checked whenever shapes are bound (docs/design/0014-conditions-on-sizes.md).

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/expr.h"

namespace tv {

enum class Relation : uint8_t {
  kEqual,
  kDiffers,
  kAtLeast,   ///< left >= right
  kMultiple,  ///< left is right times an integer; never where right is 0
};

struct Condition {
  Relation relation = Relation::kEqual;
  Expr left, right;
  std::string source;  ///< who wants it, for messages: [Reshape "flat"]
  bool operator==(const Condition&) const = default;

  std::set<int32_t> symbols() const;  ///< that its sides name
  /// False if a side cannot be computed, too: it passes 2^63, or divides by a size of 0.
  bool holds(std::span<const int64_t> symbols) const;
  /// True if it holds for all sizes, or for none; nothing if that depends on them.
  std::optional<bool> decided(std::span<const Symbol> symbols) const;
  /// "[Reshape "flat"] wants 6*batch to be a multiple of 4, got 18"
  std::string refusal(std::span<const Symbol> symbols, std::span<const int64_t> values) const;
};

/// Adds a condition to a list without duplicates, whose order depends on the conditions alone.
void add_condition(std::vector<Condition>& conditions, Condition condition);

/// The first that does not hold; null if all do.
const Condition* first_broken(std::span<const Condition> conditions,
                              std::span<const int64_t> symbols);

/// Values that fulfil all conditions, found near `start` within the symbols' ranges; nothing where
/// a short search finds none.
std::optional<std::vector<int64_t>> fulfilling(std::span<const Condition> conditions,
                                               std::span<const Symbol> symbols,
                                               std::vector<int64_t> start);

/// The text of an expression with the symbols' names in place of s0, s1, ….
std::string named(const Expr& expr, std::span<const Symbol> symbols);

}  // namespace tv
