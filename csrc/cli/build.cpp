#include "csrc/cli/build.h"

#include <chrono>

#include "csrc/cache/engine_cache.h"
#include "csrc/cli/command_error.h"
#include "csrc/cli/graph_model.h"
#include "csrc/cli/lines.h"
#include "csrc/cli/npy.h"
#include "csrc/cli/progress_bar.h"
#include "csrc/cli/sparsity.h"
#include "csrc/frontends/graph_file/graph_file.h"
#include "csrc/plan/plan.h"
#include "csrc/tuner/tuner.h"
#include "runtime/base/env.h"
#include "runtime/base/error.h"

namespace tv::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The ranges of --minShapes, --optShapes and --maxShapes; what is missing is the next larger one
/// there is, else the next smaller. --shapes alone is the only size.
std::map<std::string, std::vector<DimRange>> ranges_of(const Options& options) {
  const std::vector<const NamedShapes*> sources = {&options.min_shapes, &options.opt_shapes,
                                                   &options.max_shapes};
  std::map<std::string, std::vector<DimRange>> out;
  for (const NamedShapes* source : {sources[0], sources[1], sources[2], &options.shapes}) {
    for (const auto& [name, any_shape] : *source) {
      if (out.contains(name)) continue;
      const auto find = [&, &name = name](std::initializer_list<size_t> order) {
        for (const size_t i : order) {
          const auto found = sources[i]->find(name);
          if (found != sources[i]->end()) return found->second;
        }
        return options.shapes.at(name);
      };
      const auto min = find({0, 1, 2}), opt = find({1, 2, 0}), max = find({2, 1, 0});
      if (min.size() != opt.size() || opt.size() != max.size()) {
        throw Error(ErrorKind::kUser, "[shapes] '" + name +
                                          "' has different numbers of dimensions in --minShapes, "
                                          "--optShapes and --maxShapes");
      }
      std::vector<DimRange> dims;
      for (size_t d = 0; d < min.size(); ++d) {
        if (min[d] > opt[d] || opt[d] > max[d]) {
          throw Error(ErrorKind::kUser,
                      "[shapes] '" + name +
                          "': want --minShapes ≤ --optShapes ≤ --maxShapes, got " +
                          shape_text(min) + ", " + shape_text(opt) + ", " + shape_text(max));
        }
        if (max[d] == 0 && source != &options.shapes) {
          throw Error(ErrorKind::kUser, "[shapes] '" + name + "': got --maxShapes " +
                                            shape_text(max) +
                                            ", of which nothing runs; want sizes of 1 or more");
        }
        dims.push_back({.min = min[d], .opt = opt[d], .max = max[d]});
      }
      out.emplace(name, std::move(dims));
    }
  }
  return out;
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

/// Where engines and kernels are kept; "": nowhere.
std::string cache_dir(const CacheSettings& cache) {
  if (!cache.cache_built_engines && !cache.reuse_cached_engines) return {};
  return cache.engine_cache_dir.empty() ? default_cache_dir() : cache.engine_cache_dir;
}

/// The flags' settings, with what is always so here and what follows from others.
Settings settings_of(const Options& options) {
  Settings settings = options.settings;
  settings.require_full_compilation = true;
  settings.min_block_size = 1;
  settings.cache_dir = cache_dir(options.cache);
  if (settings.timing_cache_path.empty() && !settings.cache_dir.empty()) {
    settings.timing_cache_path = settings.cache_dir + "/timings.json";
  }
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
  if (!use.refusal.empty()) say("Warning: " + use.refusal);
  if (use.points == 0) return;
  say(format("Calibration: scales for %zu of %zu products and convolutions", use.scaled,
             use.points));
  for (const std::string& name : use.missing) say("  none for " + name + ", which stays in floats");
}

}  // namespace

std::map<std::string, std::vector<DimRange>> input_ranges(const Options& options) {
  return ranges_of(options);
}

onnx::ImportOptions import_options(const Options& options, bool partial) {
  onnx::ImportOptions import_options;
  import_options.partial = partial;
  import_options.sparse_weights = options.settings.sparse_weights;
  import_options.inputs = input_ranges(options);
  for (const auto& [name, path] : options.constants) {
    import_options.constants.emplace(name, constant_input(read_npy(path)));
  }
  return import_options;
}

onnx::ImportedModel import_model(const Options& options, bool partial) {
  if (!options.graph.empty()) return as_import(graph_model(options));
  const auto start = Clock::now();
  onnx::ImportedModel model = onnx::import_file(options.onnx, import_options(options, partial));
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

Network build_network(std::shared_ptr<Device> device, const Graph& graph,
                      const std::vector<Weight>& weights, const Options& options) {
  const Settings settings = settings_of(options);
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
  CacheSettings cache = options.cache;
  cache.engine_cache_dir = settings.cache_dir;
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
  return {std::move(device), std::move(specs), std::move(held)};
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
