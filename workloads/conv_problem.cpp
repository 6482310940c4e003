#include "workloads/conv_problem.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "converters/kit/steps.h"
#include "csrc/codegen/kernel.h"
#include "csrc/compile/compile.h"
#include "csrc/lowering/requests.h"
#include "csrc/lowering/tactics.h"

namespace tv::test {

namespace {

/// The best of `runs` calls, in microseconds.
double best_us(Engine& engine, const WeightSet& weights, const std::vector<HostTensor>& inputs,
               const std::vector<HostTensor>& outputs, int runs) {
  double best = INFINITY;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    engine.run(weights, {}, inputs, outputs);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

class ConvGraph {
 public:
  explicit ConvGraph(const ConvProblem& problem)
      : p_(problem), rank_(problem.kd != 0 ? 3 : 2), out_(spatial({p_.n, p_.oc}, out_sizes())) {}

  Graph make() {
    g_.name = "conv";
    const ValueId x = add_input();
    add_convolution(x);
    if (residual_ != kNoValue) {
      add("aten::add.Tensor",
          {tensor_arg("self", y_), tensor_arg("other", residual_), attr_arg("alpha", integer(1))});
    }
    if (p_.silu) add("aten::silu", {tensor_arg("self", y_)});
    if (p_.relu) add("aten::relu", {tensor_arg("self", y_)});
    if (p_.y_last) add_channels_last();
    g_.outputs.push_back({.value = y_, .name = "y", .strides = {}});
    return std::move(g_);
  }

 private:
  std::array<int64_t, 3> out_sizes() const { return {p_.od(), p_.oh(), p_.ow()}; }

  /// The shape, and as many of the last sizes as there are dimensions.
  Shape spatial(Shape shape, std::array<int64_t, 3> sizes) const {
    shape.insert(shape.end(), sizes.begin() + (3 - rank_), sizes.end());
    return shape;
  }

  ValueId leaf(std::vector<ValueId>& list, const char* name, Shape shape, ValueKind kind) {
    const ValueId id = g_.add_value({.name = name,
                                     .dtype = p_.dtype,
                                     .shape = std::move(shape),
                                     .kind = kind,
                                     .view = std::nullopt});
    list.push_back(id);
    return id;
  }

  ValueId add_input() {
    const Shape shape = spatial({p_.n, p_.ic}, {p_.d, p_.h, p_.w});
    if (!p_.last) return leaf(g_.inputs, "x", shape, ValueKind::kInput);
    Shape last = spatial({p_.n}, {p_.d, p_.h, p_.w});
    last.emplace_back(p_.ic);
    const ValueId x = leaf(g_.inputs, "x", last, ValueKind::kInput);
    const int64_t line = p_.w * p_.ic, plane = p_.h * line;
    return g_.add_value(
        {.name = "x_view",
         .dtype = p_.dtype,
         .shape = shape,
         .kind = ValueKind::kNode,
         .view = View{x, Expr(0), spatial({p_.d * plane, 1}, {plane, line, p_.ic})}});
  }

  void add_convolution(ValueId x) {
    const ValueKind kind = p_.constant_weight ? ValueKind::kWeight : ValueKind::kInput;
    std::vector<ValueId>& list = p_.constant_weight ? g_.weights : g_.inputs;
    const ValueId w =
        leaf(list, "w", spatial({p_.oc, p_.ic / p_.groups}, {p_.kd, p_.kh, p_.kw}), kind);
    const ValueId bias = p_.bias ? leaf(list, "b", {p_.oc}, kind) : kNoValue;
    if (p_.residual) residual_ = leaf(g_.inputs, "r", out_, ValueKind::kInput);
    const auto each = [&](int64_t value) { return ints(std::vector<int64_t>(rank_, value)); };
    Node conv;
    conv.op = "aten::convolution";
    conv.name = "conv";
    conv.args = {tensor_arg("input", x),
                 tensor_arg("weight", w),
                 tensor_arg("bias", bias),
                 attr_arg("stride", each(p_.stride)),
                 attr_arg("padding", each(p_.pad)),
                 attr_arg("dilation", each(p_.dilation)),
                 attr_arg("transposed", false),
                 attr_arg("output_padding", each(0)),
                 attr_arg("groups", integer(p_.groups))};
    push(std::move(conv), out_);
  }

  void add(const char* op, std::vector<Arg> args) {
    Node node;
    node.op = node.name = op;
    node.args = std::move(args);
    push(std::move(node), out_);
  }

  void add_channels_last() {
    std::vector<int64_t> dims = {0};
    Shape by_pixels = {out_[0]};
    for (size_t d = 2; d < out_.size(); ++d) {
      dims.push_back(static_cast<int64_t>(d));
      by_pixels.push_back(out_[d]);
    }
    dims.push_back(1);
    by_pixels.push_back(out_[1]);
    Node node;
    node.op = node.name = "aten::permute";
    node.args = {tensor_arg("self", y_), attr_arg("dims", ints(dims))};
    push(std::move(node), by_pixels);
  }

  void push(Node node, const Shape& shape) {
    y_ = g_.add_output(node, p_.dtype, shape);
    g_.nodes.push_back(std::move(node));
  }

  const ConvProblem& p_;
  const size_t rank_;
  const Shape out_;
  Graph g_;
  ValueId y_ = kNoValue, residual_ = kNoValue;  ///< `y_`: the newest node's
};

}  // namespace

std::string ConvProblem::str() const {
  return std::to_string(n) + "x" + std::to_string(ic) + "x" +
         (kd != 0 ? std::to_string(d) + "x" : "") + std::to_string(h) + "x" + std::to_string(w) +
         " -> " + std::to_string(oc) + " k" + (kd != 0 ? std::to_string(kd) + "x" : "") +
         std::to_string(kh) + "x" + std::to_string(kw) + " s" + std::to_string(stride) + " p" +
         std::to_string(pad) + (dilation > 1 ? " d" + std::to_string(dilation) : "") +
         (groups > 1 ? " g" + std::to_string(groups) : "") + " " + std::string(name(dtype)) +
         (residual ? " +residual" : "") + (relu ? " +relu" : "") + (silu ? " +silu" : "") +
         (constant_weight ? "" : " dynamic weight") + (last ? " channels last" : "") +
         (y_last ? " to channels last" : "") +
         (spread > 0 ? " spread " + std::to_string(spread) : "");
}

Graph ConvProblem::graph() const { return ConvGraph(*this).make(); }

std::vector<CandidateTactic> candidate_tactics(const ConvProblem& problem, const Settings& settings,
                                               const DeviceProfile& profile) {
  const Graph graph = problem.graph();
  return tactics_of(graph, graph.nodes[0], settings, profile);
}

std::vector<std::pair<std::string, std::string>> kernel_texts(const ConvProblem& problem,
                                                              const Settings& settings,
                                                              const DeviceProfile& profile) {
  const Graph graph = problem.graph();
  ValueTable table(graph);
  std::vector<std::pair<std::string, std::string>> texts;
  for (const Tactic& t : convert_node(graph.nodes[0], table, profile, settings).candidates) {
    for (size_t i = 0; i < t.steps.size(); ++i) {
      const StepRequest request = make_request(graph.nodes[0], t.steps[i], table);
      texts.emplace_back(t.name + "." + std::to_string(i),
                         generate_kernel(request.kernel, settings, profile).glsl);
    }
  }
  return texts;
}

std::vector<Candidate> candidates(const ConvProblem& problem, const std::shared_ptr<Device>& device,
                                  const Settings& settings, const DeviceProfile& profile,
                                  const std::vector<std::string>& prefixes, size_t first) {
  std::vector<Candidate> list;
  for (const CandidateTactic& t : candidate_tactics(problem, settings, profile)) {
    const bool wanted = prefixes.empty() ||
                        std::any_of(prefixes.begin(), prefixes.end(),
                                    [&](const std::string& p) { return t.name.starts_with(p); });
    if (!wanted) continue;
    if (t.refusal.empty() && first-- == 0) break;
    list.push_back({.name = t.name, .problem = t.refusal});
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < list.size(); i = next++) {
      Candidate& c = list[i];
      if (!c.problem.empty()) continue;
      try {
        c.spec = compile_with_tactic(problem.graph(), c.name, settings, profile);
        c.engine = Engine::create(device, c.spec);
      } catch (const std::exception& e) {
        c.problem = e.what();
        c.failed = true;
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  return list;
}

ConvData::ConvData(const ConvProblem& problem, uint32_t seed) : p_(problem) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> power(-p_.spread, p_.spread);
  const auto fill = [&](std::vector<uint8_t>& bytes, int64_t count, double scale) {
    bytes.resize(static_cast<size_t>(count * size_bytes(p_.dtype)));
    for (int64_t i = 0; i < count; ++i) {
      const double v = normal(random) * scale + p_.positive * scale;
      store_number(bytes, i, p_.spread > 0 ? std::ldexp(v, power(random)) : v, p_.dtype);
    }
  };
  const int64_t outputs = p_.outputs();
  fill(x_, p_.n * p_.ic * p_.d * p_.h * p_.w, 1);
  fill(w_, p_.oc * p_.k(), 1 / std::sqrt(static_cast<double>(p_.k())));
  if (p_.bias) fill(bias_, p_.oc, 0.5);
  if (p_.residual) fill(residual_, outputs, 1);
  y_.resize(static_cast<size_t>(outputs * size_bytes(p_.dtype)));
}

double ConvData::element(const std::vector<uint8_t>& bytes, int64_t index) const {
  return load_number(bytes, index, p_.dtype);
}

int64_t ConvData::x_index(int64_t n, int64_t c, Place at) const {
  const int64_t outer = p_.last ? n : n * p_.ic + c;
  const int64_t pixel = ((outer * p_.d + at.d) * p_.h + at.h) * p_.w + at.w;
  return p_.last ? pixel * p_.ic + c : pixel;
}

int64_t ConvData::y_index(int64_t index) const {
  if (!p_.y_last) return index;
  const int64_t pixels = p_.od() * p_.oh() * p_.ow(), plane = index / pixels;
  return (plane / p_.oc * pixels + index % pixels) * p_.oc + plane % p_.oc;
}

template <typename T, bool kSizes>
T ConvData::sum_of(int64_t index) const {
  const auto term = [](T v) { return kSizes ? std::abs(v) : v; };
  const int64_t ow = index % p_.ow(), oh = index / p_.ow() % p_.oh();
  const int64_t volume = index / (p_.ow() * p_.oh()), od = volume % p_.od();
  const int64_t oc = volume / p_.od() % p_.oc, n = volume / (p_.od() * p_.oc);
  const int64_t ic_count = p_.ic / p_.groups, first = oc / (p_.oc / p_.groups) * ic_count;
  const auto source = [&](int64_t out, int64_t tap) {
    return out * p_.stride - p_.pad + tap * p_.dilation;
  };
  T sum = p_.bias ? term(static_cast<T>(element(bias_, oc))) : T{0};
  for (int64_t k = 0; k < p_.k(); ++k) {
    const int64_t kw = k % p_.kw, kh = k / p_.kw % p_.kh, kd = k / (p_.kw * p_.kh);
    const int64_t depth = p_.taps() / (p_.kw * p_.kh), ic = kd / depth;
    const Place at{p_.kd != 0 ? source(od, kd % depth) : 0, source(oh, kh), source(ow, kw)};
    if (at.d < 0 || at.d >= p_.d || at.h < 0 || at.h >= p_.h || at.w < 0 || at.w >= p_.w) continue;
    sum += term(static_cast<T>(element(x_, x_index(n, first + ic, at))) *
                static_cast<T>(element(w_, oc * p_.k() + k)));
  }
  if (p_.residual) sum += term(static_cast<T>(element(residual_, index)));
  if (p_.silu) sum /= T{1} + std::exp(-sum);
  return p_.relu ? std::max(sum, T{0}) : sum;
}

double ConvData::plain_error() const {
  double error = 0, all = 0;
  for (int64_t i = 0; i < p_.outputs(); ++i) {
    const double want = reference(i), off = static_cast<double>(sum_of<float>(i)) - want;
    error += off * off;
    all += want * want;
  }
  return std::sqrt(error / all);
}

std::vector<HostTensor> ConvData::inputs() {
  std::vector<HostTensor> list = {host_tensor(x_)};
  if (!p_.constant_weight) list.push_back(host_tensor(w_));
  if (!p_.constant_weight && p_.bias) list.push_back(host_tensor(bias_));
  if (p_.residual) list.push_back(host_tensor(residual_));
  return list;
}

std::vector<HostTensor> ConvData::weights() {
  std::vector<HostTensor> list;
  if (p_.constant_weight) list.push_back(host_tensor(w_));
  if (p_.constant_weight && p_.bias) list.push_back(host_tensor(bias_));
  return list;
}

void ConvData::set_x(int64_t n, int64_t c, int64_t h, int64_t w, float value) {
  store_number(x_, x_index(n, c, {0, h, w}), value, p_.dtype);
}

void ConvData::call(const TensorCall& call) {
  std::fill(y_.begin(), y_.end(), uint8_t{0xff});  // NaN, where something is left out
  call(weights(), inputs(), std::vector<HostTensor>{host_tensor(y_)});
}

int64_t ConvData::not_finite(const std::shared_ptr<Engine>& engine) {
  return not_finite(call_of(engine));
}

int64_t ConvData::not_finite(const TensorCall& tensor_call) {
  call(tensor_call);
  int64_t count = 0;
  for (int64_t i = 0; i < p_.outputs(); ++i) {
    if (!std::isfinite(element(y_, i))) ++count;
  }
  return count;
}

ConvData::Errors ConvData::run(const std::shared_ptr<Engine>& engine, int64_t samples) {
  return run(call_of(engine), samples);
}

ConvData::Errors ConvData::run(const TensorCall& tensor_call, int64_t samples) {
  call(tensor_call);
  const int64_t outputs = p_.outputs();
  Errors e;
  e.samples = std::min(samples, outputs);
  double largest = 0, error_sum = 0, sum = 0, worst = 0;
  for (int64_t s = 0; s < e.samples; ++s) {
    // Steps that no tile divides; every output where that many are wanted.
    const int64_t index = e.samples == outputs ? s : s * 1000003 % outputs;
    const double want = reference(index), error = std::abs(element(y_, y_index(index)) - want);
    worst = std::isfinite(error) ? std::max(worst, error) : INFINITY;
    largest = std::max(largest, std::abs(want));
    error_sum += error * error;
    sum += want * want;
    if (error > 0) e.of_terms = std::max(e.of_terms, error / sum_of<double, true>(index));
  }
  e.largest = worst / largest;
  e.norm = std::sqrt(error_sum / sum);
  // Every output is written: what is not keeps its NaN.
  for (int64_t i = 0; i < outputs; ++i) {
    if (!std::isfinite(element(y_, i))) e.largest = e.norm = e.of_terms = INFINITY;
  }
  return e;
}

double ConvData::time_us(const std::shared_ptr<Device>& device, const EngineSpec& spec) {
  const auto timed = [&](int repeats, int runs) {
    EngineSpec repeated = spec;
    repeated.dispatches.clear();
    for (int i = 0; i < repeats; ++i) {
      repeated.dispatches.insert(repeated.dispatches.end(), spec.dispatches.begin(),
                                 spec.dispatches.end());
    }
    const auto engine = Engine::create(device, std::move(repeated));
    const auto prepared = engine->prepare_weights(weights());
    const std::vector<HostTensor> in = inputs(), out = {host_tensor(y_)};
    engine->run(*prepared, {}, in, out);
    return best_us(*engine, *prepared, in, out, runs);
  };
  const int repeats = profile(*device).is_cpu() ? 4 : 100;
  const double one = timed(1, 10);
  return (timed(1 + repeats, 5) - one) / repeats;
}

}  // namespace tv::test
