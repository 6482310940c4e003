#include "csrc/cli/calibrate/calibrate_from_data.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

#include "csrc/calibration/calibration.h"
#include "csrc/calibration/observations.h"
#include "csrc/cli/bench/exports.h"
#include "csrc/cli/calibrate/batches.h"
#include "csrc/cli/text/lines.h"
#include "csrc/cli/text/progress_bar.h"
#include "csrc/plan/plan.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace tv::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kSavedEvery{10};

volatile std::sig_atomic_t stopped = 0;

/// While it lives, Ctrl-C and SIGTERM wait for the end of a batch.
class StopsBetweenBatches {
 public:
  StopsBetweenBatches() {
    struct sigaction action{};
    action.sa_handler = [](int) { stopped = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second one ends the process
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  ~StopsBetweenBatches() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  StopsBetweenBatches(const StopsBetweenBatches&) = delete;
  StopsBetweenBatches& operator=(const StopsBetweenBatches&) = delete;

 private:
  struct sigaction interrupt_{}, terminate_{};
};

[[noreturn]] void not_calibrated(const std::string& message) {
  throw Error(ErrorKind::kUser, "[calibration] " + message);
}

/// With the model's own precision: what tv.calibrate observes.
Options observing(const Options& given) {
  Options options = given;
  options.settings = {};
  options.settings.optimization_level = 0;
  options.settings.truncate_long_and_double = given.settings.truncate_long_and_double;
  options.settings.weight_budget = given.settings.weight_budget;
  options.quiet = true;
  return options;
}

std::vector<BatchInput> inputs_of(const Graph& graph, const Options& options) {
  std::vector<int64_t> usual;
  for (const Symbol& symbol : graph.symbols) usual.push_back(symbol.opt);
  std::vector<BatchInput> inputs;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    BatchInput input{.name = value.name, .dtype = value.dtype, .usual_shape = {}};
    for (const Expr& size : value.shape) input.usual_shape.push_back(size.eval(usual));
    const auto given = options.shapes.find(input.name);
    if (given != options.shapes.end()) input.usual_shape = given->second;
    inputs.push_back(std::move(input));
  }
  return inputs;
}

class Calibrator {
 public:
  Calibrator(const std::shared_ptr<Device>& device, const ReadModel& model, const Options& options)
      : options_(options), inputs_(inputs_of(model.graph, options)) {
    const Options exact = observing(options);
    points_ = observed_channels(model.graph, exact.settings);
    if (points_.empty()) {
      not_calibrated(
          options.model_path() +
          " has no product or convolution with constant weights, which int8 could be used "
          "for");
    }
    batches_ = find_batches(options.calibration_data, inputs_);
    const std::vector<uint8_t> file =
        read_file(options.model_path(), std::numeric_limits<int64_t>::max());
    kept_.model = model_digest(file, model.weights);
    kept_.seen = Observations(options.range.by_channels());
    resume();
    Graph graph = observed_by_calibration(model.graph, exact.settings);
    if (!graph.outputs.empty()) network_ = build_network(device, graph, model.weights, exact);
  }

  Calibration run() {
    const StopsBetweenBatches stops;
    ProgressBar bar;
    Clock::time_point saved = Clock::now();
    const auto total = static_cast<int64_t>(batches_.size());
    const int64_t resumed = kept_.done;
    try {
      while (kept_.done < total) {
        if (stopped) not_calibrated(interruption());
        Observations seen = kept_.seen;  // which a batch that fails leaves as it was
        observe(batches_[static_cast<size_t>(kept_.done)], seen);
        kept_.seen = std::move(seen);
        bar.show("calibrate", ++kept_.done, total);
        if (Clock::now() - saved < kSavedEvery) continue;
        save();
        saved = Clock::now();
      }
    } catch (...) {
      if (kept_.done > resumed) save();
      throw;
    }
    return kept_.seen.calibration(options_.range);
  }

  size_t batches() const { return batches_.size(); }
  std::string partial() const { return options_.new_calibration + ".partial"; }

 private:
  std::string interruption() const {
    return format("interrupted after %lld of %zu batches: the same command goes on behind them",
                  static_cast<long long>(kept_.done), batches_.size());
  }

  void resume() {
    std::error_code unknown;
    if (!std::filesystem::exists(partial(), unknown)) return;
    const std::vector<uint8_t> bytes = read_file(partial(), std::numeric_limits<int64_t>::max());
    UnfinishedCalibration found;
    try {
      found =
          UnfinishedCalibration::read({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    } catch (const Error& error) {
      not_calibrated(partial() + " cannot be read: remove it (" + error.what() + ")");
    }
    if (found.model != kept_.model || found.seen.by_channels() != kept_.seen.by_channels()) {
      not_calibrated(partial() +
                     " is of another model or version, or of other options: remove it, or "
                     "name another file by --calib");
    }
    kept_ = std::move(found);
    say(format("Calibration goes on behind %lld batches, which %s has",
               static_cast<long long>(kept_.done), partial().c_str()));
  }

  void save() const { write_text(partial(), kept_.text()); }

  void observe(const Batch& batch, Observations& seen) const {
    const Tensors given = read_batch(batch, inputs_);
    try {
      for (const BatchInput& input : inputs_) {
        if (points_.contains(input.name)) add(seen, input.name, given.at(input.name));
      }
      if (!network_) return;
      const Tensors results = run_on(*network_, given);
      for (const Binding& output : network_->spec().outputs) {
        add(seen, output.name, results.at(output.name));
      }
    } catch (const Error& error) {
      throw Error(error.kind(), "[calibration] " + batch.place + ": " + error.what());
    }
  }

  void add(Observations& seen, const std::string& name, const Tensor& tensor) const {
    const ObservedChannels& channels = points_.at(name);
    seen.add(name, {.elements = floats_of(tensor),
                    .shape = tensor.shape,
                    .channel_dim = channels.dim,
                    .is_product = channels.is_product});
  }

  const Options& options_;
  const std::vector<BatchInput> inputs_;
  std::map<std::string, ObservedChannels> points_;
  std::vector<Batch> batches_;
  UnfinishedCalibration kept_;
  std::optional<Network> network_;
};

}  // namespace

void calibrate_from_data(const std::shared_ptr<Device>& device, const ReadModel& model,
                         Options& options) {
  const Clock::time_point start = Clock::now();
  Calibrator calibrator(device, model, options);
  say(format("Calibrating with %zu batches of %s", calibrator.batches(),
             options.calibration_data.c_str()));
  const Calibration made = calibrator.run();
  options.settings.calibration = calibration_text(made);
  write_text(options.new_calibration, options.settings.calibration);
  std::error_code unknown;
  std::filesystem::remove(calibrator.partial(), unknown);
  const std::chrono::duration<double> took = Clock::now() - start;
  say(format("Calibrated in %g s: ranges of %zu tensors, by %s, saved as %s", took.count(),
             made.scales.size(),
             std::string(kRangeMethods.at(static_cast<size_t>(options.range.method))).c_str(),
             options.new_calibration.c_str()));
}

}  // namespace tv::cli
