#pragma once
// A tuner on a bench that answers from a table of tactics.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "csrc/tuner/tuner.h"
#include "runtime/base/error.h"

namespace tv::test {

struct FakeTactic {
  std::string name;
  double us = 0;
  bool wrong = false;
  double once_us = 0;  ///< of the first timing, where it differs
  std::string candidate_refusal = {}, driver_refusal = {};
  std::string glsl = "void main() {}";
  bool loses_device = false, ends_process = false;
  Expr iterations = 0;  ///< of its only loop
};

/// What a bench was asked, by tactic.
class FakeBench : public Bench {
 public:
  explicit FakeBench(const std::vector<FakeTactic>& tactics) : tactics_(tactics) {
    device.type = DeviceType::kCpu;
    device.name = "fake";
  }

  const DeviceProfile& profile() const override { return device; }
  std::unique_ptr<BenchTrials> open(const TacticProblem&,
                                    std::map<size_t, TacticProgram>) override {
    if (out_of_memory) throw OutOfMemoryError("[memory] no memory");
    return std::make_unique<Trials>(*this);
  }
  bool recover() override {
    recoveries += lost_;
    return std::exchange(lost_, false);
  }

  DeviceProfile device;
  bool out_of_memory = false;
  std::map<std::string, int> timings, predictions;
  std::vector<std::string> prepared;
  int recoveries = 0;

 private:
  class Trials : public BenchTrials {
   public:
    explicit Trials(FakeBench& bench) : bench_(bench) {}
    std::map<size_t, std::string> prepare(const std::vector<size_t>& candidates) override {
      std::map<size_t, std::string> refused;
      for (const size_t o : candidates) {
        bench_.prepared.push_back(at(o).name);
        if (!at(o).driver_refusal.empty()) refused[o] = at(o).driver_refusal;
      }
      return refused;
    }
    double predict_us(size_t o) override {
      ++bench_.predictions[at(o).name];
      if (at(o).ends_process) std::_Exit(3);
      if (at(o).loses_device) {
        bench_.lost_ = true;
        throw Error(ErrorKind::kDevice, "[run] fake was lost");
      }
      return at(o).us;
    }
    double time_us(size_t o, int) override {
      const bool first = ++bench_.timings[at(o).name] == 1;
      return first && at(o).once_us > 0 ? at(o).once_us : at(o).us;
    }
    std::vector<float> step_us(size_t o) override { return {static_cast<float>(2 * at(o).us)}; }
    std::optional<std::string> difference(size_t o, size_t) override {
      return at(o).wrong ? "it differs" : "";
    }

   private:
    const FakeTactic& at(size_t o) const { return bench_.tactics_.at(o); }
    FakeBench& bench_;
  };

  const std::vector<FakeTactic>& tactics_;
  bool lost_ = false;
};

class TunerTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() /
           ("tv_tuner_" + std::to_string(::getpid()) + "_" +
            testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(dir_);
    cache_path = (dir_ / "timings.json").string();
    reset_tuner_stats();
    new_bench();
  }
  void TearDown() override {
    tuner_.reset();
    std::filesystem::remove_all(dir_);
  }

  /// The problem of the test's tactics; the last is the reference.
  TacticProblem problem() const {
    TacticProblem p{.node = "node", .op = "t::op", .text = problem_text};
    p.symbols = symbols;
    p.for_comparison = for_comparison;
    for (const FakeTactic& t : tactics) p.candidates.push_back({t.name, t.candidate_refusal});
    p.program = [this](size_t candidate) {
      TacticProgram program;
      program.spec.dispatches.resize(1);
      program.spec.dispatches[0].iterations = tactics.at(candidate).iterations;
      program.kernels.push_back({"fake", tactics.at(candidate).glsl});
      return program;
    };
    return p;
  }

  void make(const TunerOptions& options = {}) {
    tuner_ = make_tuner(std::move(owned_), std::make_shared<TimingCache>(cache_path), options);
  }
  TacticChoice choose_again(const Progress& progress = nullptr) {
    const TacticProblem p = problem();
    size_t rule = 0;
    while (!p.candidates.at(rule).refusal.empty()) ++rule;
    return tuner_->choose(p, rule, progress);
  }
  /// One engine with one node.
  TacticChoice choose(const TunerOptions& options = {}) {
    const DeviceProfile device = bench->device;
    const bool out_of_memory = bench->out_of_memory;
    if (!owned_) new_bench();
    bench->device = device;
    bench->out_of_memory = out_of_memory;
    make(options);
    return choose_again();
  }
  /// As another process would: nothing but the file is left.
  void reopen() {
    tuner_.reset();
    new_bench();
  }
  std::string name_of(const TacticChoice& choice) const {
    return tactics.at(choice.candidate).name;
  }
  std::vector<std::string> journals() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      const std::string name = entry.path().filename().string();
      if (name.find(".timing.") != std::string::npos) files.push_back(name);
    }
    return files;
  }

  std::vector<FakeTactic> tactics;
  std::vector<Symbol> symbols;
  bool for_comparison = false;
  std::string cache_path, problem_text = "first";
  FakeBench* bench = nullptr;  ///< the one that the next or the current tuner uses

 private:
  void new_bench() {
    owned_ = std::make_unique<FakeBench>(tactics);
    bench = owned_.get();
  }

  std::filesystem::path dir_;
  std::unique_ptr<FakeBench> owned_;
  std::unique_ptr<CostModel> tuner_;
};

}  // namespace tv::test
