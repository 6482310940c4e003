// tv::matmul(a, b): a[..., m, k] · b[..., k, n] with batch dimensions broadcast. Every ATen product
// of matrices is rewritten into it (matmul_aten.cpp).

#include "converters/matmul/matmul.h"

#include <algorithm>

namespace tv {
namespace {

/// Steps of a symbolic k that are unrolled; skipped launches cost nothing.
constexpr int64_t kSymbolicSteps = 4096;
/// Rows up to which a matrix is read where it lies rather than packed at each call.
constexpr int64_t kFewRows = 32;

Product product_of_node(const NodeContext& c, const Builder& b) {
  const Shape &a_shape = c.shape("a"), &b_shape = c.shape("b"), &out = c.output().shape;
  const Shape a_strides = b.strides_of(c.node.input("a")),
              b_strides = b.strides_of(c.node.input("b"));
  const size_t ra = a_shape.size(), rb = b_shape.size(), r = out.size();
  Product p{.m = out[r - 2],
            .n = out[r - 1],
            .k = a_shape[ra - 1],
            .a_m = a_strides[ra - 2],
            .a_k = a_strides[ra - 1],
            .b_k = b_strides[rb - 2],
            .b_n = b_strides[rb - 1]};
  const auto strides_over = [&](const Shape& shape, const Shape& strides) {
    Shape result(r - 2, Expr(0));
    const size_t rank = shape.size() - 2, lead = r - 2 - rank;
    for (size_t i = 0; i < rank; ++i) {
      if (!(shape[i] == Expr(1))) result[lead + i] = strides[i];
    }
    return result;
  };
  p.batch = {Shape(out.begin(), out.end() - 2), strides_over(a_shape, a_strides),
             strides_over(b_shape, b_strides)};
  p.batch.collapse();
  // Batches that share b are more rows of a.
  while (!p.batch.sizes.empty() && p.batch.b.back() == Expr(0) &&
         (p.m == Expr(1) || p.batch.a.back() == p.a_m * p.m)) {
    if (p.m == Expr(1)) p.a_m = p.batch.a.back();
    p.m *= p.batch.sizes.back();
    p.batch.sizes.pop_back();
    p.batch.a.pop_back();
    p.batch.b.pop_back();
  }
  return p;
}

Expr first_or_zero(const Shape& strides) { return strides.empty() ? Expr(0) : strides[0]; }

/// Rows of matmul_simd's tiles: fewer where there are few, and then of few sizes, since each is a
/// pipeline of its own.
int64_t simd_rows(const NodeContext& c, const Product& p) {
  const int64_t most = simd_tile(c.device).rows, m = p.m.constant().value_or(most);
  for (const int64_t rows : {1, 2, 4}) {
    if (m <= rows) return rows;
  }
  return most;
}

Tactic simd_tactic(const NodeContext& c, Builder& b, const Product& p) {
  Tactic tactic{.name = "matmul_simd"};
  tactic.refusal = simd_refusal(c.device);
  if (!tactic.refusal.empty()) return tactic;
  const auto k = p.k.constant();
  if (p.k.bounds(c.graph.symbols).first < 1) tactic.refusal = "k may be 0";
  if (!is_float(c.dtype("a"))) tactic.refusal = "the operands are not floats";
  if (p.batch.sizes.size() > kMaxBatchDims) tactic.refusal = "more than 3 batch dimensions";
  const Expr work = p.batch.count() * p.m * p.n * p.k;
  if (typical(c.graph, work) < 32 * 1024) tactic.refusal = "the product is small";
  if (!tactic.refusal.empty()) return tactic;

  const SimdTile tile = simd_tile(c.device);
  const bool flat_batch = p.batch.sizes.size() <= 1;
  const bool wide = p.n.bounds(c.graph.symbols).first >= tile.cols();
  const ValueId a = c.node.input("a"), w = c.node.input("b");
  SimdProduct simd{.rows = p.m,
                   .col_tiles = ceil_div(p.n, tile.cols()),
                   .batch = p.batch.count(),
                   .tile_rows = simd_rows(c, p)};

  const bool as_it_lies = k && flat_batch && c.dtype("a") == DType::kF32 && p.a_k == Expr(1);
  const int64_t multiple = as_it_lies ? 1 : k ? kSimdSegment : kSimdSymbolicSteps;
  const Expr padded_k = round_up(p.k, multiple);
  if (as_it_lies) {
    simd.a = a;
    simd.a_m = p.a_m;
    simd.a_z = first_or_zero(p.batch.a);
    simd.rest = *k % kSimdSegment;
  } else {
    simd.a = add_pack(c, b, "rows", {a, p.m, p.k, p.a_m, p.a_k}, p.batch, p.batch.a,
                      {.width = kSimdSegment, .cols_multiple = multiple}, tactic.steps);
    simd.a_m = padded_k;
    simd.a_z = p.m * padded_k;
  }
  const bool direct = padded_k == p.k && flat_batch && wide && c.dtype("b") == DType::kF32 &&
                      p.b_n == Expr(1) && !b.is_constant(w);
  // One more parameter, of b in place, leaves no room for the epilogue's.
  const bool ends_in_output =
      k && wide && simd_epilogue_fits(c, b) && (!direct || c.node.epilogue_inputs.empty());
  if (direct) {
    simd.b = w;
    simd.b_k = p.b_k;
    simd.b_z = first_or_zero(p.batch.b);
    simd.b_tile = tile.cols();
    simd.b_last = p.n - tile.cols();
  } else {
    simd.b = add_pack(
        c, b, "columns", {w, p.k, p.n, p.b_k, p.b_n}, p.batch, p.batch.b,
        {.width = tile.cols(), .rows_multiple = multiple, .tiled = true, .moved = ends_in_output},
        tactic.steps);
    simd.b_k = tile.cols();
    simd.b_tile = padded_k * tile.cols();
    simd.b_z = simd.col_tiles * simd.b_tile;
    simd.b_last = (simd.col_tiles - 1) * simd.b_tile;
  }
  if (!k) simd.steps = p.k;
  const int64_t covered = k ? *k : kSymbolicSteps;
  simd.count = static_cast<size_t>((covered + kSimdSegment - 1) / kSimdSegment);
  if (ends_in_output) {
    add_simd_product(c, b, simd, SimdEpilogue{p.n}, tactic.steps);
    return tactic;
  }
  const SimdSums sums = add_simd_product(c, b, simd, tactic.steps);
  add_simd_finish(c, sums,
                  {.rows = p.m,
                   .batch = simd.batch,
                   .columns = {.count = p.n, .moved = direct},
                   .tile_rows = simd.tile_rows},
                  tactic.steps);
  return tactic;
}

/// Parameters that the SIMT kernels share.
void add_operands(const NodeContext& c, const Product& p, ValueId y, Step& step) {
  step.operands = {src("a", c.node.input("a")), src("b", c.node.input("b")), dst("y", y)};
  step.params = {param("m_count", p.m), param("n_count", p.n), param("k_count", p.k),
                 param("a_m", p.a_m),   param("a_k", p.a_k),   param("b_k", p.b_k),
                 param("b_n", p.b_n)};
  add_batch(step, p.batch, p.batch.a, "az");
  add_batch(step, p.batch, p.batch.b, "bz");
}

struct SimtTile {
  int64_t rows, cols;        ///< of the workgroup
  int64_t per_row, per_col;  ///< outputs of one invocation
  int64_t threads() const { return rows / per_row * (cols / per_col); }
};

constexpr int64_t kTiledSteps = 16;  ///< of k, which matmul_tiled takes at once

/// `splits`: workgroups that share the steps of k of a tile.
Tactic tiled_tactic(const NodeContext& c, Builder& b, const Product& p, const SimtTile& tile,
                    int64_t splits) {
  Tactic tactic{.name = "matmul_tiled_" + text(tile.rows) + "x" + text(tile.cols)};
  if (splits > 1) {
    tactic.name += "_k" + text(splits);
    tactic.refusal = split_k_refusal(c, p, splits);
  }
  if (c.device.is_cpu()) tactic.refusal = "workgroups that share memory are slow on a CPU";
  if (!is_float(c.dtype("a"))) tactic.refusal = "the operands are not floats";
  if (tile.threads() > c.device.max_workgroup_invocations) {
    tactic.refusal = "workgroups of " + text(tile.threads()) + " invocations are not possible";
  }
  if (p.batch.sizes.size() > kMaxBatchDims) tactic.refusal = "more than 3 batch dimensions";
  if (!tactic.refusal.empty()) return tactic;
  Step step{
      .kernel = "matmul_tiled",
      .defines = {{"BM", text(tile.rows)},
                  {"BN", text(tile.cols)},
                  {"BK", text(kTiledSteps)},
                  {"SPLIT", text(splits)},
                  {"BLOCK", "64u"},
                  {"RM", text(tile.per_row)},
                  {"RN", text(tile.per_col)},
                  {"A_BY_ROWS", p.a_k == Expr(1) ? "1" : "0"},
                  {"B_BY_ROWS", p.b_n == Expr(1) ? "1" : "0"}},
      .grid = {{ceil_div(p.n, tile.cols), ceil_div(p.m, tile.rows), p.batch.count() * splits}},
      .local_size = {static_cast<uint32_t>(tile.threads()), 1, 1}};
  const ValueId sums = splits > 1 ? split_k_sums(b, p, splits) : c.node.outputs[0];
  add_operands(c, p, sums, step);
  if (splits > 1) {
    step.params.push_back(param("k_per_split", round_up(ceil_div(p.k, splits), kTiledSteps)));
    step.params.push_back(param("matrices", p.batch.count()));
  }
  tactic.steps.push_back(std::move(step));
  if (splits > 1) tactic.steps.push_back(split_k_step(c, p, sums, splits));
  return tactic;
}

Tactic reference_tactic(const NodeContext& c, const Product& p) {
  Tactic tactic{.name = "matmul_reference"};
  if (p.batch.sizes.size() > kMaxBatchDims) {
    tactic.refusal = "more than 3 batch dimensions";
    return tactic;
  }
  Step step{.kernel = "matmul_reference",
            .grid = one_each(p.batch.count() * p.m * p.n, 64),
            .local_size = {64, 1, 1}};
  add_operands(c, p, c.node.outputs[0], step);
  step.iterations = p.k + ceil_div(p.k, 32);
  step.params.push_back(param("total", p.batch.count() * p.m * p.n));
  tactic.steps.push_back(std::move(step));
  return tactic;
}

void convert(const NodeContext& c, Builder& b) {
  const Product p = product_of_node(c, b);
  std::vector<SimtTile> tiles = {{128, 128, 8, 8}, {64, 64, 4, 4}, {16, 64, 2, 4}};
  const int64_t m = typical(c.graph, p.m), n = typical(c.graph, p.n);
  const int64_t groups = typical(c.graph, p.batch.count()) * ((m + 127) / 128) * ((n + 127) / 128);
  if (groups < 64) std::rotate(tiles.begin(), tiles.begin() + 1, tiles.end());
  if (m <= 16) std::rotate(tiles.begin(), std::prev(tiles.end(), groups < 64 ? 2 : 1), tiles.end());

  std::vector<Tactic> tactics = {simd_dots_tactic(c, b, p), simd_tactic(c, b, p)};
  // For many rows a packed matrix pays.
  if (m > kFewRows && n > 1) std::swap(tactics[0], tactics[1]);
  for (Tactic& tactic : one_row_tactics(c, p)) tactics.push_back(std::move(tactic));
  for (Tactic& tactic : matrix_tactics(c, b, p)) tactics.push_back(std::move(tactic));
  for (Tactic& tactic : simt_tactics(c, p)) tactics.push_back(std::move(tactic));
  for (const SimtTile& tile : tiles) {
    for (const int64_t splits : candidate_split_k(c, p, tile.rows, tile.cols)) {
      tactics.push_back(tiled_tactic(c, b, p, tile, splits));
    }
  }
  tactics.push_back(reference_tactic(c, p));
  b.emit(std::move(tactics));
}

std::string unsupported(const NodeContext& c) {
  if (c.dtype("a") != c.dtype("b")) {
    return "[" + c.node.op + "] operands must have one dtype; got " +
           std::string(name(c.dtype("a"))) + " and " + std::string(name(c.dtype("b")));
  }
  // Three batch dimensions are left at most by broadcasting in alternation.
  if (c.output().shape.size() > kMaxBatchDims + 2) {
    return "[" + c.node.op + "] more than 3 batch dimensions";
  }
  // Only the reference kernel knows integers.
  if (!is_float(c.dtype("a"))) return loops_too_long(c, c.shape("a").back());
  return "";
}

Graph example(DType dtype, Shape a, Shape b, Shape out) {
  return ExampleGraph("tv::matmul")
      .input("a", dtype, std::move(a))
      .input("b", dtype, std::move(b))
      .output(dtype, std::move(out))
      .graph();
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    graphs.push_back(example(dtype, {37, 64}, {64, 53}, {37, 53}));
    graphs.push_back(example(dtype, {3, 37, 300}, {3, 300, 29}, {3, 37, 29}));
    graphs.push_back(example(dtype, {1, 3, 37, 41}, {2, 1, 41, 29}, {2, 3, 37, 29}));
    // Operands that load in chunks, with and without remainders of the tiles.
    graphs.push_back(example(dtype, {2, 40, 72}, {2, 72, 56}, {2, 40, 56}));
    graphs.push_back(example(dtype, {128, 256}, {256, 256}, {128, 256}));
    graphs.push_back(example(dtype, {37, 80}, {80, 64}, {37, 64}));
    // Few outputs with long sums: the steps of k are shared by workgroups.
    graphs.push_back(example(dtype, {7, 1031}, {1031, 37}, {7, 37}));
    // One column: rows are read where they lie.
    graphs.push_back(example(dtype, {3, 37, 521}, {3, 521, 1}, {3, 37, 1}));
  }
  const Expr k = Expr::symbol(0);
  graphs.push_back(example(DType::kF32, {37, k}, {k, 53}, {37, 53}));
  graphs.back().symbols = {{.name = "k", .min = 1, .opt = 300}};
  for (const DType dtype : {DType::kI32, DType::kI64}) {
    graphs.push_back(example(dtype, {3, 5}, {5, 7}, {3, 7}));
  }
  return graphs;
}

const RegisterConverter matmul{{.op = "tv::matmul",
                                .unsupported = unsupported,
                                .convert = convert,
                                .reads_views = {"a", "b"},
                                .epilogue = true,
                                .examples = examples}};

}  // namespace
}  // namespace tv
