#pragma once

#include <map>
#include <optional>
#include <vector>

#include "csrc/cost_model.h"
#include "runtime/commands/trial.h"

namespace tv {

/// Symbol values to try a problem at: first the typical ones, which are timed, then the smallest
/// and the largest (of an unbounded symbol: four times the typical); each near there where
/// conditions forbid it.
std::vector<std::vector<int64_t>> trial_symbols(const std::vector<Symbol>& symbols,
                                                const std::vector<Condition>& conditions);

/// Memory of the operands and results that the candidates of a problem share, random and equal for
/// all of them, and scratch memory for one candidate at a time.
class ProblemMemory {
 public:
  ProblemMemory(std::shared_ptr<Device> device, std::vector<std::vector<int64_t>> symbols)
      : device_(std::move(device)), symbols_(std::move(symbols)) {}

  const std::vector<std::vector<int64_t>>& symbols() const { return symbols_; }
  /// The address of each buffer of `program`. Makes and fills what is not there yet; `below`: of
  /// integer operands. Throws OutOfMemoryError.
  std::vector<uint64_t> place(const TacticProgram& program, size_t symbols, int64_t below);
  /// Fills the results again; every run that is compared starts alike. False if results are also
  /// read, so that they hold random values and not kUnwritten.
  bool reset_results(const TacticProgram& program, int64_t below);
  struct Result {
    DType dtype;
    std::vector<uint8_t> bytes;
  };
  std::vector<Result> read_results(const TacticProgram& program, size_t symbols) const;

 private:
  TrialMemory& shared(const TacticProgram& program, size_t buffer, int64_t below);

  std::shared_ptr<Device> device_;
  std::vector<std::vector<int64_t>> symbols_;
  std::map<ValueId, TrialMemory> shared_;
  std::optional<TrialMemory> scratch_;
};

}  // namespace tv
