#include "csrc/cli/run.h"

#include <chrono>

#include "csrc/cli/bench/bench.h"
#include "csrc/cli/bench/exports.h"
#include "csrc/cli/bench/report.h"
#include "csrc/cli/calibrate/calibrate_from_data.h"
#include "csrc/cli/compare/compare.h"
#include "csrc/cli/debug/debug.h"
#include "csrc/cli/generate/generate.h"
#include "csrc/cli/models/build.h"
#include "csrc/cli/text/lines.h"
#include "csrc/report/engine_graph.h"
#include "runtime/base/error.h"
#include "runtime/vulkan/device.h"

namespace tv::cli {
namespace {

constexpr int kProfileRuns = 20;

/// Seconds that `work` takes.
template <typename Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void refit(Network& network, const Options& options) {
  const std::string onnx = !options.refit_from_onnx.empty() ? options.refit_from_onnx
                           : options.refit                  ? options.onnx
                                                            : "";
  if (options.load_engine.empty() || (options.weights.empty() && onnx.empty())) return;
  size_t taken = 0;
  const double took = seconds([&] {
    taken = network.refit(onnx.empty() ? read_safetensors(options.weights).tensors
                                       : onnx_weights(onnx));
  });
  say(format("Refitted %zu of %zu weights in %g s", taken, network.spec().weights.size(), took));
}

/// The model; inputs that set shapes have the values of --loadInputs, and are inputs no longer.
ReadModel read_with_values(Options& options) {
  for (;;) {
    try {
      return read_model(options);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported || options.onnx.empty()) throw;
      bool more = false;
      for (const std::string& name : shape_inputs(options)) {
        const auto file = options.load_inputs.find(name);
        if (file == options.load_inputs.end() || !file->second.ends_with(".npy")) continue;
        say("Input \"" + name + "\" sets shapes: the engine is for the value of " + file->second);
        options.constants.insert(options.load_inputs.extract(file));
        more = true;
      }
      if (!more) throw;
    }
  }
}

Network load(const std::shared_ptr<Device>& device, Options& options) {
  if (options.load_engine.empty()) {
    const ReadModel model = read_with_values(options);
    if (!options.new_calibration.empty()) {
      calibrate_from_data(device, model, options);
    } else if (!options.calibration_data.empty()) {
      say("The calibration cache is there: no batch is run");
    }
    return build_network(device, model.graph, model.weights, options);
  }
  std::optional<Network> network;
  const double took = seconds([&] {
    network = Network::load(device, options.load_engine,
                            {.check_addresses = options.check_addresses,
                             .weight_budget = options.settings.weight_budget});
  });
  say(format("Engine loaded in %g s", took));
  return std::move(*network);
}

void profile_layers(const RunInputs& inputs, const Options& options) {
  const Bound& bound = inputs.bound;
  const std::vector<Tensor> outputs = make_outputs(bound);
  const std::vector<DispatchTime> times =
      bound.engine->time_dispatches(*bound.weights, bound.symbols, host_tensors(inputs.tensors),
                                    host_tensors(outputs), kProfileRuns);
  const std::vector<LayerTime> layers = layer_times(bound.engine->spec(), times);
  if (options.dump_profile) {
    say(format("=== Profile (%d iterations) ===", kProfileRuns));
    say(layer_table(layers, 0, /*by_time=*/false));
    say("");
  }
  if (!options.export_profile.empty()) {
    export_profile(options.export_profile, layers, kProfileRuns);
  }
}

/// What is said and written of the engine itself.
void describe(const Network& network, const Bound& bound, const Options& options) {
  const EngineSpec& spec = bound.engine->spec();
  if (options.dump_layer_info) {
    say("=== Layer Information ===");
    say(engine_layers_text(spec));
  }
  if (options.dump_refit) report_refit(spec);
  if (!options.export_layer_info.empty()) {
    write_text(options.export_layer_info, engine_layers_json(spec));
  }
  if (!options.export_graph.empty()) write_text(options.export_graph, engine_picture(spec));
  if (!options.save_engine.empty()) {
    network.save(options.save_engine, !options.strip_weights);
    say("Engine saved as " + options.save_engine);
  }
}

void infer(const RunInputs& inputs, const Options& options) {
  const EngineSpec& spec = inputs.bound.engine->spec();
  say("Starting inference");
  reset_peak_memory(*inputs.bound.engine->device());  // the tuner's memory is no part of it
  const BenchResult result = run_bench(inputs, options);
  report_times(result, options);
  if (options.verbose) report_memory(memory_in_use(*inputs.bound.engine->device()));
  if (options.profiles()) profile_layers(inputs, options);
  if (options.dump_output) report_outputs(spec, result.outputs);
  if (!options.export_times.empty()) export_times(options.export_times, result);
  if (!options.export_output.empty()) export_outputs(options.export_output, spec, result.outputs);
}

}  // namespace

bool execute(const Options& given) {
  Options options = given;
  if (options.list_devices) {
    list_all_devices();
    return true;
  }
  if (options.generate) {
    generate(open_device(options.device), options);
    return true;
  }
  if (!options.compare && options.debug.empty()) report_options(options);
  const std::shared_ptr<Device> device = open_device(options.device);
  report_device(profile(*device));
  if (options.compare) return compare_network(device, options);
  if (options.debug == "precision") return debug_precision(device, options);
  if (options.debug == "reduce") return debug_reduce(device, options);
  Network network = load(device, options);
  refit(network, options);
  // Files of inputs say shapes too.
  const RunInputs inputs = options.runs()
                               ? make_inputs(network, options)
                               : RunInputs{.bound = network.bind(options.shapes), .tensors = {}};
  const Bound& bound = inputs.bound;
  report_network(network, bound);
  describe(network, bound, options);
  if (!options.runs()) return true;
  if (!network.has_weights()) {
    throw Error(ErrorKind::kUser, "[" + network.spec().name +
                                      "] was saved without its weights; want --refitFromOnnx or "
                                      "--weights, or --skipInference");
  }
  infer(inputs, options);
  return true;
}

}  // namespace tv::cli
