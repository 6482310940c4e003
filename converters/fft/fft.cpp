// Fourier transforms along one dimension: tv::fft, which fft_aten.cpp makes ATen's of. Complex
// values are pairs of floats here (docs/design/0010-complex-values.md).

#include "converters/fft/fft.h"

#include <algorithm>
#include <map>

#include "converters/kit/steps.h"

namespace tv {
namespace {

constexpr int64_t kLargestSum = 61;  // prime factors up to here are summed by their definition
constexpr int64_t kLargestDirect = 1024;

/// One transform of `n` elements along lines, and what its kernels read and write.
struct Lines {
  ValueId x = kNoValue, y = kNoValue;
  FftKind in = FftKind::kComplex, out = FftKind::kComplex;
  Expr n, n_in, n_out, outer, inner;
  bool forward = true;
  int64_t norm = 0;
  Expr count = 1;

  Step step(const std::string& kernel) const {
    Step s{.kernel = kernel,
           .defines = {{"IN", std::to_string(static_cast<int>(in))},
                       {"OUT", std::to_string(static_cast<int>(out))},
                       {"NORM", std::to_string(norm)},
                       {"FORWARD", forward ? "1" : "0"}},
           .operands = {dst("y", y)},
           .params = {param("n", n), param("n_in", n_in), param("n_out", n_out),
                      param("inner", inner), param("count", count)}};
    if (in != FftKind::kNone) s.operands.push_back(src("x", x));
    return s;
  }
};

/// A launch with one invocation for each of `count`, called `name` in the kernel.
Step one_for_each(Step step, const std::string& name, const Expr& count) {
  step.params.push_back(param(name, count));
  step.local_size = {64, 1, 1};
  step.grid = one_each(count, 64);
  return step;
}

Lines lines_of(const NodeContext& c) {
  Lines l{.x = c.node.input("self"), .y = c.node.outputs[0]};
  l.in = static_cast<FftKind>(c.node.integer("in"));
  l.out = static_cast<FftKind>(c.node.integer("out"));
  l.n = c.node.expr("length");
  l.forward = c.node.flag("forward");
  l.norm = c.node.integer("norm");
  l.count = c.node.expr("count");
  const int64_t dim = c.node.integer("dim");
  const auto split = [&](Shape shape, FftKind kind) {
    if (kind != FftKind::kReal) shape.pop_back();
    return split_at(shape, dim);
  };
  const DimSplit from = split(c.shape("self"), l.in);
  l.n_in = from.size;
  l.outer = from.outer;
  l.inner = from.inner;
  l.n_out = split(c.output().shape, l.out).size;
  return l;
}

/// 4 · 4 · … · 2 · 3 · 5 · …, prime factors ascending.
std::vector<int64_t> radices(int64_t n) {
  std::vector<int64_t> found;
  for (; n % 4 == 0; n /= 4) found.push_back(4);
  for (int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) found.push_back(p);
  }
  if (n > 1) found.push_back(n);
  return found;
}

bool is_small(int64_t radix) { return radix <= 13; }

class Maker {
 public:
  explicit Maker(Builder& b) : b_(b) {}

  /// Passes over all of the data, one for each radix.
  std::vector<Step> passes(const Lines& whole, const std::string& prefix) {
    const int64_t n = *whole.n.constant();
    std::vector<Step> steps;
    const ValueId w = table(steps, prefix + "roots", whole.n, false);
    const std::vector<int64_t> sizes = radices(n);
    int64_t done = 1;
    for (size_t i = 0; i < sizes.size(); ++i) {
      Lines pass = whole;
      if (i > 0) {
        pass.x = spare(prefix, (i - 1) % 2, whole, whole.n);
        pass.in = FftKind::kComplex;
        pass.n_in = whole.n;
      }
      if (i + 1 < sizes.size()) {
        pass.y = spare(prefix, i % 2, whole, whole.n);
        pass.out = FftKind::kComplex;
        pass.n_out = whole.n;
        pass.norm = 0;
      }
      steps.push_back(one_pass(pass, w, sizes[i], done));
      done *= sizes[i];
    }
    return steps;
  }

  /// By the definition, whatever the length.
  std::vector<Step> direct(const Lines& lines) {
    std::vector<Step> steps;
    const ValueId w = table(steps, "direct_roots", lines.n, false);
    steps.push_back(sum(lines, w, lines.n, 1));
    return steps;
  }

  /// Lines in shared memory.
  std::vector<Step> shared(const Lines& lines, int64_t lines_a_group) {
    const int64_t n = *lines.n.constant();
    std::vector<Step> steps;
    const ValueId w = table(steps, "shared_roots", lines.n, false);
    Step step = lines.step("fft_shared");
    std::string text;
    int64_t done = 1, at = 0;
    for (const int64_t radix : radices(n)) {
      text += "PASS(" + std::to_string(radix) + ", " + std::to_string(done) + ", " +
              std::to_string(at) + ", " + std::to_string(1 - at) + ") ";
      done *= radix;
      at = 1 - at;
    }
    step.defines.insert(step.defines.end(), {{"N", std::to_string(n)},
                                             {"LINES", std::to_string(lines_a_group)},
                                             {"PASSES", text},
                                             {"LAST", std::to_string(at)}});
    step.operands.push_back(src("w", w));
    const Expr count = lines.outer * lines.inner;
    step.params.push_back(param("lines", count));
    step.local_size = {256, 1, 1};
    step.grid = Grid::flat_groups(ceil_div(count, lines_a_group));
    steps.push_back(std::move(step));
    return steps;
  }

  /// Bluestein's convolution: the lines times a chirp, convolved with a filter by transforms of a
  /// power of two, and times the chirp again.
  std::vector<Step> convolution(const Lines& lines) {
    std::vector<Step> steps;
    Chirp chirp{.roots = table(steps, "chirp", lines.n, true)};
    while (chirp.size < 2 * *lines.n.constant() - 1) chirp.size *= 2;
    const ValueId filter = add_filter(steps, lines.n, chirp);

    const Expr all = lines.outer * chirp.size * lines.inner;
    Lines there = over(chirp.size, lines.outer, lines.inner);
    there.x = spare("chirped", 0, lines, chirp.size);
    there.y = spare("chirped", 1, lines, chirp.size);
    Lines first = lines;
    first.y = there.x;
    first.out = FftKind::kComplex;
    first.n_out = chirp.size;
    first.norm = 0;
    steps.push_back(chirp_step(first, ChirpStage::kTimesChirp, chirp, all));
    append(steps, passes(there, "there_"));
    Lines product = there;
    std::swap(product.x, product.y);
    Step multiply = chirp_step(product, ChirpStage::kTimesFilter, chirp, all);
    multiply.operands.push_back(src("f", filter));
    steps.push_back(std::move(multiply));
    Lines back = there;
    back.forward = false;
    append(steps, passes(back, "back_"));
    Lines last = lines;
    last.x = there.y;
    last.in = FftKind::kComplex;
    last.n_in = chirp.size;
    steps.push_back(chirp_step(last, ChirpStage::kLast, chirp, all));
    return steps;
  }

 private:
  struct Chirp {
    ValueId roots = kNoValue;
    int64_t size = 1;  ///< of the transforms that convolve
  };

  /// As fft_chirp.comp numbers them.
  enum class ChirpStage { kFilter, kTimesChirp, kTimesFilter, kLast };

  static Step chirp_step(const Lines& lines, ChirpStage stage, const Chirp& chirp,
                         const Expr& count) {
    Step step = lines.step("fft_chirp");
    step.defines.emplace_back("STAGE", std::to_string(static_cast<int>(stage)));
    step.params.push_back(param("size", chirp.size));
    if (stage != ChirpStage::kTimesFilter) step.operands.push_back(src("c", chirp.roots));
    return one_for_each(std::move(step), "elements", count);
  }

  /// Complex lines of that length.
  static Lines over(int64_t size, const Expr& outer, const Expr& inner) {
    return {.n = size, .n_in = size, .n_out = size, .outer = outer, .inner = inner};
  }

  /// What the lines are convolved with, transformed.
  ValueId add_filter(std::vector<Step>& steps, const Expr& n, const Chirp& chirp) {
    Lines filter = over(chirp.size, 1, 1);
    filter.y = b_.scratch("filter", DType::kF32, {chirp.size, 2});
    filter.in = FftKind::kNone;
    filter.n = n;
    filter.n_in = 1;
    steps.push_back(chirp_step(filter, ChirpStage::kFilter, chirp, chirp.size));
    Lines turned = over(chirp.size, 1, 1);
    turned.x = filter.y;
    turned.y = b_.scratch("filter_turned", DType::kF32, {chirp.size, 2});
    append(steps, passes(turned, "filter_"));
    return turned.y;
  }

  static void append(std::vector<Step>& steps, std::vector<Step> more) {
    std::move(more.begin(), more.end(), std::back_inserter(steps));
  }

  ValueId table(std::vector<Step>& steps, const std::string& name, const Expr& n, bool chirp) {
    const ValueId w = b_.scratch(name, DType::kF32, {n, 2});
    Step step{.kernel = "fft_table",
              .defines = {{"CHIRP", chirp ? "1" : "0"}},
              .operands = {dst("w", w)},
              .iterations = 32};
    steps.push_back(one_for_each(std::move(step), "n", n));
    return w;
  }

  /// One of two temporaries that hold all lines.
  ValueId spare(const std::string& prefix, size_t which, const Lines& lines, const Expr& n) {
    const std::string name = prefix + "spare" + std::to_string(which);
    const auto [it, is_new] = spares_.emplace(name, kNoValue);
    if (is_new) it->second = b_.scratch(name, DType::kF32, {lines.outer, n, lines.inner, 2});
    return it->second;
  }

  Step one_pass(const Lines& lines, ValueId w, int64_t radix, int64_t done) {
    if (!is_small(radix)) return sum(lines, w, radix, done);
    Step step = lines.step("fft_pass");
    step.defines.emplace_back("RADIX", std::to_string(radix));
    step.operands.push_back(src("w", w));
    step.params.push_back(param("done", done));
    step.iterations = 2 * radix + radix * radix;
    return one_for_each(std::move(step), "butterflies",
                        lines.outer * floordiv(lines.n, radix) * lines.inner);
  }

  static Step sum(const Lines& lines, ValueId w, const Expr& radix, const Expr& done) {
    Step step = lines.step("fft_sum");
    step.operands.push_back(src("w", w));
    step.params.push_back(param("radix", radix));
    step.params.push_back(param("done", done));
    step.iterations = radix;
    return one_for_each(std::move(step), "elements", lines.outer * lines.n * lines.inner);
  }

  Builder& b_;
  std::map<std::string, ValueId> spares_;
};

/// In shared memory where a line fits and a workgroup has work: several lines where they are short.
Tactic shared_tactic(const NodeContext& c, Maker& maker, const Lines& lines) {
  Tactic tactic{.name = "fft_shared"};
  const int64_t n = *lines.n.constant(), bytes = 2 * 8 * n;
  const std::vector<int64_t> sizes = radices(n);
  if (n < 2 || !std::all_of(sizes.begin(), sizes.end(), is_small)) {
    tactic.refusal = "a prime factor above 13";
  } else if (bytes > std::min<int64_t>(c.device.max_shared_bytes, 32768)) {
    tactic.refusal = "a line needs " + std::to_string(bytes) + " bytes of shared memory";
  } else {
    tactic.steps = maker.shared(lines, std::clamp<int64_t>(1024 / n, 1, 32));
  }
  return tactic;
}

void convert(const NodeContext& c, Builder& b) {
  Maker maker(b);
  const Lines lines = lines_of(c);
  std::vector<Tactic> tactics;
  const auto n = lines.n.constant();
  if (n && *n > 1) {
    const std::vector<int64_t> sizes = radices(*n);
    if (sizes.back() <= kLargestSum) {
      tactics.push_back({.name = "fft_passes", .steps = maker.passes(lines, "")});
    } else {
      tactics.push_back({.name = "fft_convolution", .steps = maker.convolution(lines)});
    }
  }
  if (n && *n > 1) {  // CPU drivers run workgroups slowly
    tactics.insert(c.device.is_cpu() ? tactics.end() : tactics.begin(),
                   shared_tactic(c, maker, lines));
  }
  if (!n || *n <= kLargestDirect) {
    tactics.push_back({.name = "fft_direct", .steps = maker.direct(lines)});
  }
  b.emit(std::move(tactics));
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  const auto add = [&](FftKind in, FftKind out, int64_t n, bool forward) {
    const auto shape = [&](FftKind kind, int64_t half) {
      Shape s{3, kind == FftKind::kHalf || half != 0 ? n / 2 + 1 : n, 2};
      if (kind != FftKind::kReal) s.push_back(2);
      return s;
    };
    ExampleGraph g("tv::fft");
    g.input("self", DType::kF32, shape(in, 0))
        .attr("dim", integer(1))
        .attr("length", integer(n))
        .attr("in", integer(static_cast<int>(in)))
        .attr("out", integer(static_cast<int>(out)))
        .attr("forward", forward)
        .attr("norm", integer(forward ? 1 : 2))
        .attr("count", integer(n));
    graphs.push_back(g.output(DType::kF32, shape(out, in == FftKind::kReal)).graph());
  };
  add(FftKind::kReal, FftKind::kComplex, 4 * 2 * 3, true);
  add(FftKind::kHalf, FftKind::kReal, 5 * 7, false);
  add(FftKind::kComplex, FftKind::kComplex, 11 * 13, true);
  add(FftKind::kComplex, FftKind::kComplex, 17 * 2, false);
  add(FftKind::kComplex, FftKind::kComplex, 67, false);
  add(FftKind::kHalf, FftKind::kReal, 67, false);
  return graphs;
}

const RegisterConverter transform{{.op = "tv::fft",
                                   .convert = convert,
                                   .reads_views = {"self"},
                                   .epilogue = true,
                                   .examples = examples}};

}  // namespace
}  // namespace tv
