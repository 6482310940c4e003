// Times every tactic of convolutions and compares each with float64, without Python or torch.
//
//   conv_tactics [--tactic PREFIX]... [--tf32] [--transformed] [--first N] [--errors] [--json]
//                [--gpu] [--glsl DIR] PROBLEM...
//
// PROBLEM: n,ic,h,w,oc,k,stride,pad,groups,dtype[,FLAG...] with flags r (a residual and ReLU),
// s (SiLU), l (channels last). --tf32: disable_tf32=False. --transformed:
// allow_transformed_convolutions=True. --first: only so many of the tactics that apply. --errors:
// no times. --gpu: the tactics of GPUs on a CPU driver. --glsl: only write the kernels' text, as
// for a GPU with matrix units. One line a tactic, in the rule's order: µs of a dependent sequence
// of its dispatches, TFLOP/s, errors.

#include <cstdio>
#include <fstream>
#include <sstream>

#include "runtime/base/dtype.h"
#include "runtime/base/json.h"
#include "workloads/conv_problem.h"

namespace {

using namespace tv;        // NOLINT: a program's only file
using namespace tv::test;  // NOLINT

ConvProblem parse(const std::string& text) {
  std::vector<std::string> fields;
  std::stringstream in(text);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  if (fields.size() < 10)
    throw std::runtime_error("want n,ic,h,w,oc,k,stride,pad,groups,dtype: " + text);
  const auto number = [&](size_t i) { return static_cast<int64_t>(std::stoll(fields[i])); };
  ConvProblem p{.n = number(0), .ic = number(1), .h = number(2), .w = number(3), .oc = number(4)};
  p.kh = p.kw = number(5);
  p.stride = number(6);
  p.pad = number(7);
  p.groups = number(8);
  p.dtype = dtype_from_name(fields[9]);
  for (size_t i = 10; i < fields.size(); ++i) {
    if (fields[i] == "r") p.residual = p.relu = true;
    if (fields[i] == "s") p.silu = true;
    if (fields[i] == "l") p.last = true;
  }
  return p;
}

/// What is asked for besides the problems.
struct Options {
  std::vector<std::string> prefixes;
  Settings settings;
  size_t first = SIZE_MAX;
  bool gpu = false, timed = true, json = false;
  std::string glsl_dir;
};

/// What was measured of one tactic.
struct Result {
  double us = 0;
  ConvData::Errors errors;
  size_t dispatches = 0;
};

void print(const ConvProblem& problem, const std::string& tactic, const Result& r, bool json) {
  const double tflops = r.us > 0 ? problem.flops() / r.us * 1e-6 : 0;
  if (json) {
    const Json::Object line = {{"tactic", tactic},
                               {"us", r.us},
                               {"tflops", tflops},
                               {"error", r.errors.largest},
                               {"error_norm", r.errors.norm},
                               {"dispatches", static_cast<int64_t>(r.dispatches)}};
    std::printf("%s\n", Json(line).dump().c_str());
  } else {
    std::printf("   %-40s %9.2f us %8.2f TFLOP/s  err %.1e (norm %.1e), %zu dispatches\n",
                tactic.c_str(), r.us, tflops, r.errors.largest, r.errors.norm, r.dispatches);
  }
  std::fflush(stdout);
}

void measure(const ConvProblem& problem, const std::shared_ptr<Device>& device,
             const Options& options) {
  if (!options.json) {
    std::printf("== %s, %.1f MFLOP\n", problem.str().c_str(), problem.flops() * 1e-6);
  }
  const DeviceProfile used = options.gpu ? as_gpu(profile(*device)) : profile(*device);
  ConvData data(problem);
  for (const Candidate& c :
       candidates(problem, device, options.settings, used, options.prefixes, options.first)) {
    if (!c.engine) {
      if (options.json) continue;
      std::printf("   %-40s %s%s\n", c.name.c_str(), c.failed ? "FAILED: " : "", c.problem.c_str());
      continue;
    }
    try {
      Result r{.errors = data.run(c.engine, 2000)};
      r.us = options.timed ? data.time_us(device, c.spec) : 0;
      r.dispatches = c.spec.dispatches.size();
      print(problem, c.name, r, options.json);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "   %-40s FAILED: %s\n", c.name.c_str(), e.what());
    }
  }
}

void write_texts(const ConvProblem& problem, const Settings& settings, DeviceProfile profile,
                 const std::string& dir) {
  profile = as_gpu(profile);
  profile.max_shared_bytes = 49152;
  profile.float16_controls = true;
  profile.max_workgroup_invocations = 1024;
  profile.compute_units = 132;
  profile.min_subgroup_size = profile.max_subgroup_size = profile.subgroup_size = 32;
  for (const char* type : {"float16", "bfloat16"}) {
    profile.coop_matrices.push_back({16, 16, 16, type, type, "float32", "float32"});
  }
  int i = 0;
  for (const auto& [name, text] : kernel_texts(problem, settings, profile)) {
    const std::string file = dir + "/" + std::to_string(i++) + "_" + name + ".comp";
    std::ofstream(file) << text;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto device = open_device("");
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--gpu") {
      options.gpu = true;
    } else if (arg == "--errors") {
      options.timed = false;
    } else if (arg == "--tf32") {
      options.settings.disable_tf32 = false;
    } else if (arg == "--transformed") {
      options.settings.allow_transformed_convolutions = true;
    } else if (arg == "--json") {
      options.json = true;
    } else if (arg == "--first" && i + 1 < argc) {
      options.first = std::stoul(argv[++i]);
    } else if (arg == "--glsl" && i + 1 < argc) {
      options.glsl_dir = argv[++i];
    } else if (arg == "--tactic" && i + 1 < argc) {
      options.prefixes.emplace_back(argv[++i]);
    } else if (!options.glsl_dir.empty()) {
      write_texts(parse(arg), options.settings, profile(*device), options.glsl_dir);
    } else {
      measure(parse(arg), device, options);
    }
  }
  return 0;
}
