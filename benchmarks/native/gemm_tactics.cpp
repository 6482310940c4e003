// Times every tactic of products and compares each with float64, without Python or torch.
//
//   gemm_tactics [--tactic PREFIX]... [--tf32] [--errors] [--list] [--first N]
//                [--json] [--gpu] PROBLEM...
//
// PROBLEM: m,n,k,dtype[,FLAG...] with flags at, bt (stored transposed), d (dynamic b), b=BATCH (a
// matrix b for each), s (b shared by the batch), t (bias and gelu), p (positive numbers),
// e=BITS (exponents spread by ±BITS). --tf32: disable_tf32=False. --errors: no times. --list: names
// only. --first: only so many of the tactics that apply. --json: one object a line. --gpu: the
// tactics of GPUs on a CPU driver. One line a tactic, in the rule's order: µs of a dependent
// sequence of its dispatches, TFLOP/s, errors.

#include <atomic>
#include <cstdio>
#include <sstream>
#include <thread>

#include "runtime/base/dtype.h"
#include "runtime/base/json.h"
#include "workloads/gemm_problem.h"

namespace {

using namespace tv;        // NOLINT: a program's only file
using namespace tv::test;  // NOLINT

struct Options {
  std::vector<std::string> prefixes;
  Settings settings;
  DeviceProfile profile;
  bool times = true, list = false, json = false;
  size_t first = SIZE_MAX;
};

GemmProblem parse(const std::string& text) {
  std::vector<std::string> fields;
  std::stringstream in(text);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  if (fields.size() < 4) throw std::runtime_error("want m,n,k,dtype: " + text);
  GemmProblem p{.m = std::stoll(fields[0]), .n = std::stoll(fields[1]), .k = std::stoll(fields[2])};
  p.dtype = dtype_from_name(fields[3]);
  for (size_t i = 4; i < fields.size(); ++i) {
    const std::string& f = fields[i];
    if (f == "at") p.a_transposed = true;
    if (f == "bt") p.b_transposed = true;
    if (f == "d") p.constant_b = false;
    if (f == "s") p.shared_b = true;
    if (f == "t") p.epilogue = true;
    if (f == "p") p.positive = 1;
    if (f.starts_with("b=")) {
      p.batch = std::stoll(f.substr(2));
      p.shared_b = false;
    }
    if (f.starts_with("e=")) p.spread = std::stoi(f.substr(2));
  }
  return p;
}

bool wanted(const std::string& name, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (name.starts_with(prefix)) return true;
  }
  return prefixes.empty();
}

/// A tactic's engine, or why there is none.
struct Candidate {
  std::string name, problem;
  EngineSpec spec;
  std::shared_ptr<Engine> engine;
};

/// Engines of every tactic that applies, made in parallel: drivers take seconds for large kernels.
std::vector<Candidate> candidates_of(const GemmProblem& problem,
                                     const std::shared_ptr<Device>& device,
                                     const Options& options) {
  std::vector<Candidate> list;
  size_t left = options.first;
  for (const CandidateTactic& t : candidate_tactics(problem, options.settings, options.profile)) {
    if (!wanted(t.name, options.prefixes)) continue;
    if (t.refusal.empty() && left-- == 0) break;
    list.push_back({t.name, t.refusal, {}, {}});
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < list.size(); i = next++) {
      Candidate& c = list[i];
      if (!c.problem.empty() || options.list) continue;
      try {
        c.spec = compile_with_tactic(problem.graph(), c.name, options.settings, options.profile);
        c.engine = Engine::create(device, c.spec);
      } catch (const std::exception& e) {
        c.problem = std::string("FAILED: ") + e.what();
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  return list;
}

/// What was measured of one tactic.
struct Result {
  double us = 0;
  GemmData::Errors errors;
  size_t dispatches = 0;
};

void print(const GemmProblem& problem, const std::string& tactic, const Result& r, bool json) {
  const double tflops = r.us > 0 ? problem.flops() / r.us * 1e-6 : 0;
  if (!json) {
    std::printf("   %-44s %9.2f us %8.2f TFLOP/s  err max %.1e norm %.1e products %.1e, %zu disp\n",
                tactic.c_str(), r.us, tflops, r.errors.largest, r.errors.norm, r.errors.products,
                r.dispatches);
    return;
  }
  const Json::Object line = {{"m", problem.m},
                             {"n", problem.n},
                             {"k", problem.k},
                             {"batch", problem.batch},
                             {"dtype", std::string(name(problem.dtype))},
                             {"constant", problem.constant_b},
                             {"tactic", tactic},
                             {"us", r.us},
                             {"tflops", tflops},
                             {"error", r.errors.largest},
                             {"error_of_products", r.errors.products},
                             {"dispatches", static_cast<int64_t>(r.dispatches)}};
  std::printf("%s\n", Json(line).dump().c_str());
}

void measure(const GemmProblem& problem, const std::shared_ptr<Device>& device,
             const Options& options) {
  if (!options.json) {
    std::printf("== %s%s, %.1f MFLOP\n", problem.str().c_str(),
                options.settings.disable_tf32 ? "" : " tf32", problem.flops() * 1e-6);
  }
  GemmData data(problem);
  for (const Candidate& c : candidates_of(problem, device, options)) {
    if (!c.engine) {
      if (!options.json) std::printf("   %-44s %s\n", c.name.c_str(), c.problem.c_str());
      continue;
    }
    try {
      Result r{.errors = data.run(c.engine, problem.k > 2048 ? 1000 : 4000)};
      r.us = options.times ? data.time_us(device, c.spec) : 0;
      r.dispatches = c.spec.dispatches.size();
      print(problem, c.name, r, options.json);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "   %-44s FAILED: %s\n", c.name.c_str(), e.what());
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto device = open_device("");
  Options options{.profile = profile(*device)};
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--tf32") {
      options.settings.disable_tf32 = false;
    } else if (arg == "--errors") {
      options.times = false;
    } else if (arg == "--list") {
      options.list = true;
    } else if (arg == "--gpu") {
      options.profile = as_gpu(options.profile);
    } else if (arg == "--json") {
      options.json = true;
    } else if (arg == "--first" && i + 1 < argc) {
      options.first = std::stoul(argv[++i]);
    } else if (arg == "--tactic" && i + 1 < argc) {
      options.prefixes.emplace_back(argv[++i]);
    } else {
      measure(parse(arg), device, options);
    }
  }
  return 0;
}
