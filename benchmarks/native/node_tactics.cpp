// Times every tactic of one operator and compares each with float64, without Python or torch.
//
//   node_tactics [--gpu] [--errors] [--list] [--first N] [--json] [--tactic PREFIX]... PROBLEM...
//
// PROBLEM: attention:heads,queries,keys,d,dtype[,causal] | softmax:rows,columns,dtype |
// layer_norm:rows,columns,dtype | sum:rows,columns,dtype | relu:elements,dtype | add:elements,dtype
// | bias:rows,columns,dtype (x + b[column]) | transpose:rows,columns,dtype
// | rows:m,n,k,bits,group,dtype[,norm][,gated]: tv::matmul_rows, or tv::matmul and
// tv::matmul_quantised with neither; bits 0: of floats. --gpu: the tactics of
// GPUs on a CPU driver. --errors: no timing. --list: names only. --first: only so many of the
// tactics that apply. --json: one object a line. One line a tactic: µs of a dependent sequence,
// GB/s of what must be read and written, TFLOP/s of attention's products, max |out - ref| / max
// |ref| of samples.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <sstream>

#include "converters/kit/steps.h"
#include "runtime/base/dtype.h"
#include "runtime/base/json.h"
#include "workloads/tactic_run.h"

namespace {

using namespace tv;        // NOLINT: a program's only file
using namespace tv::test;  // NOLINT

using Numbers = std::vector<std::vector<double>>;

struct Problem {
  Graph graph;
  double bytes = 0, flops = 0;
  /// Output number `index`, in float64.
  std::function<double(const Numbers& inputs, int64_t index)> reference;
  double spread = 1;  ///< of the inputs
};

struct Heads {
  int64_t queries, keys, d;
  bool causal;
};

double attention_at(const Heads& h, const Numbers& in, int64_t index) {
  const int64_t e = index % h.d, row = index / h.d, m = row % h.queries, head = row / h.queries;
  const int64_t last = h.causal ? std::min(h.keys, m + 1) : h.keys;
  double largest = -INFINITY, sum = 0, result = 0;
  std::vector<double> scores;
  for (int64_t n = 0; n < last; ++n) {
    double s = 0;
    for (int64_t d = 0; d < h.d; ++d) {
      s += in[0][static_cast<size_t>(row * h.d + d)] *
           in[1][static_cast<size_t>((head * h.keys + n) * h.d + d)];
    }
    scores.push_back(s * 0.125);
    largest = std::max(largest, scores.back());
  }
  for (int64_t n = 0; n < last; ++n) {
    const double p = std::exp(scores[static_cast<size_t>(n)] - largest);
    sum += p;
    result += p * in[2][static_cast<size_t>((head * h.keys + n) * h.d + e)];
  }
  return result / sum;
}

double row_at(const std::string& op, int64_t columns, const Numbers& in, int64_t index) {
  const int64_t row = op == "sum" ? index : index / columns, column = index % columns;
  const double* x = in[0].data() + row * columns;
  const double at = x[column];
  double sum = 0, largest = -INFINITY, squares = 0;
  for (int64_t i = 0; i < columns; ++i) {
    sum += x[i];
    largest = std::max(largest, x[i]);
  }
  if (op == "sum") return sum;
  if (op == "softmax") {
    double all = 0;
    for (int64_t i = 0; i < columns; ++i) all += std::exp(x[i] - largest);
    return std::exp(at - largest) / all;
  }
  const double mean = sum / static_cast<double>(columns);
  for (int64_t i = 0; i < columns; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(columns) + 1e-5);
  return (at - mean) * inverse * in[1][static_cast<size_t>(column)] +
         in[2][static_cast<size_t>(column)];
}

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

Problem transpose(int64_t rows, int64_t columns, DType dtype) {
  Graph graph = ExampleGraph("tv::copy")
                    .input("self", dtype, {rows, columns})
                    .output(dtype, {columns, rows})
                    .graph();
  graph.nodes[0].args[0].values[0] =
      graph.add_value({.name = "turned",
                       .dtype = dtype,
                       .shape = {columns, rows},
                       .kind = ValueKind::kNode,
                       .view = View{graph.inputs[0], Expr(0), {1, columns}}});
  return {std::move(graph), static_cast<double>(2 * rows * columns * size_bytes(dtype)), 0,
          [=](const Numbers& in, int64_t i) {
            return in[0][static_cast<size_t>(i % rows * columns + i / rows)];
          }};
}

std::shared_ptr<const PointwiseProgram> product_program(DType dtype) {
  PointwiseProgram program{.inputs = {DType::kF32, dtype}};
  program.instrs = {{.function = "mul", .operands = {0, 1}}};
  program.results = {2};
  return std::make_shared<const PointwiseProgram>(std::move(program));
}

struct FewRows {
  int64_t m, n, k, bits, group;
  DType dtype;
  bool norm, gated;
  int64_t rows() const { return gated ? 2 * n : n; }
};

/// The matrix of the node: floats [rows, k], or bytes and a scale for each group.
void add_matrix(const FewRows& p, bool fused, ExampleGraph& g) {
  if (p.bits == 0) {
    g.input("b", p.dtype, {p.rows(), p.k});
    return;
  }
  if (fused) g.none("b");
  g.input("input", p.bits == 8 ? DType::kI8 : DType::kU8, {p.rows(), p.k * p.bits / 8})
      .input("scale", p.dtype, {p.rows(), p.k / p.group})
      .none("zero_point")
      .attr("bits", integer(p.bits));
}

Graph few_rows_graph(const FewRows& p) {
  const bool fused = p.norm || p.gated;
  ExampleGraph g(fused ? "tv::matmul_rows" : p.bits > 0 ? "tv::matmul_quantised" : "tv::matmul");
  g.input("a", p.dtype, {p.m, p.k});
  add_matrix(p, fused, g);
  if (fused) g.attr("n", integer(p.n)).attr("gated", p.gated).attr("swapped", false);
  if (p.norm) g.attr("eps", 1e-5).input("weight", p.dtype, {p.k});
  Graph graph = g.output(p.dtype, {p.m, p.n}).graph();
  Node& node = graph.nodes[0];
  if (!fused && p.bits == 0) {
    node.args[1].values[0] = graph.add_value({.name = "turned",
                                              .dtype = p.dtype,
                                              .shape = {p.k, p.n},
                                              .kind = ValueKind::kNode,
                                              .view = View{graph.inputs[1], Expr(0), {1, p.k}}});
  }
  if (p.norm) {
    node.prologue = product_program(p.dtype);
    node.prologue_inputs = {node.input("a"), node.input("weight")};
    node.prologue_shape = {Expr(p.k)};
    node.args.pop_back();
  }
  if (p.gated) node.program = product_program(p.dtype);
  return graph;
}

double few_rows_at(const FewRows& p, const Numbers& in, int64_t index) {
  const int64_t m = index / p.n, n = index % p.n;
  const double* a = in[0].data() + m * p.k;
  double squares = 0;
  for (int64_t k = 0; k < p.k; ++k) squares += a[k] * a[k];
  const double inverse = p.norm ? 1 / std::sqrt(squares / static_cast<double>(p.k) + 1e-5) : 1;
  const auto weight = [&](int64_t row, int64_t k) {
    const auto at = static_cast<size_t>(row * p.k + k);
    if (p.bits == 0) return in[1][at];
    const double scale = in[2][at / static_cast<size_t>(p.group)];
    if (p.bits == 8) return in[1][at] * scale;
    const auto both = static_cast<uint8_t>(in[1][at / 2]);
    return ((k % 2 == 0 ? both & 15 : both >> 4) - 8) * scale;
  };
  const auto sum = [&](int64_t row) {
    double total = 0;
    for (int64_t k = 0; k < p.k; ++k) {
      total += a[k] * inverse * (p.norm ? in.back()[static_cast<size_t>(k)] : 1) * weight(row, k);
    }
    return total;
  };
  return p.gated ? sum(n) * sum(n + p.n) : sum(n);
}

Problem few_rows(const FewRows& p) {
  const double elements = static_cast<double>(p.rows() * p.k);
  const double scales = p.bits > 0 ? elements / static_cast<double>(p.group) : 0;
  const auto size = static_cast<double>(size_bytes(p.dtype));
  return {few_rows_graph(p),
          elements * (p.bits > 0 ? static_cast<double>(p.bits) / 8 : size) + scales * size,
          2 * elements * static_cast<double>(p.m),
          [p](const Numbers& in, int64_t i) { return few_rows_at(p, in, i); },
          3};  // bytes of weights shall differ
}

/// The fields of a problem's text behind its name: numbers, a dtype, words.
struct Fields {
  std::vector<std::string> texts;

  int64_t number(size_t i) const { return static_cast<int64_t>(std::stoll(texts.at(i))); }
  DType dtype(size_t i) const { return dtype_from_name(texts.at(i)); }
  bool has(const char* word) const { return std::ranges::find(texts, word) != texts.end(); }
};

Problem attention(const Fields& f) {
  const Heads h{f.number(1), f.number(2), f.number(3), f.has("causal")};
  const int64_t heads = f.number(0);
  const DType dtype = f.dtype(4);
  const Shape q{1, heads, h.queries, h.d}, k{1, heads, h.keys, h.d};
  const double pairs = static_cast<double>(heads * h.queries * h.keys) * (h.causal ? 0.5 : 1);
  return {ExampleGraph("tv::attention")
              .input("query", dtype, q)
              .input("key", dtype, k)
              .input("value", dtype, k)
              .none("mask")
              .attr("is_causal", h.causal)
              .attr("rows", std::string("softmax"))
              .attr("scale", 0.125)
              .output(dtype, q)
              .graph(),
          static_cast<double>(2 * heads * (h.queries + h.keys) * h.d * size_bytes(dtype)),
          4.0 * pairs * static_cast<double>(h.d),
          [h](const Numbers& in, int64_t i) { return attention_at(h, in, i); }};
}

Problem of_elements(const std::string& op, const Fields& f) {
  const int64_t count = f.number(0);
  const DType dtype = f.dtype(1);
  const size_t inputs = op == "add" ? 2 : 1;
  const double bytes =
      static_cast<double>(count * size_bytes(dtype)) * static_cast<double>(inputs + 1);
  return {pointwise(op, dtype, std::vector<Shape>(inputs, Shape{count})), bytes, 0,
          [inputs](const Numbers& in, int64_t i) {
            const auto at = static_cast<size_t>(i);
            return inputs == 2 ? in[0][at] + in[1][at] : std::max(in[0][at], 0.0);
          }};
}

Problem with_bias(int64_t rows, int64_t columns, DType dtype) {
  return {pointwise("add", dtype, {{rows, columns}, {columns}}),
          static_cast<double>(2 * rows * columns * size_bytes(dtype)), 0,
          [columns](const Numbers& in, int64_t i) {
            return in[0][static_cast<size_t>(i)] + in[1][static_cast<size_t>(i % columns)];
          }};
}

Graph row_graph(const std::string& op, int64_t rows, int64_t columns, DType dtype) {
  const Shape shape{rows, columns};
  if (op == "softmax") {
    return ExampleGraph("aten::_softmax")
        .input("self", dtype, shape)
        .attr("dim", integer(-1))
        .attr("half_to_float", false)
        .output(dtype, shape)
        .graph();
  }
  if (op == "layer_norm") {
    return ExampleGraph("aten::native_layer_norm")
        .input("input", dtype, shape)
        .attr("normalized_shape", ints({columns}))
        .input("weight", dtype, {columns})
        .input("bias", dtype, {columns})
        .attr("eps", 1e-5)
        .output(dtype, shape)
        .graph();
  }
  return ExampleGraph("tv::reduce")
      .input("self", dtype, shape)
      .attr("kind", std::string("sum"))
      .attr("dims", ints({1}))
      .output(dtype, {rows})
      .graph();
}

Problem of_rows(const std::string& op, int64_t rows, int64_t columns, DType dtype) {
  const double read = static_cast<double>(rows * columns * size_bytes(dtype));
  return {row_graph(op, rows, columns, dtype), op == "sum" ? read : 2 * read, 0,
          [op, columns](const Numbers& in, int64_t i) { return row_at(op, columns, in, i); }};
}

Problem parse(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string op = text.substr(0, colon);
  const Fields f{split(text.substr(colon + 1), ',')};
  if (op == "attention") return attention(f);
  if (op == "rows") {
    return few_rows({f.number(0), f.number(1), f.number(2), f.number(3), f.number(4), f.dtype(5),
                     f.has("norm"), f.has("gated")});
  }
  if (op == "relu" || op == "add") return of_elements(op, f);
  const int64_t rows = f.number(0), columns = f.number(1);
  const DType dtype = f.dtype(2);
  if (op == "transpose") return transpose(rows, columns, dtype);
  if (op == "bias") return with_bias(rows, columns, dtype);
  if (op == "softmax" || op == "layer_norm" || op == "sum")
    return of_rows(op, rows, columns, dtype);
  throw std::runtime_error("no such problem: " + text);
}

struct Options {
  std::vector<std::string> prefixes;
  bool times = true, list = false, json = false;
  size_t first = SIZE_MAX;
};

/// max |out - ref| / max |ref| of samples; infinite where any number is missing.
double error_of(const Problem& problem, const Numbers& inputs, const std::vector<double>& out) {
  constexpr int64_t kSamples = 400;
  const auto count = static_cast<int64_t>(out.size());
  double error = 0, largest = 0;
  for (int64_t s = 0; s < kSamples; ++s) {
    const int64_t index = s * 1000003 % count;
    const double want = problem.reference(inputs, index);
    error = std::max(error, std::abs(out[static_cast<size_t>(index)] - want));
    largest = std::max(largest, std::abs(want));
  }
  const bool whole = std::all_of(out.begin(), out.end(), [](double v) { return std::isfinite(v); });
  return whole ? error / largest : INFINITY;
}

void print(const std::string& text, const Problem& problem, const std::string& tactic, double us,
           double error, bool json) {
  const double gb = us > 0 ? problem.bytes / us * 1e-3 : 0,
               tflops = us > 0 ? problem.flops / us * 1e-6 : 0;
  if (json) {
    const Json::Object line = {{"problem", text}, {"tactic", tactic}, {"us", us},
                               {"gb_s", gb},      {"tflops", tflops}, {"error", error}};
    std::printf("%s\n", Json(line).dump().c_str());
  } else {
    std::printf("   %-34s %10.2f us %8.1f GB/s %7.1f TFLOP/s  err %.1e\n", tactic.c_str(), us, gb,
                tflops, error);
  }
  std::fflush(stdout);
}

void measure(const std::string& text, const std::shared_ptr<Device>& device,
             const DeviceProfile& profile, const Options& options) {
  if (!options.json) std::printf("== %s\n", text.c_str());
  const Problem problem = parse(text);
  TacticRun run(problem.graph, device, profile, problem.spread);
  const Numbers inputs = run.inputs();
  size_t left = options.first;
  for (const CandidateTactic& tactic : run.tactics()) {
    bool named = options.prefixes.empty();
    for (const std::string& prefix : options.prefixes) named |= tactic.name.starts_with(prefix);
    if (!named) continue;
    if (!tactic.refusal.empty() || options.list) {
      if (!options.json) std::printf("   %-34s %s\n", tactic.name.c_str(), tactic.refusal.c_str());
      continue;
    }
    if (left-- == 0) break;
    try {
      const double error = error_of(problem, inputs, run.outputs(tactic.name).at(0));
      print(text, problem, tactic.name, options.times ? run.time_us(tactic.name) : 0, error,
            options.json);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "   %-34s FAILED: %s\n", tactic.name.c_str(), e.what());
    }
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
    } else if (arg == "--json") {
      options.json = true;
    } else if (arg == "--first" && i + 1 < argc) {
      options.first = std::stoul(argv[++i]);
    } else if (arg == "--tactic" && i + 1 < argc) {
      options.prefixes.emplace_back(argv[++i]);
    } else {
      measure(arg, device, used, options);
    }
  }
  return 0;
}
