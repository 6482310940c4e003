#include "csrc/cli/bench/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "csrc/cli/tensors/tensor_text.h"
#include "csrc/cli/text/lines.h"
#include "csrc/cli/text/statistics.h"
#include "csrc/setting_values.h"
#include "runtime/vulkan/device.h"

namespace tv::cli {
namespace {

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string shapes_text(const NamedShapes& shapes) {
  std::string text;
  for (const auto& [name, shape] : shapes) {
    text += (text.empty() ? "" : ", ") + name + ":" + shape_text(shape);
  }
  return text.empty() ? "model" : text;
}

const char* type_text(DeviceType type) {
  switch (type) {
    case DeviceType::kIntegrated:
      return "integrated GPU";
    case DeviceType::kDiscrete:
      return "discrete GPU";
    case DeviceType::kVirtual:
      return "virtual GPU";
    case DeviceType::kCpu:
      return "CPU";
    case DeviceType::kOther:
      break;
  }
  return "other";
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

std::string on(bool flag) { return flag ? "Enabled" : "Disabled"; }

void say_bindings(const char* title, const std::vector<Binding>& bindings,
                  const std::vector<std::vector<int64_t>>& shapes) {
  for (size_t i = 0; i < bindings.size(); ++i) {
    say(format("%s binding %s with dimensions %s (%s)", title, bindings[i].name.c_str(),
               shape_text(shapes[i]).c_str(), std::string(name(bindings[i].dtype)).c_str()));
  }
}

using Part = std::function<double(const TimedCall&)>;

Summary summary_of(const BenchResult& result, const Options& options, const Part& part) {
  std::vector<double> values;
  for (const TimedCall& call : result.calls) values.push_back(part(call));
  return summarise(std::move(values), options.percentiles);
}

double host_ms(const TimedCall& call) { return call.times.host_us / 1e3; }
double queue_ms(const TimedCall& call) { return call.times.queue_us / 1e3; }
double compute_ms(const TimedCall& call) { return call.times.compute_us / 1e3; }
double upload_ms(const TimedCall& call) { return call.times.upload_us / 1e3; }
double download_ms(const TimedCall& call) { return call.times.download_us / 1e3; }
double device_ms(const TimedCall& call) { return call.times.device_us() / 1e3; }

void say_averages(const BenchResult& result, const Options& options) {
  say("");
  say("=== Trace details ===");
  say(format("Trace averages of %lld runs:", static_cast<long long>(options.avg_runs)));
  const auto group = static_cast<size_t>(options.avg_runs);
  for (size_t first = 0; first < result.calls.size(); first += group) {
    const size_t end = std::min(first + group, result.calls.size());
    double gpu = 0, latency = 0, queue = 0;
    for (size_t i = first; i < end; ++i) {
      gpu += compute_ms(result.calls[i]);
      latency += device_ms(result.calls[i]);
      queue += queue_ms(result.calls[i]);
    }
    const auto n = static_cast<double>(end - first);
    say(format("Average on %zu runs - GPU latency: %g ms - Host latency: %g ms (enqueue %g ms)",
               end - first, gpu / n, latency / n, queue / n));
  }
}

/// Settings with a line of their own in the report.
constexpr std::array kOwnLine{"enabled_precisions", "optimization_level", "workspace_size",
                              "timing_cache_path"};

/// A line for each other setting that is not as it is by default.
template <typename S>
void report_changed(const S& settings) {
  const S defaults;
  std::map<std::string, Json> standard;
  each_setting(defaults, [&](const SettingRow& row, const auto& member) {
    standard.emplace(row.name, setting_json(member));
  });
  each_setting(settings, [&](const SettingRow& row, const auto& member) {
    const Json value = setting_json(member);
    if (!row.of_user || std::ranges::find(kOwnLine, std::string_view(row.name)) != kOwnLine.end())
      return;
    if (const std::string text = value.dump(); text != standard.at(row.name).dump())
      say(std::string(row.name) + ": " + text);
  });
}

constexpr const char* kExplanation =
    R"(=== Explanations of the performance metrics ===
Total Host Walltime: from the start of the first measured call to the end of the last one.
Throughput: calls divided by the total host walltime.
Latency: H2D Latency + GPU Compute Time + D2H Latency of a call: what the device does for it.
Host Time: from the start of a call until its results are in the caller's memory.
Enqueue Time: the part of the host time until the work was handed to the device's queue.
H2D Latency: on the device, copying inputs from staging memory; 0 where they are used in place.
GPU Compute Time: on the device, the kernels. On CPU drivers, the host's time from the submission
to the end.
D2H Latency: on the device, copying outputs to staging memory.)";

}  // namespace

void report_options(const Options& o) {
  say("=== Model Options ===");
  say("Format: " + std::string(!o.load_engine.empty() ? "vke"
                               : o.graph.empty()      ? "ONNX"
                                                      : "graph"));
  say("Model: " + (o.load_engine.empty() ? o.model_path() : o.load_engine));
  say("");
  say("=== Build Options ===");
  const Settings& settings = o.settings;
  const auto holds = [&](DType dtype) {
    return std::ranges::find(settings.enabled_precisions, dtype) !=
           settings.enabled_precisions.end();
  };
  say(std::string("Precision: FP32") +
      (holds(DType::kF16)    ? "+FP16"
       : holds(DType::kBF16) ? "+BF16"
                             : "") +
      (holds(DType::kI8) ? "+INT8" : ""));
  say(format("Builder optimization level: %lld",
             static_cast<long long>(settings.optimization_level)));
  say("Memory Pools: workspace: " +
      (settings.workspace_size
           ? format("%.12g MiB", std::ldexp(static_cast<double>(settings.workspace_size), -20))
           : std::string("no limit")));
  say("Refit: Enabled");
  say("Strip weights: " + on(o.strip_weights));
  say("Timing cache file: " + or_none(settings.timing_cache_path));
  say("Min shapes: " + shapes_text(o.min_shapes));
  say("Opt shapes: " + shapes_text(o.opt_shapes));
  say("Max shapes: " + shapes_text(o.max_shapes));
  report_changed(settings);
  report_changed(o.cache);
  say("");
  say("=== Inference Options ===");
  say("Batch: Explicit");
  say("Input inference shapes: " + shapes_text(o.shapes));
  say(format("Iterations: %lld", static_cast<long long>(o.iterations)));
  say(format("Duration: %gs (+ %lldms warm up)", o.duration_s,
             static_cast<long long>(o.warm_up_ms)));
  say(format("Idle time: %lldms", static_cast<long long>(o.idle_ms)));
  say(format("Inference Streams: %lld", static_cast<long long>(o.streams)));
  say("Skip inference: " + on(o.skip_inference));
  say("");
  say("=== Reporting Options ===");
  say("Verbose: " + on(o.verbose));
  say(format("Averages: %lld inferences", static_cast<long long>(o.avg_runs)));
  std::string percentiles;
  for (const double p : o.percentiles)
    percentiles += (percentiles.empty() ? "" : ",") + format("%g", p);
  say("Percentiles: " + percentiles);
  say("Dump output: " + on(o.dump_output));
  say("Profile: " + on(o.profiles()));
  say("Export timing to JSON file: " + o.export_times);
  say("Export output to JSON file: " + o.export_output);
  say("Export profile to JSON file: " + o.export_profile);
  say("");
}

void report_device(const DeviceProfile& device) {
  say("=== Device Information ===");
  say("Selected Device: " + device.name);
  say(std::string("Type: ") + type_text(device.type));
  say("Driver: " + device.driver_name + " " + device.driver_info);
  say(format("Vulkan: %u.%u.%u", device.api_version >> 22, (device.api_version >> 12) & 0x3FF,
             device.api_version & 0xFFF));
  if (device.compute_units > 0) say(format("Compute units: %u", device.compute_units));
  say(format("Subgroup size: %u", device.subgroup_size));
  say(format("Device Global Memory: %.0f MiB", mib(static_cast<int64_t>(device.memory_bytes))));
  say(format("Shared Memory per workgroup: %u KiB", device.max_shared_bytes / 1024));
  say("");
}

void report_network(const Network& network, const Bound& bound) {
  const EngineSpec& spec = bound.engine->spec();
  say_bindings("Input", spec.inputs, bound.input_shapes);
  say_bindings("Output", spec.outputs, bound.output_shapes);
  say(format("Engine %s: %zu layers, %zu weights of %.2f MiB, activations of %.2f MiB",
             spec.name.c_str(), spec.dispatches.size(), spec.weights.size(),
             mib(network.weight_bytes()), mib(bound.engine->arena_bytes(bound.symbols))));
  if (network.profiles() > 1) say(format("Profiles: %zu", network.profiles()));
}

void report_times(const BenchResult& result, const Options& options) {
  say(format("The first call took %g ms: it recorded the commands", result.first_call_ms));
  say(format("Warmup completed %lld queries over %lld ms",
             static_cast<long long>(result.warm_up_calls),
             static_cast<long long>(options.warm_up_ms)));
  say(format("Timing trace has %zu queries over %g s", result.calls.size(), result.wall_ms / 1e3));
  if (!result.device_clock) {
    say("A CPU driver: GPU Compute Time is the host's, from the submission to the end");
  }
  say_averages(result, options);
  double compute_s = 0;
  for (const TimedCall& call : result.calls) compute_s += compute_ms(call) / 1e3;
  const auto line = [&](const char* title, const Part& part) {
    say(title + summary_text(summary_of(result, options, part)));
  };
  say("");
  say("=== Performance summary ===");
  say(format("Throughput: %g qps",
             static_cast<double>(result.calls.size()) / result.wall_ms * 1e3));
  line("Latency: ", device_ms);
  line("Host Time: ", host_ms);
  line("Enqueue Time: ", queue_ms);
  line("H2D Latency: ", upload_ms);
  line("GPU Compute Time: ", compute_ms);
  line("D2H Latency: ", download_ms);
  say(format("Total Host Walltime: %g s", result.wall_ms / 1e3));
  say(format("Total GPU Compute Time: %g s", compute_s));
  if (options.verbose) {
    say("");
    say(kExplanation);
  } else {
    say("Explanations of the performance metrics are printed in the verbose logs.");
  }
  say("");
}

void report_memory(const DeviceMemory& memory) {
  say(format("Device memory: %.2f MiB at most, %.2f MiB after the calls (weights %.2f)",
             mib(memory.peak), mib(memory.all()), mib(memory.weights)));
  if (memory.host_weights == 0) return;
  say(format("Streamed weights: %.2f MiB in host memory, through %.2f MiB of the device's",
             mib(memory.host_weights), mib(memory.slots)));
}

void report_outputs(const EngineSpec& spec, const std::vector<Tensor>& outputs) {
  say("Output Tensors:");
  for (size_t i = 0; i < outputs.size(); ++i) {
    say(spec.outputs[i].name + ": (" + shape_text(outputs[i].shape) + ")");
    std::string line;
    for (int64_t e = 0, count = outputs[i].numel(); e < count; ++e) {
      line += (line.empty() ? "" : " ") + element_text(outputs[i], e);
      if (e % 16 != 15 && e + 1 != count) continue;
      say(line);
      line.clear();
    }
  }
}

void report_refit(const EngineSpec& spec) {
  say(format("=== Refittable weights: %zu ===", spec.weights.size()));
  for (const Binding& weight : spec.weights) {
    std::vector<int64_t> shape;
    for (const Expr& dim : weight.shape) shape.push_back(dim.eval({}));
    say(weight.name + ": " + std::string(name(weight.dtype)) + " " + shape_text(shape));
  }
}

void list_all_devices() {
  const std::vector<DeviceProfile> devices = list_devices();
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceProfile& d = devices[i];
    std::printf("%zu: %s (%s), %s %s, %.0f MiB, UUID %s\n", i, d.name.c_str(), type_text(d.type),
                d.driver_name.c_str(), d.driver_info.c_str(),
                mib(static_cast<int64_t>(d.memory_bytes)), d.uuid.c_str());
  }
}

}  // namespace tv::cli
