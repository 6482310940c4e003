#include "runtime/spec/bind_shapes.h"

#include "runtime/base/error.h"

namespace tv {
namespace {

std::string range_text(const Expr& dim, const EngineSpec& spec) {
  const auto [low, high] = dim.bounds(spec.symbols);
  if (low == high) return std::to_string(low);
  if (high == kUnbounded) return std::to_string(low) + " or more";
  return std::to_string(low) + " to " + std::to_string(high);
}

class Binder {
 public:
  Binder(const EngineSpec& spec, std::span<const std::vector<int64_t>> shapes)
      : spec_(spec),
        shapes_(shapes),
        values_(spec.symbols.size()),
        known_(spec.symbols.size()),
        from_(spec.symbols.size()) {}

  std::vector<int64_t> bind() {
    check_ranks();
    for (size_t i = 0; i < shapes_.size(); ++i) {
      for (size_t d = 0; d < shapes_[i].size(); ++d) solve(i, d);
    }
    for (size_t s = 0; s < known_.size(); ++s) {
      if (!known_[s]) fail_unknown(static_cast<int32_t>(s));
    }
    for (size_t i = 0; i < shapes_.size(); ++i) {
      for (size_t d = 0; d < shapes_[i].size(); ++d) check(i, d);
    }
    const Condition* broken = first_broken(spec_.conditions, values_);
    if (broken) fail_condition(*broken);
    return values_;
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw Error(ErrorKind::kUser, "[" + (spec_.name.empty() ? "engine" : spec_.name) + "] " + text);
  }

  [[noreturn]] void fail_at(size_t input, size_t dim, const std::string& want) const {
    fail("input \"" + spec_.inputs[input].name + "\" dimension " + std::to_string(dim) + ": got " +
         std::to_string(shapes_[input][dim]) + ", want " + want);
  }

  void check_ranks() const {
    if (shapes_.size() != spec_.inputs.size()) {
      fail("got " + std::to_string(shapes_.size()) + " inputs, want " +
           std::to_string(spec_.inputs.size()));
    }
    for (size_t i = 0; i < shapes_.size(); ++i) {
      if (shapes_[i].size() == spec_.inputs[i].shape.size()) continue;
      fail("input \"" + spec_.inputs[i].name + "\": got " + std::to_string(shapes_[i].size()) +
           " dimensions, want " + std::to_string(spec_.inputs[i].shape.size()));
    }
  }

  void solve(size_t input, size_t dim) {
    const Expr& want = spec_.inputs[input].shape[dim];
    if (want.is_constant()) return;
    const auto solution = want.solve(shapes_[input][dim]);
    if (!solution) return;
    const auto [symbol, value] = *solution;
    const Symbol& s = spec_.symbols[static_cast<size_t>(symbol)];
    if (value < s.min || value > s.max) fail_at(input, dim, range_text(want, spec_));
    if (known_[static_cast<size_t>(symbol)]) return;
    known_[static_cast<size_t>(symbol)] = true;
    values_[static_cast<size_t>(symbol)] = value;
    from_[static_cast<size_t>(symbol)] = {input, dim};
  }

  /// No dimension gives symbol `s`: either none could, or a value was not one its expression takes.
  [[noreturn]] void fail_unknown(int32_t s) const {
    for (size_t i = 0; i < shapes_.size(); ++i) {
      for (size_t d = 0; d < shapes_[i].size(); ++d) {
        const Expr& want = spec_.inputs[i].shape[d];
        if (want.symbols() == std::vector<int32_t>{s}) fail_at(i, d, "a value of " + want.str());
      }
    }
    fail("no input dimension determines symbol " + spec_.symbols[static_cast<size_t>(s)].name);
  }

  /// Names the dimensions that the condition depends on.
  [[noreturn]] void fail_condition(const Condition& condition) const {
    std::string text;
    for (const int32_t s : condition.symbols()) {
      const auto [input, dim] = from_[static_cast<size_t>(s)];
      text += "input \"" + spec_.inputs[input].name + "\" dimension " + std::to_string(dim) +
              ": got " + std::to_string(shapes_[input][dim]) + "; ";
    }
    fail(text + condition.refusal(spec_.symbols, values_));
  }

  void check(size_t input, size_t dim) const {
    const Expr& want = spec_.inputs[input].shape[dim];
    const int64_t value = want.eval(values_);
    if (value == shapes_[input][dim]) return;
    std::string text = std::to_string(value);
    if (!want.is_constant()) text += ", as other inputs' dimensions say";
    fail_at(input, dim, text);
  }

  const EngineSpec& spec_;
  std::span<const std::vector<int64_t>> shapes_;
  std::vector<int64_t> values_;
  std::vector<bool> known_;
  std::vector<std::pair<size_t, size_t>> from_;  ///< input and dimension that gave each symbol
};

}  // namespace

std::vector<int64_t> bind_shapes(const EngineSpec& spec,
                                 std::span<const std::vector<int64_t>> input_shapes) {
  return Binder(spec, input_shapes).bind();
}

}  // namespace tv
