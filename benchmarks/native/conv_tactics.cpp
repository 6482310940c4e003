// Times every tactic of convolutions and compares each with float64, without Python or torch.
//
//   conv_tactics [--gpu] [--errors] [--glsl DIR] [--tactic PREFIX]... PROBLEM...
//
// PROBLEM: n,ic,h,w,oc,k,stride,pad,groups,dtype[,r] - r: with a residual and ReLU. --gpu: the
// tactics of GPUs on a CPU driver. --errors: no timing. --glsl: only write the text
// of the kernels, as for a GPU with matrix units. One line a tactic: µs of a dependent sequence of its dispatches,
// TFLOP/s, errors.

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/dtype.h"
#include "tests/cpp/conv_problem.h"

namespace {

using namespace tv;        // NOLINT: a program's only file
using namespace tv::test;  // NOLINT

ConvProblem parse(const std::string& text) {
  std::vector<std::string> fields;
  std::stringstream in(text);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  if (fields.size() < 10) throw std::runtime_error("want n,ic,h,w,oc,k,stride,pad,groups,dtype: " + text);
  const auto number = [&](size_t i) { return static_cast<int64_t>(std::stoll(fields[i])); };
  ConvProblem p{.n = number(0), .ic = number(1), .h = number(2), .w = number(3), .oc = number(4)};
  p.kh = p.kw = number(5);
  p.stride = number(6);
  p.pad = number(7);
  p.groups = number(8);
  p.dtype = dtype_from_name(fields[9]);
  p.residual = p.relu = fields.size() > 10 && fields[10] == "r";
  return p;
}

void measure(const ConvProblem& problem, const std::shared_ptr<Device>& device,
             const DeviceProfile& profile, const std::vector<std::string>& prefixes, bool timed) {
  std::printf("== %s, %.1f MFLOP\n", problem.str().c_str(), problem.flops() * 1e-6);
  ConvData data(problem);
  for (const Candidate& c : candidates(problem, device, {}, profile, prefixes)) {
    if (!c.engine) {
      std::printf("   %-40s %s%s\n", c.name.c_str(), c.failed ? "FAILED: " : "", c.problem.c_str());
      continue;
    }
    try {
      const auto errors = data.run(c.engine, 2000);
      const double us = timed ? data.time_us(device, c.spec) : 0;
      std::printf("   %-40s %9.2f us %8.2f TFLOP/s  err %.1e (norm %.1e), %zu dispatches\n",
                  c.name.c_str(), us, timed ? problem.flops() / us * 1e-6 : 0, errors.largest,
                  errors.norm, c.spec.dispatches.size());
    } catch (const std::exception& e) {
      std::printf("   %-40s FAILED: %s\n", c.name.c_str(), e.what());
    }
    std::fflush(stdout);
  }
}

void write_texts(const ConvProblem& problem, DeviceProfile profile, const std::string& dir) {
  profile = as_gpu(profile);
  profile.max_shared_bytes = 49152;
  profile.max_workgroup_invocations = 1024;
  profile.compute_units = 132;
  profile.min_subgroup_size = profile.max_subgroup_size = profile.subgroup_size = 32;
  for (const char* type : {"float16", "bfloat16"}) {
    profile.coop_matrices.push_back({16, 16, 16, type, type, "float32", "float32"});
  }
  int i = 0;
  for (const auto& [name, text] : kernel_texts(problem, {}, profile)) {
    const std::string file = dir + "/" + std::to_string(i++) + "_" + name + ".comp";
    std::ofstream(file) << text;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto device = open_device("");
  DeviceProfile used = profile(*device);
  std::vector<std::string> prefixes;
  bool timed = true;
  std::string glsl_dir;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--gpu") == 0) {
      used = as_gpu(used);
    } else if (std::strcmp(argv[i], "--errors") == 0) {
      timed = false;
    } else if (std::strcmp(argv[i], "--glsl") == 0 && i + 1 < argc) {
      glsl_dir = argv[++i];
    } else if (std::strcmp(argv[i], "--tactic") == 0 && i + 1 < argc) {
      prefixes.emplace_back(argv[++i]);
    } else if (!glsl_dir.empty()) {
      write_texts(parse(argv[i]), used, glsl_dir);
    } else {
      measure(parse(argv[i]), device, used, prefixes, timed);
    }
  }
  return 0;
}
