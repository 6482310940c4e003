#include <algorithm>
#include <numeric>

#include "csrc/cli/bench/exports.h"
#include "csrc/cli/bench/references.h"
#include "csrc/cli/compare/harm.h"
#include "csrc/cli/debug/debug.h"
#include "csrc/cli/debug/smallest.h"
#include "csrc/cli/text/lines.h"

namespace tv::cli {
namespace {

class PrecisionSearch {
 public:
  PrecisionSearch(std::shared_ptr<Device> device, Options options)
      : device_(std::move(device)),
        options_(std::move(options)),
        exact_(run_exactly(device_, options_)) {
    order_ = layers_by_harm(harms(device_, exact_, options_));
    for (size_t layer = 0; layer < exact_.layers.layers.size(); ++layer) {  // those of no float
      if (std::ranges::find(order_, layer) == order_.end()) order_.push_back(layer);
    }
  }

  bool run();

 private:
  /// Whether the outputs are within the bound with these layers, by their place in order_, kept.
  bool holds(const Items& kept) {
    const auto outputs = output_differences(device_, exact_, options_, layers(kept));
    const double snr = worst_snr_db(outputs);
    const bool good =
        options_.tolerance_given
            ? std::ranges::all_of(outputs, [](const auto& o) { return o.difference.good(); })
            : snr >= options_.snr_db;
    say(format("%4zu layer%s in float32: SNR %.1f dB, %s", kept.size(), kept.size() == 1 ? "" : "s",
               snr, good ? "within the bound" : "outside"));
    return good;
  }

  std::vector<size_t> layers(const Items& kept) const {
    std::vector<size_t> layers;
    for (const size_t item : kept) layers.push_back(order_.at(item));
    return layers;
  }

  std::string bound() const {
    return options_.tolerance_given
               ? format("|difference| ≤ %g + %g * |reference|", options_.atol, options_.rtol)
               : format("SNR ≥ %g dB", options_.snr_db);
  }

  bool report(const Items& kept, const Question& question) const;

  std::shared_ptr<Device> device_;
  Options options_;
  Exact exact_;
  std::vector<size_t> order_;  ///< layers, the most harmful first
};

bool PrecisionSearch::run() {
  say(format("=== Layers of %zu that must stay in float32 for %s, in at most %lld runs ===",
             order_.size(), bound().c_str(), static_cast<long long>(options_.max_runs)));
  Question question([this](const Items& kept) { return holds(kept); }, options_.max_runs);
  if (question({})) return report({}, question);
  Items all(order_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  if (!question(all)) {
    complain("[debug precision] not even with all layers in float32 the outputs are within " +
             bound() + "; want a wider one");
    return false;
  }
  return report(without_needless(shortest_prefix(std::move(all), question), question), question);
}

bool PrecisionSearch::report(const Items& kept, const Question& question) const {
  if (question.spent()) {
    say(format("Stopped after %lld runs: fewer layers may do; --runs permits more",
               static_cast<long long>(question.asked())));
  }
  say(format("%zu of %zu layers must stay in float32 (%lld runs)", kept.size(), order_.size(),
             static_cast<long long>(question.asked())));
  const std::vector<size_t> found = layers(kept);
  for (const size_t layer : found) say("  " + exact_.layers.layers.at(layer).label);
  const std::string yaml = excluded_nodes_yaml(patterns_of(exact_.layers, found));
  say(yaml);
  if (!options_.save.empty()) {
    write_text(options_.save, yaml + "\n");
    say("Written to " + options_.save + ", for --config");
  }
  return true;
}

}  // namespace

bool debug_precision(const std::shared_ptr<Device>& device, const Options& given) {
  Options options = given;
  options.quiet = true;
  options.cache.cache_built_engines = false;  // of which most are built once
  if (!options.ref.empty()) {
    options = with_inputs(options, binding_names(import_model(options).inputs));
  }
  return PrecisionSearch(device, with_sizes(std::move(options))).run();
}

}  // namespace tv::cli
