#include "runtime/base/condition.h"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "runtime/base/error.h"

namespace tv {
namespace {

std::optional<int64_t> value_of(const Expr& expr, std::span<const int64_t> symbols) {
  try {
    return expr.eval(symbols);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return std::nullopt;
  }
}

std::string number(const Expr& expr, std::span<const int64_t> symbols) {
  const auto value = value_of(expr, symbols);
  return value ? std::to_string(*value) : "what cannot be computed";
}

/// Without the brackets around a sum.
std::string plain(const Expr& expr, std::span<const Symbol> symbols) {
  std::string text = named(expr, symbols);
  if (expr.str().starts_with("(")) text = text.substr(1, text.size() - 2);
  return text;
}

bool fulfils(Relation relation, int64_t left, int64_t right) {
  switch (relation) {
    case Relation::kEqual:
      return left == right;
    case Relation::kDiffers:
      return left != right;
    case Relation::kAtLeast:
      return left >= right;
    case Relation::kMultiple:
      return right == -1 || (right != 0 && left % right == 0);
  }
  return false;
}

/// Moves symbols as little as makes all conditions hold, one after the other.
class Search {
 public:
  Search(std::span<const Condition> conditions, std::span<const Symbol> symbols,
         std::vector<int64_t> start)
      : conditions_(conditions), symbols_(symbols), values_(std::move(start)) {}

  std::optional<std::vector<int64_t>> run() {
    if (!settle()) return std::nullopt;
    return values_;
  }

 private:
  bool settle() {
    const Condition* broken = first_broken(conditions_, values_);
    if (!broken) return true;
    left_to_try_ -= static_cast<int64_t>(conditions_.size());
    if (depth_ == kDeepest) return false;
    const std::set<int32_t> ids = broken->symbols();
    for (int64_t away = 1; away <= kFarthest && left_to_try_ > 0; ++away) {
      for (const int32_t id : ids) {
        for (const int64_t step : {away, -away}) {
          if (moves(*broken, static_cast<size_t>(id), step)) return true;
        }
      }
    }
    return false;
  }

  /// Whether the condition holds with a symbol moved, and the others can be settled then.
  bool moves(const Condition& broken, size_t s, int64_t step) {
    const int64_t before = values_[s];
    int64_t value = 0;
    if (__builtin_add_overflow(before, step, &value)) return false;
    if (value < symbols_[s].min || value > symbols_[s].max || --left_to_try_ < 0) return false;
    values_[s] = value;
    if (broken.holds(values_)) {
      ++depth_;
      if (settle()) return true;
      --depth_;
    }
    values_[s] = before;
    return false;
  }

  static constexpr int64_t kFarthest = 4096;
  static constexpr int kDeepest = 6;  // moves, one because of the other
  int depth_ = 0;
  std::span<const Condition> conditions_;
  std::span<const Symbol> symbols_;
  std::vector<int64_t> values_;
  int64_t left_to_try_ = 1 << 18;  // conditions that are computed
};

}  // namespace

std::set<int32_t> Condition::symbols() const {
  std::set<int32_t> ids;
  for (const Expr* side : {&left, &right}) {
    for (const int32_t id : side->symbols()) ids.insert(id);
  }
  return ids;
}

bool Condition::holds(std::span<const int64_t> symbols) const {
  const auto a = value_of(left, symbols), b = value_of(right, symbols);
  return a && b && fulfils(relation, *a, *b);
}

std::optional<bool> Condition::decided(std::span<const Symbol> symbols) const {
  if (left.is_constant() && right.is_constant())
    return fulfils(relation, *left.constant(), *right.constant());
  if (relation == Relation::kMultiple) {
    const auto [low, high] = right.bounds(symbols);
    const bool never_zero = low > 0 || high < 0;
    const auto rest = right == Expr(0) ? std::nullopt : mod(left, right).constant();
    return rest && never_zero ? std::optional<bool>(*rest == 0) : std::nullopt;
  }
  const auto [low, high] = (left - right).bounds(symbols);
  if (relation == Relation::kAtLeast) {
    if (low >= 0 || high < 0) return low >= 0;
    return std::nullopt;
  }
  const bool equal = low == 0 && high == 0, different = low > 0 || high < 0;
  if (!equal && !different) return std::nullopt;
  return equal == (relation == Relation::kEqual);
}

std::string Condition::refusal(std::span<const Symbol> symbols,
                               std::span<const int64_t> values) const {
  const std::string a = plain(left, symbols), b = plain(right, symbols);
  std::string text = (source.empty() ? "the network" : source) + " wants " + a;
  switch (relation) {
    case Relation::kEqual:
      text += " to be " + b;
      break;
    case Relation::kDiffers:
      text += " not to be " + b;
      break;
    case Relation::kAtLeast:
      text += " to be at least " + b;
      break;
    case Relation::kMultiple:
      text += " to be a multiple of " + b;
      break;
  }
  text += ", got " + number(left, values);
  if (!right.is_constant()) text += " and " + number(right, values);
  return text;
}

void add_condition(std::vector<Condition>& conditions, Condition condition) {
  const auto key = [](const Condition& c) {
    return std::tuple(c.relation, c.left.str(), c.right.str());
  };
  const auto before = [&](const Condition& a, const Condition& b) { return key(a) < key(b); };
  const auto at = std::lower_bound(conditions.begin(), conditions.end(), condition, before);
  if (at != conditions.end() && !before(condition, *at)) return;
  conditions.insert(at, std::move(condition));
}

const Condition* first_broken(std::span<const Condition> conditions,
                              std::span<const int64_t> symbols) {
  for (const Condition& condition : conditions) {
    if (!condition.holds(symbols)) return &condition;
  }
  return nullptr;
}

std::optional<std::vector<int64_t>> fulfilling(std::span<const Condition> conditions,
                                               std::span<const Symbol> symbols,
                                               std::vector<int64_t> start) {
  return Search(conditions, symbols, std::move(start)).run();
}

std::string named(const Expr& expr, std::span<const Symbol> symbols) {
  const std::string text = expr.str();
  const auto is = [&](auto&& kind, size_t i) {
    return i < text.size() && kind(static_cast<unsigned char>(text[i])) != 0;
  };
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    const bool starts = text[i] == 's' && (i == 0 || !is(isalnum, i - 1));
    while (starts && is(isdigit, end)) ++end;
    if (end == i + 1) {
      out += text[i];
    } else {
      const size_t id = std::stoul(text.substr(i + 1, end - i - 1));
      out += id < symbols.size() ? symbols[id].name : text.substr(i, end - i);
    }
    i = end;
  }
  return out;
}

}  // namespace tv
