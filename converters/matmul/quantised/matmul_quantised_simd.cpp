// Products with quantised matrices on CPU drivers: words of packed elements in the order of the
// lanes, dequantised in the load. Products of integers, too: exact sums of floats.

#include <algorithm>

#include "converters/matmul/integer/matmul_integer.h"
#include "converters/matmul/matmul_quantised.h"
#include "converters/matmul/simd/matmul_simd.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

constexpr int64_t kPart = 64;  // steps of k that are summed by themselves
// Products of a step and a row that a launch unrolls: longer ones compile for many seconds.
constexpr int64_t kLongest = 3072, kLongestLast = 1536;
constexpr int64_t kMostSteps = 512, kMostStepsLast = 256;

/// One of the packed matrix, its scales, its zero points, as words.
struct Words {
  ValueId value = kNoValue;
  int64_t bits = 0;   ///< of an element
  int64_t words = 0;  ///< of a row
};

struct Rows {
  ValueId value = kNoValue;
  int64_t elements = 0, pitch = 0;  ///< of a row; from one row to the next
  int64_t bits = 0;                 ///< of an element
  int64_t padded = 0;               ///< elements that the kernel may read
  Expr batch = 1;                   ///< matrices, one after the other
};

/// What the launches of both kinds of products see.
struct WordsProduct {
  Expr m;
  int64_t n = 0, k = 0;
  Quantised q;
  DType dtype = DType::kI8;          ///< of q.input
  int64_t group = 0, scale_row = 0;  ///< as QuantisedProduct's
  Expr batch = 1;
  bool batched = false, integer = false;
  int64_t groups() const { return k / group; }
};

/// Appends the launch that packs; `p.n` rows into tiles of `tile` columns. `batch`: of matrices.
Words add_words(const NodeContext& c, Builder& b, const WordsProduct& p, const std::string& name,
                const Rows& rows, int64_t tile, std::vector<Step>& steps) {
  const bool bytes = rows.bits < 32 || c.graph.value(rows.value).dtype == DType::kF32;
  const int64_t words = div_up(rows.padded * rows.bits, 32), tiles = div_up(p.n, tile);
  const Expr total = rows.batch * (tiles * words * tile);
  const ValueId packed = b.scratch(name, DType::kI32, {total});
  const int64_t element_bytes = bytes ? rows.bits * rows.pitch / 8 : rows.pitch;
  steps.push_back(
      {.kernel = "matmul_quantised_simd_pack",
       .defines = {{"TILE", text(tile) + "u"},
                   {"BYTES", flag(bytes)},
                   {"MOVED", flag(p.n >= tile)},
                   {"BATCHED", flag(!(rows.batch == Expr(1)))}},
       .operands = {src("x", rows.value), dst("y", packed)},
       .params = {param("total", total), param("words", words), param("rows", p.n),
                  param("tiles", tiles),
                  param("row_bytes", bytes ? rows.elements * rows.bits / 8 : rows.elements),
                  param("pitch", element_bytes)},
       .grid = one_each(total, 64),
       .local_size = {64, 1, 1}});
  return {packed, rows.bits, words};
}

/// The bits that a scale or zero point of this type has among the words.
int64_t word_bits(DType dtype) {
  const int64_t bits = 8 * size_bytes(dtype);
  return dtype == DType::kI8 || dtype == DType::kU8 || is_float(dtype) ? bits : 32;
}

/// What all launches of a product share.
struct SimdParts {
  ValueId a = kNoValue, sums = kNoValue;
  Expr a_m, c_m, a_z;
  Words q, scale, zero;
  int64_t rows = 0, part = 0;  ///< of a; steps of k that are summed and scaled at once
};

bool is_signed(DType dtype) { return dtype == DType::kI8; }

void add_table(const char* name, const Words& words, int64_t tile, Step& step) {
  if (words.value == kNoValue) return;
  step.operands.push_back(src(name, words.value));
  step.params.push_back(param(name + std::string("_tile"), words.words * tile));
}

/// The launch of `count` parts from `first` on; `last` writes the node's output.
Step launch(const NodeContext& c, const WordsProduct& p, const SimdParts& parts, int64_t first,
            int64_t count, bool last) {
  const SimdTile tile = simd_tile(c.device);
  const bool add = !last || first > 0;
  const DType scale = p.q.scale == kNoValue ? DType::kF32 : c.graph.value(p.q.scale).dtype;
  const DType zero = p.q.zero_point == kNoValue ? DType::kU8 : c.graph.value(p.q.zero_point).dtype;
  const auto unsigned_text = [](int64_t value) { return text(value) + "u"; };
  Step step{.kernel = "matmul_quantised_simd",
            .defines = {{"ROWS", unsigned_text(parts.rows)},
                        {"PART", unsigned_text(parts.part)},
                        {"PARTS", unsigned_text(count)},
                        {"GROUP", unsigned_text(p.groups() == 1 ? 0 : p.group)},
                        {"BITS", unsigned_text(p.q.bits)},
                        {"SIGNED", flag(is_signed(p.dtype))},
                        {"SCALE_BITS", text(parts.scale.bits)},
                        {"HALF", flag(scale == DType::kF16)},
                        {"ZERO_BITS", text(parts.zero.bits)},
                        {"ZERO_SIGNED", flag(is_signed(zero))},
                        {"LAST", flag(last)},
                        {"ADD", flag(add)},
                        {"INTEGER", flag(p.integer)},
                        {"BATCHED", flag(p.batched)},
                        {"C_Z", "((m_last + ROWS) / ROWS * ROWS * C_M)"},
                        {"A_0", add ? "a_0" : "0u"}},
            .operands = {src("a", parts.a), src("q", parts.q.value)},
            .params = {param("a_m", parts.a_m), param("m_last", p.m - 1),
                       param("q_tile", parts.q.words * tile.cols())},
            .grid = {{ceil_div(p.m, parts.rows), Expr(div_up(p.n, tile.cols())), p.batch}},
            .local_size = {static_cast<uint32_t>(tile.lanes), 1, 1},
            .uniform_table = true};
  add_codes(p.q, step);
  if (p.batched) {
    step.params.push_back(param("a_z", parts.a_z));
    step.params.push_back(param("q_z", parts.q.words * div_up(p.n, tile.cols()) * tile.cols()));
  }
  add_table("scale", parts.scale, tile.cols(), step);
  add_table("zero", parts.zero, tile.cols(), step);
  step.defines.emplace_back("SMALL_GRID", flag(simd_grid_is_small(c, step.grid.groups)));
  if (add) {
    step.params.push_back(param("a_0", Expr(first * parts.part)));
    step.operands.push_back(
        {.name = "c", .value = parts.sums, .write = !last, .read_write = !last});
  }
  if (last) {
    step.defines.emplace_back("C_M", "((cols + 2u * LANES - 1u) / (2u * LANES) * (2u * LANES))");
    step.operands.push_back(dst("y", c.node.outputs[0]));
    step.params.push_back(param("cols", p.n));
    step.simd_row = p.n;
  } else {
    step.defines.emplace_back("C_M", "c_m");
    step.params.push_back(param("c_m", parts.c_m));
  }
  return step;
}

std::string refusal(const NodeContext& c, const WordsProduct& p, int64_t rows) {
  std::string reason = simd_refusal(c.device);
  if (!reason.empty()) return reason;
  if (p.group % 16 != 0 && p.groups() > 1) return "groups are no multiple of 16 steps of k";
  if (typical(c.graph, p.batch * p.m * p.n * p.k) < 16 * 1024) return "the product is small";
  const auto m = p.m.constant();
  if (m && rows > 4 && rows >= 2 * *m) return "fewer rows";
  if (m && rows < 4 && *m >= 4 * rows) return "more rows";
  return "";
}

/// Steps of k that are summed by themselves: whole parts need no padding, and a group has whole
/// ones.
int64_t part_of(const WordsProduct& p) {
  int64_t part = kPart;
  const int64_t within = p.groups() > 1 || p.k % 16 == 0 ? p.group : kPart;
  while (within % part != 0) part /= 2;
  return part;
}

/// Packs what is multiplied by the rows of a.
void add_tables(const NodeContext& c, Builder& b, const WordsProduct& p, SimdParts& parts,
                std::vector<Step>& steps) {
  const int64_t cols = simd_tile(c.device).cols();
  const int64_t padded_k = div_up(p.k, parts.part) * parts.part;
  const int64_t groups = p.groups() == 1 ? 1 : div_up(padded_k, p.group);
  const int64_t pitch = p.integer ? div_up(p.k, 4) * 4 : p.k;  // as integer_rows has it
  parts.q = add_words(c, b, p, "words", {p.q.input, p.k, pitch, p.q.bits, padded_k, p.batch}, cols,
                      steps);
  const auto table = [&](const char* name, ValueId value) -> Words {
    if (value == kNoValue) return {};
    return add_words(
        c, b, p, name,
        {value, p.groups(), p.scale_row, word_bits(c.graph.value(value).dtype), groups}, cols,
        steps);
  };
  parts.scale = table("scales", p.q.scale);
  parts.zero = table("zeros", p.q.zero_point);
}

/// Multiplies and writes the node's output.
void add_launches(const NodeContext& c, Builder& b, const WordsProduct& p, SimdParts& parts,
                  std::vector<Step>& steps) {
  const int64_t cols = simd_tile(c.device).cols(), rows = parts.rows;
  const int64_t length = p.q.has_integers() ? 1 : 4;  // of what a step unrolls to
  const auto most = [&](int64_t of_k, int64_t products) {
    return std::min(of_k / length, std::max(parts.part, products / rows / length)) / parts.part;
  };
  const int64_t count = div_up(p.k, parts.part), last = most(kMostStepsLast, kLongestLast);
  // Numbers of `launch`; scales and zero points are tables.
  const size_t tables = p.integer ? (p.q.zero_point != kNoValue ? 1 : 0) : 2;
  const size_t words = p.integer ? (p.batched ? 7 : 5) : 8;
  const bool ends_in_output = p.n >= cols && simd_epilogue_fits(c, b, tables, words);
  const Expr height = ceil_div(p.m, rows) * rows;
  if (!ends_in_output || count > last) {
    parts.c_m = Expr(div_up(p.n, cols) * cols);
    parts.sums = b.scratch("sums", DType::kF32, {p.batch, height, parts.c_m});
  }
  const int64_t kept = ends_in_output ? std::min(count, last) : 0;
  for (int64_t first = 0; first < count - kept;) {
    int64_t taken = most(kMostSteps, kLongest);  // few sizes, so that few pipelines are compiled
    while (taken > count - kept - first) taken /= 2;
    steps.push_back(launch(c, p, parts, first, taken, false));
    first += taken;
  }
  if (ends_in_output) {
    steps.push_back(launch(c, p, parts, count - kept, kept, true));
    return;
  }
  add_simd_finish(
      c, {parts.sums, parts.c_m, height * parts.c_m},
      {.rows = p.m, .batch = p.batch, .columns = {.count = Expr(p.n), .moved = p.n >= cols}},
      steps);
}

/// Rows of integers as floats, less their zero points, each padded to whole segments.
ValueId widened(const NodeContext& c, Builder& b, const IntegerProduct& p, const Expr& pitch,
                std::vector<Step>& steps) {
  const IntegerMatrix& x = p.a;
  const ValueId y = b.scratch("rows", DType::kF32, {p.batch, x.rows, pitch});
  const Value& value = c.graph.value(x.value);
  const bool words =
      mod(p.k, 4) == Expr(0) && !value.view && is_dense(value.shape, b.strides_of(x.value));
  const Expr quads = floordiv(pitch, 4), elements = p.batch * x.rows * quads;
  Operand from = src("x", x.value), to = dst("y", y);
  from.vec4 = words;
  to.vec4 = true;
  Step step{.kernel = "matmul_integer_widen",
            .defines = {{"WORDS", flag(words)}, {"ZERO", flag(x.zero != kNoValue)}},
            .operands = {from, to},
            .params = {param("elements", elements), param("quads", quads), param("k_count", p.k),
                       param("m_count", x.rows)},
            .grid = one_each(elements, 64)};
  if (!words) {
    step.params.insert(step.params.end(), {param("x_z", x.batch_stride), param("x_m", x.row_stride),
                                           param("x_k", x.k_stride)});
  }
  if (x.zero != kNoValue) {
    step.operands.push_back(src("zero", x.zero));
    step.params.push_back(param("zero_row", Expr(x.by_rows ? 1 : 0)));
  }
  steps.push_back(std::move(step));
  return y;
}

}  // namespace

Tactic quantised_simd_tactic(const NodeContext& c, Builder& b, const QuantisedProduct& q,
                             int64_t rows) {
  const WordsProduct p{.m = q.m,
                       .n = q.n,
                       .k = q.k,
                       .q = q.q,
                       .dtype = c.graph.value(q.q.input).dtype,
                       .group = q.group,
                       .scale_row = q.scale_row()};
  Tactic tactic{.name = "matmul_quantised_simd_" + text(rows), .refusal = refusal(c, p, rows)};
  if (!tactic.refusal.empty()) return tactic;
  SimdParts parts{.rows = rows, .part = part_of(p)};
  const ValueId a = c.node.input("a");
  const bool as_it_lies = p.k % parts.part == 0 && c.dtype("a") == DType::kF32 && q.a_k == Expr(1);
  parts.a_m = as_it_lies ? q.a_m : Expr(div_up(p.k, kSimdSegment) * kSimdSegment);
  parts.a = as_it_lies
                ? a
                : add_pack(c, b, "rows", {a, p.m, p.k, q.a_m, q.a_k}, {}, {},
                           {.width = kSimdSegment, .cols_multiple = kSimdSegment}, tactic.steps);
  add_tables(c, b, p, parts, tactic.steps);
  add_launches(c, b, p, parts, tactic.steps);
  return tactic;
}

Tactic integer_simd_tactic(const NodeContext& c, Builder& b, const IntegerProduct& q,
                           int64_t rows) {
  Tactic tactic{.name = "matmul_integer_simd_" + text(rows)};
  const auto n = q.n.constant(), k = q.k.constant();
  if (!n || !k || *n == 0 || *k == 0) {
    tactic.refusal = "columns or steps of k are symbolic, or there are none";
    return tactic;
  }
  WordsProduct p{.m = q.m,
                 .n = *n,
                 .k = *k,
                 .q = {.zero_point = q.b.zero, .bits = 8},
                 .dtype = c.graph.value(q.b.value).dtype,
                 .group = *k,
                 .scale_row = q.b.by_rows ? 1 : 0,
                 .batch = q.batch,
                 .batched = q.batched,
                 .integer = true};
  tactic.refusal = refusal(c, p, rows);
  if (!tactic.refusal.empty()) return tactic;
  p.q.input = integer_rows(c, b, "dense", q.b, q, {.flipped = false}, tactic.steps);
  SimdParts parts{.rows = rows, .part = part_of(p)};
  parts.a_m = Expr(div_up(p.k, kSimdSegment) * kSimdSegment);
  parts.a_z = p.m * parts.a_m;
  parts.a = widened(c, b, q, parts.a_m, tactic.steps);
  add_tables(c, b, p, parts, tactic.steps);
  add_launches(c, b, p, parts, tactic.steps);
  return tactic;
}

}  // namespace tv
