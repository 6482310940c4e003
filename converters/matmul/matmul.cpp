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

/// The product for CPU drivers, by SIMD: rows of a, columns of b, and what is done with the sums.
class SimdTactic {
 public:
  SimdTactic(const NodeContext& c, Builder& b, const Product& p)
      : c_(c), b_(b), p_(p), tile_(simd_tile(c.device)), k_(p.k.constant()) {}

  Tactic make() {
    tactic_.refusal = refusal();
    if (!tactic_.refusal.empty()) return std::move(tactic_);
    simd_ = {.rows = p_.m,
             .col_tiles = ceil_div(p_.n, tile_.cols()),
             .batch = p_.batch.count(),
             .tile_rows = simd_rows(c_, p_)};
    place_rows();
    place_columns();
    count_steps();
    add_sums();
    return std::move(tactic_);
  }

 private:
  std::string refusal() const {
    if (std::string why = simd_refusal(c_.device); !why.empty()) return why;
    const Expr work = p_.batch.count() * p_.m * p_.n * p_.k;
    if (typical(c_.graph, work) < 32 * 1024) return "the product is small";
    if (p_.batch.sizes.size() > kMaxBatchDims) return "more than 3 batch dimensions";
    if (!is_float(c_.dtype("a"))) return "the operands are not floats";
    if (p_.k.bounds(c_.graph.symbols).first < 1) return "k may be 0";
    return "";
  }

  bool flat_batch() const { return p_.batch.sizes.size() <= 1; }

  /// Rows of a: where they lie, or packed.
  void place_rows() {
    const ValueId a = c_.node.input("a");
    const bool as_it_lies = k_ && flat_batch() && c_.dtype("a") == DType::kF32 && p_.a_k == Expr(1);
    multiple_ = as_it_lies ? 1 : k_ ? kSimdSegment : kSimdSymbolicSteps;
    padded_k_ = round_up(p_.k, multiple_);
    if (as_it_lies) {
      simd_.a = a;
      simd_.a_m = p_.a_m;
      simd_.a_z = first_or_zero(p_.batch.a);
      simd_.rest = *k_ % kSimdSegment;
    } else {
      simd_.a = add_pack(c_, b_, "rows", {a, p_.m, p_.k, p_.a_m, p_.a_k}, p_.batch, p_.batch.a,
                         {.width = kSimdSegment, .cols_multiple = multiple_}, tactic_.steps);
      simd_.a_m = padded_k_;
      simd_.a_z = p_.m * padded_k_;
    }
  }

  /// Columns of b: where they lie, or packed in tiles.
  void place_columns() {
    const ValueId w = c_.node.input("b");
    const bool wide = p_.n.bounds(c_.graph.symbols).first >= tile_.cols();
    direct_ = padded_k_ == p_.k && flat_batch() && wide && c_.dtype("b") == DType::kF32 &&
              p_.b_n == Expr(1) && !b_.is_constant(w);
    // One more parameter, of b in place, leaves no room for the epilogue's.
    ends_in_output_ =
        k_ && wide && simd_epilogue_fits(c_, b_) && (!direct_ || c_.node.epilogue_inputs.empty());
    if (direct_) {
      simd_.b = w;
      simd_.b_k = p_.b_k;
      simd_.b_z = first_or_zero(p_.batch.b);
      simd_.b_tile = tile_.cols();
      simd_.b_last = p_.n - tile_.cols();
    } else {
      simd_.b = add_pack(c_, b_, "columns", {w, p_.k, p_.n, p_.b_k, p_.b_n}, p_.batch, p_.batch.b,
                         {.width = tile_.cols(),
                          .rows_multiple = multiple_,
                          .tiled = true,
                          .moved = ends_in_output_},
                         tactic_.steps);
      simd_.b_k = tile_.cols();
      simd_.b_tile = padded_k_ * tile_.cols();
      simd_.b_z = simd_.col_tiles * simd_.b_tile;
      simd_.b_last = (simd_.col_tiles - 1) * simd_.b_tile;
    }
  }

  void count_steps() {
    if (!k_) simd_.steps = p_.k;
    const int64_t covered = k_ ? *k_ : kSymbolicSteps;
    simd_.count = static_cast<size_t>((covered + kSimdSegment - 1) / kSimdSegment);
  }

  void add_sums() {
    if (ends_in_output_) {
      add_simd_product(c_, b_, simd_, SimdEpilogue{p_.n}, tactic_.steps);
      return;
    }
    const SimdSums sums = add_simd_product(c_, b_, simd_, tactic_.steps);
    add_simd_finish(c_, sums,
                    {.rows = p_.m,
                     .batch = simd_.batch,
                     .columns = {.count = p_.n, .moved = direct_},
                     .tile_rows = simd_.tile_rows},
                    tactic_.steps);
  }

  const NodeContext& c_;
  Builder& b_;
  const Product& p_;
  const SimdTile tile_;
  const std::optional<int64_t> k_;
  Tactic tactic_{.name = "matmul_simd"};
  SimdProduct simd_;
  int64_t multiple_ = 1;  ///< of steps, to which the operands are padded
  Expr padded_k_;
  bool direct_ = false;          ///< b is read where it lies
  bool ends_in_output_ = false;  ///< the product's kernel writes the result, epilogue and all
};

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

  std::vector<Tactic> tactics = {simd_dots_tactic(c, b, p), SimdTactic(c, b, p).make()};
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
