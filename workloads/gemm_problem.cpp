#include "workloads/gemm_problem.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "converters/kit/steps.h"
#include "csrc/compile/compile.h"
#include "csrc/lowering/tactics.h"
#include "csrc/passes/layouts/choose_layouts.h"
#include "csrc/passes/simplify/canonicalise.h"

namespace tv::test {

namespace {

/// Uniform bits, fast: generating numbers must not take longer than the products.
class Random {
 public:
  explicit Random(uint32_t seed) : state_(seed * 2654435761U + 1) {}
  double uniform() {  // [0, 1)
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<double>(state_ >> 40) * 0x1p-24;
  }
  /// Nearly normal: the sum of four uniform numbers.
  double normal() { return (uniform() + uniform() + uniform() + uniform() - 2.0) * 1.7320508; }

 private:
  uint64_t state_;
};

double gelu(double x) { return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))); }

}  // namespace

std::string GemmProblem::str() const {
  return (batch > 1 ? std::to_string(batch) + " x " : "") + std::to_string(m) + "x" +
         std::to_string(n) + "x" + std::to_string(k) + " " + std::string(name(dtype)) +
         (a_transposed ? " at" : "") + (b_transposed ? " bt" : "") +
         (constant_b ? " constant b" : " dynamic b") + (shared_b || batch == 1 ? "" : " own b") +
         (epilogue ? " +bias+gelu" : "") + (positive != 0 ? " positive" : "") +
         (spread != 0 ? " spread " + std::to_string(spread) : "");
}

Graph GemmProblem::graph() const {
  Graph g;
  g.name = "gemm";
  const auto leaf = [&](std::vector<ValueId>& list, const char* name, Shape shape, ValueKind kind) {
    const ValueId id = g.add_value({.name = name,
                                    .dtype = dtype,
                                    .shape = std::move(shape),
                                    .kind = kind,
                                    .view = std::nullopt});
    list.push_back(id);
    return id;
  };
  const auto node = [&](const char* op, std::vector<Arg> args, Shape shape) {
    Node made;
    made.op = op;
    made.name = std::string(op) + std::to_string(g.nodes.size());
    made.args = std::move(args);
    const ValueId value = g.add_output(made, dtype, std::move(shape));
    g.nodes.push_back(std::move(made));
    return value;
  };
  const auto matrix = [&](bool own, int64_t rows, int64_t cols) {
    return own ? Shape{batch, rows, cols} : Shape{rows, cols};
  };
  const auto transposed = [&](ValueId value, bool own, int64_t rows, int64_t cols) {
    return node("aten::permute",
                {tensor_arg("self", value), attr_arg("dims", own ? ints({0, 2, 1}) : ints({1, 0}))},
                matrix(own, rows, cols));
  };
  const bool own_a = batch > 1, own_b = batch > 1 && !shared_b;
  const ValueKind kind = constant_b ? ValueKind::kWeight : ValueKind::kInput;
  std::vector<ValueId>& list = constant_b ? g.weights : g.inputs;
  ValueId a = leaf(g.inputs, "a", a_transposed ? matrix(own_a, k, m) : matrix(own_a, m, k),
                   ValueKind::kInput);
  ValueId b = leaf(list, "b", b_transposed ? matrix(own_b, n, k) : matrix(own_b, k, n), kind);
  const ValueId bias = epilogue ? leaf(list, "bias", {n}, kind) : kNoValue;
  if (a_transposed) a = transposed(a, own_a, m, k);
  if (b_transposed) b = transposed(b, own_b, k, n);
  ValueId y =
      node("aten::matmul", {tensor_arg("self", a), tensor_arg("other", b)}, matrix(own_a, m, n));
  if (epilogue) {
    y = node("aten::add.Tensor",
             {tensor_arg("self", y), tensor_arg("other", bias), attr_arg("alpha", integer(1))},
             matrix(own_a, m, n));
    y = node("aten::gelu", {tensor_arg("self", y), attr_arg("approximate", std::string("none"))},
             matrix(own_a, m, n));
  }
  g.outputs.push_back({.value = y, .name = "y", .strides = {}});
  return g;
}

std::vector<CandidateTactic> candidate_tactics(const GemmProblem& problem, const Settings& settings,
                                               const DeviceProfile& profile) {
  Graph graph = canonicalise(problem.graph(), settings, profile);
  graph = choose_layouts(std::move(graph), settings, profile);
  const auto product = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                    [](const Node& node) { return node.op == "tv::matmul"; });
  return tactics_of(graph, *product, settings, profile);
}

GemmData::GemmData(const GemmProblem& problem, uint32_t seed) : p_(problem) {
  Random random(seed);
  const auto fill = [&](std::vector<uint8_t>& bytes, int64_t count, double scale) {
    bytes.resize(static_cast<size_t>(count * size_bytes(p_.dtype)));
    for (int64_t i = 0; i < count; ++i) {
      double value = (random.normal() + p_.positive) * scale;
      if (p_.spread != 0) {
        value = std::ldexp(value, static_cast<int>((random.uniform() * 2 - 1) * p_.spread));
      }
      store_number(bytes, i, value, p_.dtype);
    }
  };
  const int64_t matrices_b = p_.shared_b ? 1 : p_.batch;
  fill(a_, p_.batch * p_.m * p_.k, 1);
  fill(b_, matrices_b * p_.k * p_.n, 1 / std::sqrt(static_cast<double>(p_.k)));
  if (p_.epilogue) fill(bias_, p_.n, 0.5);
  y_.resize(static_cast<size_t>(p_.batch * p_.m * p_.n * size_bytes(p_.dtype)));
}

int64_t GemmData::a_index(int64_t z, int64_t m, int64_t k) const {
  return z * p_.m * p_.k + (p_.a_transposed ? k * p_.m + m : m * p_.k + k);
}

int64_t GemmData::b_index(int64_t z, int64_t k, int64_t n) const {
  return (p_.shared_b ? 0 : z * p_.k * p_.n) + (p_.b_transposed ? n * p_.k + k : k * p_.n + n);
}

void GemmData::set_a(int64_t z, int64_t m, int64_t k, float value) {
  store_number(a_, a_index(z, m, k), value, p_.dtype);
}

void GemmData::set_b(int64_t z, int64_t k, int64_t n, float value) {
  store_number(b_, b_index(z, k, n), value, p_.dtype);
}

double GemmData::output(int64_t z, int64_t m, int64_t n) const {
  return element(y_, (z * p_.m + m) * p_.n + n);
}

double GemmData::element(const std::vector<uint8_t>& bytes, int64_t index) const {
  return load_number(bytes, index, p_.dtype);
}

GemmData::Reference GemmData::reference(int64_t index) const {
  const int64_t n = index % p_.n, m = index / p_.n % p_.m, z = index / (p_.n * p_.m);
  Reference r;
  for (int64_t k = 0; k < p_.k; ++k) {
    const double product = element(a_, a_index(z, m, k)) * element(b_, b_index(z, k, n));
    r.value += product;
    r.products += std::abs(product);
  }
  if (p_.epilogue) r.value = gelu(r.value + element(bias_, n));
  return r;
}

double GemmData::plain_error() const {
  double error = 0, all = 0;
  for (int64_t i = 0; i < p_.batch * p_.m * p_.n; ++i) {
    const int64_t n = i % p_.n, m = i / p_.n % p_.m, z = i / (p_.n * p_.m);
    float sum = 0;
    for (int64_t k = 0; k < p_.k; ++k) {
      sum += static_cast<float>(element(a_, a_index(z, m, k))) *
             static_cast<float>(element(b_, b_index(z, k, n)));
    }
    const double off = static_cast<double>(sum) - reference(i).value;
    error += off * off;
    all += reference(i).value * reference(i).value;
  }
  return std::sqrt(error / all);
}

std::vector<HostTensor> GemmData::inputs() {
  std::vector<HostTensor> list = {host_tensor(a_)};
  if (!p_.constant_b) list.push_back(host_tensor(b_));
  if (!p_.constant_b && p_.epilogue) list.push_back(host_tensor(bias_));
  return list;
}

std::vector<HostTensor> GemmData::weights() {
  std::vector<HostTensor> list;
  if (p_.constant_b) list.push_back(host_tensor(b_));
  if (p_.constant_b && p_.epilogue) list.push_back(host_tensor(bias_));
  return list;
}

GemmData::Errors GemmData::run(const std::shared_ptr<Engine>& engine, int64_t samples) {
  return run(call_of(engine), samples);
}

GemmData::Errors GemmData::run(const TensorCall& call, int64_t samples) {
  std::fill(y_.begin(), y_.end(), uint8_t{0xff});  // NaN, where something is left out
  call(weights(), inputs(), std::vector<HostTensor>{host_tensor(y_)});
  const int64_t outputs = p_.batch * p_.m * p_.n, count = std::min(samples, outputs);
  Errors e;
  double largest = 0, worst = 0, error_sum = 0, sum = 0;
  for (int64_t s = 0; s < count; ++s) {
    // Steps that no tile divides; every output where that many are wanted.
    const int64_t index = count == outputs ? s : s * 1000003 % outputs;
    const Reference want = reference(index);
    const double error = std::abs(element(y_, index) - want.value);
    worst = std::isfinite(error) ? std::max(worst, error) : INFINITY;
    if (want.products > 0) e.products = std::max(e.products, error / want.products);
    largest = std::max(largest, std::abs(want.value));
    error_sum += error * error;
    sum += want.value * want.value;
  }
  e.largest = worst / largest;
  e.norm = std::sqrt(error_sum / sum);
  for (int64_t i = 0; i < outputs; ++i) {
    if (!std::isfinite(element(y_, i))) e.largest = e.norm = e.products = INFINITY;
  }
  return e;
}

namespace {

/// `spec` with its inputs as weights and its outputs in the arena, so that a call copies nothing,
/// and its dispatches `repeats` times.
EngineSpec without_copies(EngineSpec spec, int repeats) {
  for (Buffer& buffer : spec.buffers) {
    if (buffer.kind == BufferKind::kInput) {
      buffer.kind = BufferKind::kWeight;
      buffer.index += static_cast<uint32_t>(spec.weights.size());
    } else if (buffer.kind == BufferKind::kOutput) {
      buffer.kind = BufferKind::kArena;
      buffer.index = 0;
    }
  }
  spec.weights.insert(spec.weights.end(), spec.inputs.begin(), spec.inputs.end());
  spec.inputs.clear();
  spec.outputs.clear();
  const std::vector<Dispatch> once = spec.dispatches;
  for (int i = 1; i < repeats; ++i) {
    spec.dispatches.insert(spec.dispatches.end(), once.begin(), once.end());
  }
  return spec;
}

}  // namespace

double GemmData::time_us(const std::shared_ptr<Device>& device, const EngineSpec& spec) {
  std::vector<HostTensor> leaves = weights();
  for (const HostTensor& t : inputs()) leaves.push_back(t);
  struct Sequence {
    std::shared_ptr<Engine> engine;
    std::shared_ptr<const WeightSet> prepared;
    double best = INFINITY;
  };
  const auto sequence = [&](int repeats) {
    Sequence s{.engine = Engine::create(device, without_copies(spec, repeats))};
    s.prepared = s.engine->prepare_weights(leaves);
    return s;
  };
  const auto run = [](Sequence& s) {
    const auto start = std::chrono::steady_clock::now();
    s.engine->run(*s.prepared, {}, {}, {});
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    s.best = std::min(s.best, took.count());
    return took.count();
  };
  Sequence first = sequence(4);
  run(first);
  const double guess = std::max(1.0, run(first) / 4);
  const int repeats = static_cast<int>(std::clamp(2000.0 / guess, 3.0, 300.0));
  // In alternation, and not before an idle device has raised its clocks: else one of the two may
  // see another device than the other.
  Sequence few = sequence(repeats), many = sequence(4 * repeats);
  constexpr double kWarmUp = 50e3;
  for (double total = 0; total < kWarmUp;) total += run(many);
  few.best = many.best = INFINITY;
  for (int i = 0; i < 8; ++i) {
    run(few);
    run(many);
  }
  return (many.best - few.best) / (3 * repeats);
}

}  // namespace tv::test
