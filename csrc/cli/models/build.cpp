#include "csrc/cli/models/build.h"

#include <chrono>
#include <vector>

#include "csrc/cache/engine_cache.h"
#include "csrc/cache/place_caches.h"
#include "csrc/cli/flags/input_ranges.h"
#include "csrc/cli/models/graph_model.h"
#include "csrc/cli/models/sparsity.h"
#include "csrc/cli/tensors/npy.h"
#include "csrc/cli/text/command_error.h"
#include "csrc/cli/text/lines.h"
#include "csrc/cli/text/progress_bar.h"
#include "csrc/frontends/graph_file/graph_file.h"
#include "csrc/graph/is_quantised.h"
#include "csrc/plan/plan.h"
#include "csrc/precision.h"
#include "csrc/tuner/tuner.h"
#include "runtime/base/env.h"
#include "runtime/base/error.h"

namespace tv::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

onnx::ConstantInput constant_input(const Tensor& tensor) {
  onnx::ConstantInput constant{
      .dtype = tensor.dtype, .dims = tensor.shape, .ints = {}, .floats = {}};
  for (int64_t i = 0, count = tensor.numel(); i < count; ++i) {
    if (is_float(tensor.dtype)) {
      constant.floats.push_back(tensor.at(i));
    } else {
      constant.ints.push_back(tensor.integer(i));
    }
  }
  return constant;
}

/// The flags' settings, with what is always so here and what follows from others.
Settings settings_of(const Options& options, CacheSettings& cache) {
  Settings settings = options.settings;
  settings.require_full_compilation = true;
  place_caches(settings, cache);
  return settings;
}

void say_tuning(const TunerStats& stats) {
  if (stats.problems == 0) return;
  say(format("Tactics: %llu choices; %llu candidates timed, %llu known from the timing cache",
             static_cast<unsigned long long>(stats.problems),
             static_cast<unsigned long long>(stats.timed),
             static_cast<unsigned long long>(stats.cached)));
}

/// The model's weights in the order of the specification.
std::vector<WeightBytes> weights_for(const EngineSpec& spec, const std::vector<Weight>& weights) {
  std::map<std::string, const Weight*> by_name;
  for (const Weight& weight : weights) by_name.emplace(weight.name, &weight);
  std::vector<WeightBytes> out;
  for (const Binding& binding : spec.weights) {
    const auto found = by_name.find(binding.name);
    if (found == by_name.end()) {
      throw Error(ErrorKind::kInternal, "[vkexec] the model has no weight '" + binding.name + "'");
    }
    WeightBytes bytes = found->second->load();
    // Memory of no bytes has an owner too: it tells that the weight is there.
    if (!bytes.owner) bytes.owner = std::make_shared<int>();
    out.push_back(std::move(bytes));
  }
  return out;
}

}  // namespace

namespace {

/// How much of the network is permitted to be in int8.
void say_calibration(const CalibrationUse& use) {
  if (!use.refusal.empty()) warn(use.refusal);
  if (use.points == 0) return;
  say(format("Calibration: scales for %zu of %zu products and convolutions", use.scaled,
             use.points));
  for (const std::string& name : use.missing) say("  none for " + name + ", which stays in floats");
}

}  // namespace

onnx::ImportOptions import_options(const Options& options, bool partial) {
  onnx::ImportOptions made = onnx::import_options(options.settings);
  made.partial = partial;
  made.inputs = input_ranges(options);
  for (const auto& [name, path] : options.constants) {
    made.constants.emplace(name, constant_input(read_npy(path)));
  }
  return made;
}

std::set<std::string> shape_inputs(const Options& options) {
  return onnx::import_file(options.onnx, import_options(options, /*partial=*/true)).shape_inputs;
}

namespace {

/// shape_inputs; none where these cannot be found either.
std::set<std::string> known_shape_inputs(const Options& options) {
  try {
    return shape_inputs(options);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

onnx::ImportedModel import_model(const Options& options, bool partial) {
  if (!options.graph.empty()) return as_import(graph_model(options));
  const auto start = Clock::now();
  onnx::ImportedModel model;
  try {
    model = onnx::import_file(options.onnx, import_options(options, partial));
  } catch (const Error& error) {
    const bool refused = error.kind() == ErrorKind::kUnsupported && !partial;
    if (!refused) throw;
    std::string hints;
    for (const std::string& name : known_shape_inputs(options)) {
      hints += "\n  Input \"" + name + "\" sets shapes: --constants=" + name +
               ":FILE.npy gives its value";
    }
    std::string text = error.what();
    // In the first line: debug reduce compares the others.
    if (const size_t end = text.find(":\n"); hints.empty() && end != text.npos) {
      text.insert(end,
                  "; vkexec runs all of a model or nothing, tv.onnx.compile and ONNX Runtime's "
                  "provider leave such nodes to ONNX Runtime");
    }
    throw Error(error.kind(), text + hints);
  }
  if (options.sparsity == "force") prune_weights(model.graph, model.weights);
  if (options.quiet) return model;
  say(format("Parsed %s in %g s: opset %lld%s%s, %zu nodes, %zu weights", options.onnx.c_str(),
             seconds_since(start), static_cast<long long>(model.opset),
             model.producer.empty() ? "" : ", producer ", model.producer.c_str(),
             model.graph.nodes.size(), model.weights.size()));
  return model;
}

ReadModel read_model(const Options& options) {
  if (options.graph.empty()) {
    onnx::ImportedModel model = import_model(options);
    return {std::move(model.graph), std::move(model.weights)};
  }
  const auto start = Clock::now();
  graph_file::Model model = graph_file::read(
      options.graph,
      {.inputs = input_ranges(options), .sparse_weights = options.settings.sparse_weights});
  if (options.sparsity == "force") prune_weights(model.graph, model.weights);
  if (!options.quiet) {
    say(format("Read %s in %g s: %zu nodes, %zu weights", options.graph.c_str(),
               seconds_since(start), model.graph.nodes.size(), model.weights.size()));
  }
  return {std::move(model.graph), std::move(model.weights)};
}

namespace {

/// --best permits int8 where it can be; --int8 asks for it.
void leave_out_int8(const Graph& graph, const Options& options, Settings& settings) {
  const bool known = !settings.calibration.empty() || !permits_int8(settings);
  if (known || is_quantised(graph)) return;
  if (!options.best) {
    throw Error(ErrorKind::kUser,
                "int8 needs a calibration: --calib=FILE, with --calibData=DIR to make it; in a "
                "configuration file calibration_cache. Files that are quantised themselves (QDQ) "
                "need neither");
  }
  std::erase(settings.enabled_precisions, DType::kI8);
  if (options.quiet) return;
  warn(
      "--best: nothing is computed in int8, which needs --calib, and --calibData to make that "
      "file");
}

}  // namespace

Network build_network(std::shared_ptr<Device> device, const Graph& graph,
                      const std::vector<Weight>& weights, const Options& options) {
  CacheSettings cache = options.cache;
  Settings settings = settings_of(options, cache);
  leave_out_int8(graph, options, settings);
  const DeviceProfile& target = profile(*device);
  const Plan whole = plan(graph, settings, target, Rest::kNobody);
  if (whole.parts.blocks.empty()) {
    const std::vector<std::string> refused = refusals(whole);
    std::string message = format(
        "[%s] %zu nodes of %s cannot run on %s:", options.graph.empty() ? "onnx" : "graph file",
        refused.size(), options.model_path().c_str(), target.name.c_str());
    for (const std::string& line : refused) message += "\n  " + line;
    throw Error(ErrorKind::kUnsupported, message);
  }
  if (!options.quiet) say_calibration(whole.calibration);
  const auto start = Clock::now();
  const uint64_t hits = engine_cache_stats().hits;
  std::vector<EngineSpec> specs;
  {
    ProgressBar bar;
    const Progress show = [&](const std::string& stage, int64_t done, int64_t total) {
      bar.show(stage, done, total);
    };
    specs.push_back(
        build(whole, 0, {.cache = cache, .progress = options.quiet ? Progress() : show}));
  }
  if (options.quiet) {  // one of many
  } else if (engine_cache_stats().hits != hits) {
    say(format("Engine taken from the cache in %g s", seconds_since(start)));
  } else {
    say_tuning(tuner_stats());
    say(format("Engine built in %g s", seconds_since(start)));
  }
  std::vector<WeightBytes> held = weights_for(specs.front(), weights);
  return {std::move(device),
          std::move(specs),
          std::move(held),
          {.weight_budget = settings.weight_budget}};
}

NewWeights onnx_weights(const std::string& path) {
  const onnx::ImportedModel model = onnx::import_file(path);
  NewWeights weights;
  for (const onnx::Weight& weight : model.weights) {
    WeightBytes bytes = weight.load();
    if (!bytes.owner) bytes.owner = std::make_shared<int>();
    weights.emplace(
        weight.name,
        NewWeight{.dtype = weight.dtype, .shape = weight.shape, .bytes = std::move(bytes)});
  }
  return weights;
}

}  // namespace tv::cli
