#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "csrc/cli/bench/exports.h"
#include "csrc/cli/bench/references.h"
#include "csrc/cli/compare/harm.h"
#include "csrc/cli/text/lines.h"

namespace tv::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr size_t kMostKept = 32;   // layers that --sensitivity keeps in float32
constexpr double kWorthwhile = 1;  // decibel
constexpr double kFiniteDb = 200;  // what stands for infinite ones in arithmetic

/// The outputs of the network with so many of the worst layers in float32.
struct Kept {
  size_t count = 0;
  double snr_db = 0, max_error = 0;
};

json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

void say_row(const std::string& name, const char* harm, double snr, const char* input,
             const Difference& d, const std::string& maker) {
  say(format("%-40s %10s %9.1f %9s %10.7f %10.3e%s", name.c_str(), harm, snr, input, d.cosine,
             d.max, maker.c_str()));
}

void say_harms(const std::vector<Harm>& harms, const Layers& layers) {
  say(format("=== %zu tensors between the layers, the most harmful first ===", harms.size()));
  say("They are outputs of an engine of their own: what is fused in the engine proper is not here");
  say(format("%-40s %10s %9s %9s %10s %10s  %s", "tensor", "harm", "SNR (dB)", "of input", "cosine",
             "max error", "made by"));
  for (const Harm& harm : harms) {
    say_row(harm.name, format("%.3g", harm.harm()).c_str(), snr_db(harm.difference.noise),
            format("%.1f", snr_db(harm.input_noise)).c_str(), harm.difference,
            "  " + layers.layers[harm.layer].label);
  }
}

void say_outputs(const std::vector<OutputDifference>& outputs) {
  say("=== Outputs ===");
  for (const OutputDifference& output : outputs) {
    say_row(output.name, "", snr_db(output.difference.noise), "", output.difference, "");
  }
}

double worst_error(const std::vector<OutputDifference>& outputs) {
  double worst = 0;
  for (const OutputDifference& output : outputs) worst = std::max(worst, output.difference.max);
  return worst;
}

/// What the outputs are with 0, 1, 2, 4, … of the worst layers in float32.
std::vector<Kept> measure(const std::shared_ptr<Device>& device, const Exact& exact,
                          const Options& options, const std::vector<OutputDifference>& outputs,
                          const std::vector<size_t>& worst) {
  std::vector<Kept> found = {{0, worst_snr_db(outputs), worst_error(outputs)}};
  Options quiet = options;
  quiet.quiet = true;
  const size_t most = std::min(worst.size() - 1, kMostKept);  // with all of them it is float32
  for (size_t count = std::min<size_t>(1, most); count > 0;) {
    const std::vector<size_t> kept(worst.begin(), worst.begin() + static_cast<int64_t>(count));
    const auto differences = output_differences(device, exact, quiet, kept);
    found.push_back({count, worst_snr_db(differences), worst_error(differences)});
    if (count == most) break;
    count = std::min(2 * count, most);
  }
  return found;
}

/// The fewest layers that give at least half of what the best measured count gains.
size_t recommended(const std::vector<Kept>& measured) {
  const auto finite = [](double db) { return std::clamp(db, -kFiniteDb, kFiniteDb); };
  const double none = finite(measured.front().snr_db);
  double best = none;
  for (const Kept& kept : measured) best = std::max(best, finite(kept.snr_db));
  if (best - none < kWorthwhile) return 0;
  for (const Kept& kept : measured) {
    if (finite(kept.snr_db) >= (none + best) / 2) return kept.count;
  }
  return 0;
}

void say_sensitivity(const std::vector<Kept>& measured, size_t advised,
                     const std::vector<std::string>& patterns) {
  say("=== Outputs with the worst layers in float32 ===");
  say(format("%10s %9s %10s", "layers", "SNR (dB)", "max error"));
  for (const Kept& kept : measured) {
    say(format("%10zu %9.1f %10.3e%s", kept.count, kept.snr_db, kept.max_error,
               kept.count == advised && advised > 0 ? "  recommended" : ""));
  }
  if (advised == 0) {
    say(format("Recommended: none; to keep layers in float32 gains less than %g dB", kWorthwhile));
    return;
  }
  say("Recommended, for a --config file:");
  say(excluded_nodes_yaml(patterns));
}

json row(const Difference& d) {
  return {{"snr_db", number(snr_db(d.noise))},
          {"cosine", number(d.cosine)},
          {"max_error", number(d.max)}};
}

json report(const Layers& layers, const std::vector<Harm>& harms,
            const std::vector<OutputDifference>& outputs) {
  json data = {{"format", "torch_vulkan.comparison"}, {"version", 1}, {"count", 1}};
  data["layers"] = json::array();
  for (const Harm& harm : harms) {
    const Layer& layer = layers.layers[harm.layer];
    json made = {{"name", harm.name},
                 {"node", layer.label},
                 {"nodes", layer.nodes},
                 {"harm", number(harm.harm())}};
    made.update(row(harm.difference));
    made["input_snr_db"] = number(snr_db(harm.input_noise));
    data["layers"].push_back(std::move(made));
  }
  data["results"] = json::array();
  for (const OutputDifference& output : outputs) {
    json made = {{"name", output.name}};
    made.update(row(output.difference));
    data["results"].push_back(std::move(made));
  }
  return data;
}

/// False if a tolerance was given and an output is outside of it.
bool are_good(const std::vector<OutputDifference>& outputs, const Options& options) {
  if (!options.tolerance_given) return true;
  bool good = true;
  for (const OutputDifference& output : outputs) {
    const Difference& d = output.difference;
    if (d.good()) continue;
    good = false;
    say(format("%s: %lld of %lld elements are outside of %g + %g * |reference|",
               output.name.c_str(), static_cast<long long>(d.outside),
               static_cast<long long>(d.numel), options.atol, options.rtol));
  }
  return good;
}

}  // namespace

std::string excluded_nodes_yaml(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return "autocast_excluded_nodes: []";
  std::string text = "autocast_excluded_nodes:";
  for (const std::string& pattern : patterns) {
    text += "\n- '";
    for (const char c : pattern) text += c == '\'' ? std::string("''") : std::string(1, c);
    text += "'";
  }
  return text;
}

bool compare_by_harm(const std::shared_ptr<Device>& device, const Options& given) {
  Options options = given;
  if (!options.ref.empty()) {
    Options quiet = options;
    quiet.quiet = true;
    options = with_inputs(options, binding_names(import_model(quiet).inputs));
  }
  options = with_sizes(std::move(options));
  const Exact exact = run_exactly(device, options);
  const std::vector<Harm> found = harms(device, exact, options);
  const auto outputs = output_differences(device, exact, options, {});
  say_harms(found, exact.layers);
  say_outputs(outputs);
  json data = report(exact.layers, found, outputs);
  if (options.sensitivity) {
    const std::vector<size_t> worst = layers_by_harm(found);
    const std::vector<Kept> measured = measure(device, exact, options, outputs, worst);
    const size_t advised = recommended(measured);
    const std::vector<std::string> patterns =
        patterns_of(exact.layers, {worst.begin(), worst.begin() + static_cast<int64_t>(advised)});
    say_sensitivity(measured, advised, patterns);
    data["sensitivity"] = json::array();
    for (const Kept& kept : measured) {
      data["sensitivity"].push_back({{"layers", kept.count},
                                     {"snr_db", number(kept.snr_db)},
                                     {"max_error", number(kept.max_error)}});
    }
    data["autocast_excluded_nodes"] = patterns;
  }
  if (!options.export_comparison.empty()) {
    write_text(options.export_comparison,
               data.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  }
  return are_good(outputs, options);
}

}  // namespace tv::cli
