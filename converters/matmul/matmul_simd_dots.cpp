// Products of few rows, or with one column, on CPU drivers: packing a matrix that is computed and
// whose columns are neighbours along k, as matmul_simd wants, takes far longer than such a product.

#include <algorithm>

#include "converters/matmul/matmul.h"

namespace tv {
namespace {

// Steps of k of a launch: longer ones take long to compile.
constexpr int64_t kDotsOfLaunch = 256;
constexpr int64_t kMostDots = 16 * kDotsOfLaunch;

/// The product whose b is read where it lies: with one column that of the transposed operands.
struct Dots {
  Product p;
  ValueId a, b;
  bool turned = false;
};

Dots dots_of(const NodeContext& c, const Product& p) {
  const ValueId a = c.node.input("a"), b = c.node.input("b");
  if (!(p.n == Expr(1)) || p.m == Expr(1)) return {p, a, b};
  Product turned{.m = 1, .n = p.m, .k = p.k, .a_m = 0, .a_k = p.b_k, .b_k = p.a_k, .b_n = p.a_m};
  turned.batch = {p.batch.sizes, p.batch.b, p.batch.a};
  return {std::move(turned), b, a, true};
}

std::string refusal(const NodeContext& c, const Builder& b, const Dots& dots) {
  const Product& p = dots.p;
  std::string reason = simd_refusal(c.device);
  if (!reason.empty()) return reason;
  if (p.batch.sizes.size() > 1) return "batches in more than one dimension";
  if (c.dtype("a") != DType::kF32) return "the operands are not float32";
  if (!(p.a_k == Expr(1)) || !(p.b_k == Expr(1))) return "neighbours in memory are not along k";
  if (!dots.turned && b.is_constant(dots.b)) return "a constant is packed once";
  const auto k = p.k.constant();
  if (!k || *k > kMostDots) return "k is symbolic or large";
  if (*k < c.device.subgroup_size) return "the steps of k fill no vector";
  if (typical(c.graph, p.batch.count() * p.m * p.n * p.k) < 32 * 1024) {
    return "the product is small";
  }
  return "";
}

/// Steps of k of the next launch, of `left`: what it leaves fills a vector.
int64_t dots_of_launch(const NodeContext& c, int64_t left) {
  const int64_t rest = left - kDotsOfLaunch;
  return rest > 0 && rest < c.device.subgroup_size ? kDotsOfLaunch / 2
                                                   : std::min(left, kDotsOfLaunch);
}

SimdTile dots_tile(const NodeContext& c, const Product& p) {
  const int64_t m = typical(c.graph, p.m);
  return {.lanes = simd_tile(c.device).lanes, .rows = m <= 2 ? std::max<int64_t>(m, 1) : 4};
}

/// The launch of `count` steps of k from `first` on.
Step dots_step(const NodeContext& c, const Dots& dots, int64_t first, int64_t count) {
  const Product& p = dots.p;
  const SimdTile tile = dots_tile(c, p);
  const auto stride = [](const Shape& strides) { return strides.empty() ? Expr(0) : strides[0]; };
  Step step{
      .kernel = "matmul_simd_dots",
      .defines = {{"ROWS", text(tile.rows) + "u"},
                  {"COUNT", text(count) + "u"},
                  {"K_0", first == 0 ? "0u" : "k_0"}},
      .operands = {src("a", dots.a), src("b", dots.b)},
      .params = {param("a_m", p.a_m), param("a_z", stride(p.batch.a)), param("m_last", p.m - 1),
                 param("b_n", p.b_n), param("b_z", stride(p.batch.b)), param("cols", p.n)},
      .grid = {{ceil_div(p.m, tile.rows), ceil_div(p.n, tile.cols()), p.batch.count()}},
      .local_size = {static_cast<uint32_t>(tile.lanes), 1, 1},
      .uniform_table = true};
  if (first > 0) step.params.push_back(param("k_0", Expr(first)));
  step.defines.emplace_back("SMALL_GRID", flag(simd_grid_is_small(c, step.grid.groups)));
  return step;
}

}  // namespace

Tactic simd_dots_tactic(const NodeContext& c, Builder& b, const Product& product) {
  const Dots dots = dots_of(c, product);
  const Product& p = dots.p;
  Tactic tactic{.name = "matmul_simd_dots", .refusal = refusal(c, b, dots)};
  if (!tactic.refusal.empty()) return tactic;
  const SimdTile tile = dots_tile(c, p);
  const int64_t k = *p.k.constant();
  const bool wide = p.n.bounds(c.graph.symbols).first >= tile.cols();
  if (k <= kDotsOfLaunch && wide && simd_epilogue_fits(c, b)) {
    Step step = dots_step(c, dots, 0, k);
    step.defines.emplace_back("LAST", "1");
    step.operands.push_back(dst("y", c.node.outputs[0]));
    step.simd_row = p.n;
    tactic.steps.push_back(std::move(step));
    return tactic;
  }
  SimdSums sums{.c_m = ceil_div(p.n, tile.cols()) * tile.cols()};
  sums.c_z = ceil_div(p.m, tile.rows) * tile.rows * sums.c_m;
  sums.value = b.scratch("sums", DType::kF32, {p.batch.count(), sums.c_z});
  for (int64_t first = 0, count = 0; first < k; first += count) {
    count = dots_of_launch(c, k - first);
    Step step = dots_step(c, dots, first, count);
    step.defines.emplace_back("LAST", "0");
    step.defines.emplace_back("ADD", flag(first > 0));
    step.operands.push_back(
        {.name = "c", .value = sums.value, .write = true, .read_write = first > 0});
    step.params.insert(step.params.end(), {param("c_m", sums.c_m), param("c_z", sums.c_z)});
    tactic.steps.push_back(std::move(step));
  }
  add_simd_finish(
      c, sums,
      {.rows = p.m, .batch = p.batch.count(), .columns = {.count = p.n}, .tile_rows = tile.rows},
      tactic.steps);
  return tactic;
}

}  // namespace tv
