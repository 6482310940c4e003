// tv::matmul_integer: products of 8-bit integers with zero points, and aten::_int_mm, which has
// none.

#include "converters/matmul/integer/matmul_integer.h"

#include <algorithm>
#include <iterator>

#include "converters/matmul/few_rows.h"
#include "converters/matmul/matmul.h"
#include "converters/matmul/matrix_units.h"

namespace tv {
namespace {

constexpr int64_t kQuad = 4;                  // elements of a word
constexpr const char* kFlip = "0x80808080u";  // makes bytes of 0 … 255 those of -128 … 127

IntegerMatrix operand_of(const NodeContext& c, const Builder& b, const char* arg,
                         const char* zero) {
  const Shape& shape = c.shape(arg);
  const size_t row = shape.size() - 2;
  const Shape strides = b.strides_of(c.node.input(arg));
  IntegerMatrix x{.value = c.node.input(arg),
                  .zero = c.node.input(zero),
                  .rows = shape[row],
                  .row_stride = strides[row],
                  .k_stride = strides[row + 1],
                  .batch_stride = row > 0 ? strides[0] : Expr(0)};
  x.by_rows = x.zero != kNoValue && !(c.graph.value(x.zero).shape[0] == Expr(1));
  return x;
}

IntegerProduct product_of_node(const NodeContext& c, const Builder& b) {
  IntegerProduct p{.a = operand_of(c, b, "a", "a_zero"), .b = operand_of(c, b, "b", "b_zero")};
  p.m = p.a.rows;
  p.n = p.b.rows;
  p.k = c.shape("a").back();
  p.batched = c.rank("a") == 3;
  if (p.batched) p.batch = c.shape("a")[0];
  return p;
}

bool is_unsigned(const NodeContext& c, const IntegerMatrix& x) {
  return c.graph.value(x.value).dtype == DType::kU8;
}

bool is_shifted(const NodeContext& c, const IntegerMatrix& x) {
  return is_unsigned(c, x) || x.zero != kNoValue;
}

/// Zero points as integer_zeros.glsl wants them.
void add_zeros(const IntegerProduct& p, Step& step) {
  const auto add = [&](const char* name, const char* flag_name, const IntegerMatrix& x) {
    step.defines.emplace_back(flag_name, flag(x.zero != kNoValue));
    if (x.zero == kNoValue) return;
    step.operands.push_back(src(name, x.zero));
    step.params.push_back(param(name + std::string("_row"), Expr(x.by_rows ? 1 : 0)));
  };
  add("a_zero", "A_ZERO", p.a);
  add("b_zero", "B_ZERO", p.b);
}

/// Both operands in words, with the sizes of the product.
void add_words(const NodeContext& c, Builder& b, const IntegerProduct& p, Tactic& tactic,
               Step& step) {
  add_integer_operands(c, b, p, {}, tactic, step);
  step.params.insert(step.params.end(),
                     {param("m_count", p.m), param("n_count", p.n), param("k_count", p.k),
                      param("quads", ceil_div(p.k, kQuad))});
}

/// Blocks of `height` x 4 results an invocation.
Tactic simt_tactic(const NodeContext& c, Builder& b, const IntegerProduct& p, int64_t height) {
  Tactic tactic{.name = "matmul_integer_simt_" + text(height) + "x4"};
  const Expr across = ceil_div(p.n, 4), blocks = ceil_div(p.m, height);
  Step step{.kernel = "matmul_integer_simt",
            .defines = {{"HEIGHT", text(height)}},
            .params = {param("across", across), param("blocks", blocks), param("batch", p.batch)},
            .grid = one_each(p.batch * blocks * across, 64),
            .iterations = ceil_div(p.k, kQuad)};
  add_words(c, b, p, tactic, step);
  step.operands.push_back(dst("y", c.node.outputs[0]));
  tactic.steps.push_back(std::move(step));
  return tactic;
}

Tactic tiled_tactic(const NodeContext& c, Builder& b, const IntegerProduct& p, int64_t rows,
                    int64_t cols) {
  constexpr int64_t kWords = 8, kPerThread = 4;
  const int64_t threads = rows / kPerThread * (cols / kPerThread);
  Tactic tactic{.name = "matmul_integer_tiled_" + text(rows) + "x" + text(cols)};
  if (c.device.is_cpu()) tactic.refusal = "workgroups that share memory are slow on a CPU";
  if (threads > c.device.max_workgroup_invocations) {
    tactic.refusal = "workgroups of " + text(threads) + " invocations are not possible";
  }
  if (tactic.refusal.empty()) tactic.refusal = batch_refusal(c, p.batch);
  if (!tactic.refusal.empty()) return tactic;
  Step step{.kernel = "matmul_integer_tiled",
            .defines = {{"BM", text(rows)},
                        {"BN", text(cols)},
                        {"BK", text(kWords)},
                        {"RM", text(kPerThread)},
                        {"RN", text(kPerThread)}},
            .grid = {{ceil_div(p.n, cols), ceil_div(p.m, rows), p.batch}},
            .local_size = {static_cast<uint32_t>(threads), 1, 1}};
  add_words(c, b, p, tactic, step);
  step.operands.push_back(dst("y", c.node.outputs[0]));
  tactic.steps.push_back(std::move(step));
  return tactic;
}

Tactic reference_tactic(const NodeContext& c, const IntegerProduct& p) {
  const Expr elements = product(c.output().shape);
  Step step{.kernel = "matmul_integer_reference",
            .operands = {src("a", p.a.value), src("b", p.b.value)},
            .params = {param("elements", elements), param("m_count", p.m), param("n_count", p.n),
                       param("k_count", p.k)},
            .grid = one_each(elements, 64),
            .iterations = p.k};
  for (const auto& [name, x] : {std::pair{"a", &p.a}, std::pair{"b", &p.b}}) {
    const std::string prefix = name;
    step.params.push_back(param(prefix + "_z", x->batch_stride));
    step.params.push_back(param(prefix + (x == &p.a ? "_m" : "_n"), x->row_stride));
    step.params.push_back(param(prefix + "_k", x->k_stride));
  }
  add_zeros(p, step);
  step.operands.push_back(dst("y", c.node.outputs[0]));
  return {.name = "matmul_integer_reference", .steps = {std::move(step)}};
}

/// Few rows: a subgroup for some columns, whose bytes are read once for `rows` rows of a.
Tactic rows_tactic(const NodeContext& c, Builder& b, const IntegerProduct& p, const RowsTile& t,
                   int64_t run) {
  Tactic tactic{.name = "matmul_integer_rows_" + t.name(),
                .refusal = rows_refusal(c.device, t, typical(c.graph, p.m))};
  if (tactic.refusal.empty()) tactic.refusal = batch_refusal(c, p.batch);
  if (!tactic.refusal.empty()) return tactic;
  Step step = rows_step("matmul_integer_rows", c.device, t, p.m, p.n);
  step.grid.groups[2] = p.batch;
  const Expr quads = ceil_div(p.k, run) * (run / kQuad);
  const int64_t words = run / kQuad;
  step.defines.emplace_back("WORDS", text(words));
  add_integer_operands(c, b, p, {.run = run}, tactic, step);
  step.params.insert(step.params.end(), {param("m_count", p.m), param("n_count", p.n),
                                         param("k_count", p.k), fixed("quads", quads)});
  step.iterations = ceil_div(quads, words * c.device.subgroup_size * t.wk) + t.wk + t.rows;
  step.operands.push_back(dst("y", c.node.outputs[0]));
  tactic.steps.push_back(std::move(step));
  return tactic;
}

std::vector<Tactic> rows_tactics(const NodeContext& c, Builder& b, const IntegerProduct& p) {
  // Runs of 16 bytes, where no operand has to be copied for them alone.
  const bool in_words = divides(kQuad, p.k) && !divides(kUvec4Bytes, p.k);
  const int64_t run = in_words ? kQuad : kUvec4Bytes, k = typical(c.graph, p.k);
  const FewRows problem{.m = typical(c.graph, p.m),
                        .n = typical(c.graph, p.n * p.batch),
                        .steps = div_up(k, run * std::max(c.device.subgroup_size, 1U)),
                        .heights = {16, 8, 4, 2, 1}};
  std::vector<Tactic> tactics;
  for (const RowsTile& tile : rows_tiles(c.device, problem)) {
    tactics.push_back(rows_tactic(c, b, p, tile, run));
  }
  return tactics;
}

void convert(const NodeContext& c, Builder& b) {
  const IntegerProduct p = product_of_node(c, b);
  const int64_t m = typical(c.graph, p.m);
  std::vector<Tactic> tactics;
  std::vector<int64_t> rows = {12, 8, 4, 2, 1};
  constexpr int64_t kUnpack =
      4;  // rows whose products take as long as to unpack what they multiply
  std::ranges::stable_sort(rows, {}, [&](int64_t r) { return div_up(m, r) * (kUnpack + r); });
  for (const int64_t r : rows) tactics.push_back(integer_simd_tactic(c, b, p, r));
  const bool few = m <= 16;
  std::vector<Tactic> tiles = integer_matrix_tactics(c, b, p);
  if (!few) tiles.push_back(tiled_tactic(c, b, p, 64, 64));
  std::ranges::move(in_order(rows_tactics(c, b, p), std::move(tiles), m),
                    std::back_inserter(tactics));
  for (const int64_t height : few ? std::vector<int64_t>{1, 4} : std::vector<int64_t>{4, 1}) {
    tactics.push_back(simt_tactic(c, b, p, height));
  }
  tactics.push_back(tiled_tactic(c, b, p, 16, 64));
  if (few) tactics.push_back(tiled_tactic(c, b, p, 64, 64));
  tactics.push_back(reference_tactic(c, p));
  b.emit(std::move(tactics));
}

bool is_byte(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

std::string unsupported(const NodeContext& c) {
  if (!is_byte(c.dtype("a")) || !is_byte(c.dtype("b"))) {
    return "got " + std::string(name(c.dtype("a"))) + " and " + std::string(name(c.dtype("b"))) +
           "; int8 or uint8 would work";
  }
  return loops_too_long(c, c.shape("a").back());
}

std::string int_mm_unsupported(const NodeContext& c) {
  const DType a = c.dtype("self"), b = c.dtype("mat2");
  if (!is_byte(a) || b != DType::kI8) {
    return "got " + std::string(name(a)) + " and " + std::string(name(b)) +
           "; int8 or uint8 times int8 would work";
  }
  return loops_too_long(c, c.shape("mat2").at(0));
}

void expand_int_mm(const NodeContext& c, Rewriter& rw) {
  rw.replace(0, rw.add("tv::matmul_integer",
                       {tensor_arg("a", c.node.input("self")),
                        tensor_arg("b", rw.permute(c.node.input("mat2"), {1, 0})),
                        tensor_arg("a_zero", kNoValue), tensor_arg("b_zero", kNoValue)},
                       DType::kI32, c.output().shape));
}

struct Example {
  int64_t m, n, k;
  DType a = DType::kI8, b = DType::kI8;
  DType a_zero = DType::kOther, b_zero = DType::kOther;
  bool by_rows = false;
  int64_t batch = 0;  ///< 0: none
};

Graph example(const Example& e) {
  Shape a = {e.m, e.k}, b = {e.n, e.k}, y = {e.m, e.n};
  for (Shape* shape : {&a, &b, &y}) {
    if (e.batch > 0) shape->insert(shape->begin(), Expr(e.batch));
  }
  ExampleGraph graph("tv::matmul_integer");
  graph.input("a", e.a, a).input("b", e.b, b);
  const auto zero = [&](const char* name, DType dtype, int64_t rows) {
    dtype == DType::kOther ? graph.none(name) : graph.input(name, dtype, {e.by_rows ? rows : 1, 1});
  };
  zero("a_zero", e.a_zero, e.m);
  zero("b_zero", e.b_zero, e.n);
  return graph.output(DType::kI32, y).graph();
}

std::vector<Graph> examples() {
  using enum DType;
  const std::vector<Example> cases = {
      {7, 5, 11},
      {7, 5, 12, kU8},
      {37, 41, 192, kI8, kI8, kI64, kOther},
      {1, 70, 300, kU8, kI8, kU8},
      {9, 40, 130, kU8, kU8, kU8, kI32},
      {29, 53, 256, kI8, kI8, kI8, kI8, true},
      {67, 33, 61, kU8, kU8, kU8, kU8, true},
      {11, 37, 64, kU8, kI8, kU8, kI8, false, 3},
      {5, 7, 9, kI8, kU8, kOther, kU8, false, 2},
      {12, 64, 2048, kU8, kI8, kU8},
      {3, 21, 1108, kU8, kU8, kU8, kU8},
      {16, 35, 1040, kI8, kU8, kI8, kI64, true},
      {2, 19, 272, kI8, kI8, kOther, kI8, false, 3},
  };
  std::vector<Graph> graphs;
  for (const Example& e : cases) graphs.push_back(example(e));
  return graphs;
}

/// One zero point, or one of each row of the operand.
void zero_points(NodeTypes& t) {
  for (const auto& [zero, operand] : {std::pair{"a_zero", "a"}, {"b_zero", "b"}}) {
    if (!t.has(zero)) continue;
    const Shape shape = t.shape(zero), rows = t.shape(operand);
    t.want(shape.size() == 2, std::string("argument '") + zero + "' is not of rank 2");
    t.equal(shape[1], 1, zero);
    if (!(shape[0] == Expr(1))) t.equal(shape[0], rows[rows.size() - 2], zero);
  }
}

const RegisterConverter integers{
    {.op = "tv::matmul_integer",
     .unsupported = unsupported,
     .convert = convert,
     .reads_views = {"a", "b"},
     .epilogue = true,
     .types = TypeRule("a [*b m k], b [*b n k] -> [*b m n] | a [*b m k], b [n k] -> [*b m n] | "
                       "a [m k], b [*b n k] -> [*b m n]") &
              zero_points,
     .schema = "tv::matmul_integer(Tensor a, Tensor b, Tensor? a_zero, Tensor? b_zero) -> Tensor",
     .examples = examples},
    {.op = "aten::_int_mm",
     .unsupported = int_mm_unsupported,
     .expand = expand_int_mm,
     .translates = true,
     .types = "self i[m k], mat2 i[k n] -> [m n]"}};

}  // namespace

ValueId integer_rows(const NodeContext& c, Builder& b, const char* name, const IntegerMatrix& x,
                     const IntegerProduct& p, const IntegerRows& rows, std::vector<Step>& steps) {
  const Value& value = c.graph.value(x.value);
  const Expr length = round_up(p.k, rows.run);
  const bool as_it_lies = b.strides_of(x.value) == contiguous_strides(value.shape) &&
                          length == p.k && (!value.view || value.view->offset == Expr(0));
  if (as_it_lies && !rows.in_runs) return x.value;
  const bool flips = rows.flipped && value.dtype == DType::kU8;
  const Expr elements = p.batch * x.rows * length;
  const Expr kept = rows.in_runs ? round_up(x.rows, kFragment) : x.rows;
  const ValueId scratch =
      b.scratch(name, flips ? DType::kI8 : value.dtype, {p.batch, kept, length});
  steps.push_back(
      {.kernel = "matmul_integer_pack",
       .defines = {{"FLIPPED", flag(flips)}, {"IN_RUNS", flag(rows.in_runs)}},
       .operands = {src("x", x.value), dst("y", scratch)},
       .params = {param("elements", elements), param("rows", x.rows), param("k_count", p.k),
                  param("length", length), param("x_z", x.batch_stride),
                  param("x_row", x.row_stride), param("x_k", x.k_stride)},
       .grid = one_each(elements, 64)});
  return scratch;
}

ValueId any_shifted(Builder& b, const ByteShifts& of, std::vector<Step>& steps) {
  if (of.zero == kNoValue || !b.is_constant(of.zero)) return kNoValue;
  const ValueId any = b.scratch("any_shifted", DType::kI32, {1});
  steps.push_back({.kernel = "integer_any",
                   .defines = {{"OFFSET", of.is_unsigned ? "128" : "0"}},
                   .operands = {src("x", of.zero), dst("y", any)},
                   .params = {param("count", of.count), param("x_step", of.step)},
                   .grid = Grid::flat_groups(1),
                   .local_size = {64, 1, 1}});
  return any;
}

void add_integer_operands(const NodeContext& c, Builder& b, const IntegerProduct& p,
                          const IntegerOperands& how, Tactic& tactic, Step& step) {
  const auto add = [&](const char* name, const char* packed, const IntegerMatrix& x, bool in_runs) {
    Operand operand = src(
        name, integer_rows(c, b, packed, x, p, {.run = how.run, .in_runs = in_runs}, tactic.steps));
    operand.vec4 = true;
    // What is packed is flipped already.
    const bool flips = is_unsigned(c, x) && operand.value == x.value;
    step.operands.push_back(operand);
    return std::pair(operand, std::string(flips ? kFlip : "0u"));
  };
  const std::string a_flip = add("a", "a_words", p.a, false).second;
  const auto [bb, b_flip] = add("b", "b_words", p.b, how.b_in_runs);
  step.defines.insert(step.defines.end(), {{"A_FLIP", a_flip},
                                           {"B_FLIP", b_flip},
                                           {"A_OFFSET", is_unsigned(c, p.a) ? "128" : "0"},
                                           {"B_OFFSET", is_unsigned(c, p.b) ? "128" : "0"},
                                           {"A_SHIFTED", flag(is_shifted(c, p.a))},
                                           {"B_SHIFTED", flag(is_shifted(c, p.b))}});
  add_zeros(p, step);
  if (how.asks_b) {
    const ValueId any = any_shifted(b,
                                    {.zero = p.b.zero,
                                     .count = p.b.by_rows ? p.n : Expr(1),
                                     .step = Expr(p.b.by_rows ? 1 : 0),
                                     .is_unsigned = is_unsigned(c, p.b)},
                                    tactic.steps);
    step.defines.emplace_back("B_ANY", flag(any != kNoValue));
    if (any != kNoValue) step.operands.push_back(src("b_any", any));
  }
  step.params.push_back(param("b_rows", p.batched ? p.n : Expr(0)));
  const Expr quads = ceil_div(p.k, how.run) * (how.run / kQuad);
  if (!is_shifted(c, p.a) || how.finds_b_sums) return;
  const Expr rows = p.batch * p.n;
  const ValueId sums = b.scratch("b_sums", DType::kI32, {rows});
  Operand x = bb;
  x.name = "x";
  tactic.steps.push_back({.kernel = "matmul_integer_sums",
                          .defines = {{"X_FLIP", b_flip}, {"IN_RUNS", flag(how.b_in_runs)}},
                          .operands = {x, dst("y", sums)},
                          .params = {param("rows", rows), param("quads", quads)},
                          .grid = one_each(rows, 64),
                          .iterations = quads});
  step.operands.push_back(src("b_sums", sums));
}

}  // namespace tv
