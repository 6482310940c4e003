// Times every tactic of one operator and compares each with the last, the reference kernel, without
// Python or torch.
//
//   node_tactics [--gpu] [--errors] [--list] [--tactic PREFIX]... PROBLEM...
//
// PROBLEM: attention:heads,queries,keys,d,dtype[,causal] | softmax:rows,columns,dtype |
// layer_norm:rows,columns,dtype | sum:rows,columns,dtype | relu:elements,dtype | add:elements,dtype |
// bias:rows,columns,dtype (x + b[column]). --gpu: the tactics of GPUs on a CPU driver. --errors: no
// timing. --list: names only. One line a tactic: µs of a dependent sequence, GB/s of what must be read and written,
// TFLOP/s of attention's products, the error.

#include <cstdio>
#include <cstring>
#include <sstream>

#include "converters/steps.h"
#include "runtime/dtype.h"
#include "tests/cpp/tactic_run.h"

namespace {

using namespace tv;        // NOLINT: a program's only file
using namespace tv::test;  // NOLINT

struct Problem {
  Graph graph;
  double bytes = 0, flops = 0;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> fields;
  std::stringstream in(text);
  for (std::string field; std::getline(in, field, at);) fields.push_back(field);
  return fields;
}

Graph pointwise(const std::string& function, DType dtype, std::vector<Shape> shapes) {
  ExampleGraph g("tv::pointwise");
  std::vector<std::pair<DType, Shape>> inputs;
  PointwiseProgram program;
  PointwiseInstr instr{.function = function, .compute = dtype, .result = dtype};
  for (const Shape& shape : shapes) {
    instr.operands.push_back(static_cast<int32_t>(inputs.size()));
    inputs.emplace_back(dtype, shape);
    program.inputs.push_back(dtype);
  }
  program.results = {static_cast<int32_t>(inputs.size())};
  program.instrs = {instr};
  Graph graph = g.inputs("inputs", inputs).output(dtype, shapes[0]).graph();
  graph.nodes[0].program = std::make_shared<const PointwiseProgram>(std::move(program));
  return graph;
}

Problem parse(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string op = text.substr(0, colon);
  const std::vector<std::string> f = split(text.substr(colon + 1), ',');
  const auto n = [&](size_t i) { return static_cast<int64_t>(std::stoll(f.at(i))); };
  if (op == "attention") {
    const DType dtype = dtype_from_name(f.at(4));
    const Shape q{1, n(0), n(1), n(3)}, k{1, n(0), n(2), n(3)};
    const bool causal = f.size() > 5 && f[5] == "causal";
    const double pairs = static_cast<double>(n(0) * n(1) * n(2)) * (causal ? 0.5 : 1);
    return {ExampleGraph("tv::attention").input("query", dtype, q).input("key", dtype, k)
                .input("value", dtype, k).none("mask").attr("is_causal", causal).attr("scale", 0.125)
                .output(dtype, q).graph(),
            static_cast<double>(2 * n(0) * (n(1) + n(2)) * n(3) * size_bytes(dtype)),
            4.0 * pairs * static_cast<double>(n(3))};
  }
  if (op == "relu" || op == "add") {
    const DType dtype = dtype_from_name(f.at(1));
    const size_t inputs = op == "add" ? 2 : 1;
    const double bytes = static_cast<double>(n(0) * size_bytes(dtype)) * static_cast<double>(inputs + 1);
    return {pointwise(op, dtype, std::vector<Shape>(inputs, Shape{n(0)})), bytes, 0};
  }
  const DType dtype = dtype_from_name(f.at(2));
  const Shape shape{n(0), n(1)};
  const double bytes = static_cast<double>(2 * n(0) * n(1) * size_bytes(dtype));
  if (op == "bias") return {pointwise("add", dtype, {shape, {n(1)}}), bytes, 0};
  if (op == "softmax") {
    return {ExampleGraph("aten::_softmax").input("self", dtype, shape).attr("dim", integer(-1))
                .attr("half_to_float", false).output(dtype, shape).graph(), bytes, 0};
  }
  if (op == "layer_norm") {
    return {ExampleGraph("aten::native_layer_norm").input("input", dtype, shape)
                .attr("normalized_shape", ints({n(1)})).input("weight", dtype, {n(1)})
                .input("bias", dtype, {n(1)}).attr("eps", 1e-5).output(dtype, shape).graph(), bytes, 0};
  }
  if (op == "sum") {
    return {ExampleGraph("tv::reduce").input("self", dtype, shape).attr("kind", std::string("sum"))
                .attr("dims", ints({1})).output(dtype, {n(0)}).graph(), bytes / 2, 0};
  }
  throw std::runtime_error("no such problem: " + text);
}

struct Options {
  std::vector<std::string> prefixes;
  bool times = true, list = false;
};

void measure(const std::string& text, const std::shared_ptr<Device>& device,
             const DeviceProfile& profile, const Options& options) {
  std::printf("== %s\n", text.c_str());
  const Problem problem = parse(text);
  TacticRun run(problem.graph, device, profile);
  const auto tactics = run.tactics();
  std::vector<double> wanted;
  for (const TacticName& tactic : tactics) {
    bool named = options.prefixes.empty();
    for (const std::string& prefix : options.prefixes) named |= tactic.name.starts_with(prefix);
    if (!named) continue;
    if (!tactic.refusal.empty() || options.list) {
      std::printf("   %-34s %s\n", tactic.name.c_str(), tactic.refusal.c_str());
      continue;
    }
    try {
      if (wanted.empty()) wanted = run.outputs(tactics.back().name).at(0);
      const double error = largest_error(run.outputs(tactic.name).at(0), wanted);
      const double us = options.times ? run.time_us(tactic.name) : 0;
      std::printf("   %-34s %10.2f us %8.1f GB/s %7.1f TFLOP/s  err %.1e\n", tactic.name.c_str(), us,
                  us > 0 ? problem.bytes / us * 1e-3 : 0, us > 0 ? problem.flops / us * 1e-6 : 0, error);
    } catch (const std::exception& e) {
      std::printf("   %-34s FAILED: %s\n", tactic.name.c_str(), e.what());
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto device = open_device("");
  DeviceProfile used = profile(*device);
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--gpu") {
      used.type = DeviceType::kDiscrete;
    } else if (arg == "--errors") {
      options.times = false;
    } else if (arg == "--list") {
      options.list = true;
    } else if (arg == "--tactic" && i + 1 < argc) {
      options.prefixes.emplace_back(argv[++i]);
    } else {
      measure(arg, device, used, options);
    }
  }
  return 0;
}
