#include "converters/matmul/matmul_coopmat.h"

#include <algorithm>

#include "csrc/graph/strided.h"

namespace tv {

namespace {

constexpr int64_t kUnitWords = 4;  // 32-bit words of a unit of 16 bytes

/// Whether chunks of neighbours along a dimension of `count` elements and stride `along` lie at
/// multiples of a chunk.
bool has_chunks(const Expr& count, const Expr& along, const Expr& across, const Shape& batch) {
  return along == Expr(1) && divides(kChunk, count) && divides(kChunk, across) &&
         std::all_of(batch.begin(), batch.end(), [](const Expr& s) { return divides(kChunk, s); });
}

/// The batch strides of a side; none of them moves: the batch shares the matrix.
struct Side {
  const Shape& strides;
  bool batched;
};

Side side_of(const Product& p, bool side_a) {
  const Shape& strides = side_a ? p.batch.a : p.batch.b;
  return {strides, !std::all_of(strides.begin(), strides.end(),
                                [](const Expr& s) { return s == Expr(0); })};
}

}  // namespace

std::string SplitPrecision::name() const {
  const std::string type = input == DType::kF16 ? "f16" : "bf16";
  return count == 1 && !scaled ? type : type + "x" + text(count);
}

double SplitPrecision::error() const { return scaled && count == 1 ? 0x1p-10 : 0; }

bool divides(int64_t divisor, const Expr& value) { return mod(value, divisor) == Expr(0); }

bool is_aligned(const NodeContext& c, ValueId id) {
  return divides(16, layout_of(c.graph, id).offset * Expr(size_bytes(c.graph.value(id).dtype)));
}

MatrixProblem matrix_problem(const NodeContext& c, Builder& b, const Product& p,
                             const SplitPrecision& pieces) {
  MatrixProblem q{.c = c, .b = b, .p = p, .pieces = pieces, .a = c.node.input("a"),
            .w = c.node.input("b"), .y = c.node.outputs[0]};
  q.m = typical(c.graph, p.m);
  q.n = typical(c.graph, p.n);
  q.k = typical(c.graph, p.k);
  q.z = typical(c.graph, p.batch.count());
  q.a_rows = is_aligned(c, q.a) && has_chunks(p.k, p.a_k, p.a_m, p.batch.a);
  q.a_cols = is_aligned(c, q.a) && has_chunks(p.m, p.a_m, p.a_k, p.batch.a);
  q.b_rows = is_aligned(c, q.w) && has_chunks(p.n, p.b_n, p.b_k, p.batch.b);
  q.b_cols = is_aligned(c, q.w) && has_chunks(p.k, p.b_k, p.b_n, p.batch.b);
  return q;
}

MadeSide add_scales(const MatrixProblem& q, bool side_a, std::vector<Step>& steps) {
  const Product& p = q.p;
  const Side side = side_of(p, side_a);
  const Expr spans = side_a ? p.m : p.n, groups = ceil_div(spans, kFragment);
  const Expr matrices = side.batched ? p.batch.count() : Expr(1);
  const Expr &s_span = side_a ? p.a_m : p.b_n, &s_k = side_a ? p.a_k : p.b_k;
  MadeSide made{q.b.scratch(side_a ? "scale_a" : "scale_b", DType::kF32, {matrices, groups * 2}),
                side.batched ? groups * 2 : Expr(0)};
  Step step{.kernel = "matmul_scale",
            .defines = {{"SPANS_NEXT", s_span == Expr(1) ? "1" : "0"},
                        {"SPREAD", q.pieces.count == 1 ? "24" : "18"}},
            .operands = {src("x", side_a ? q.a : q.w), dst("y", made.value)},
            .params = {param("span_count", spans), param("k_count", p.k), param("groups", groups),
                       param("s_span", s_span), param("s_k", s_k)},
            .grid = {{groups, 1, matrices}},
            .local_size = {256, 1, 1}};
  add_batch(step, p.batch, side.strides, "s");
  steps.push_back(std::move(step));
  return made;
}

MadeSide add_packing(const MatrixProblem& q, bool side_a, const Packing& packing,
                     std::vector<Step>& steps) {
  const Product& p = q.p;
  const Side side = side_of(p, side_a);
  const Expr spans = round_up(side_a ? p.m : p.n, packing.multiple);
  const Expr fragments = ceil_div(spans, kFragment) * packing.k_steps;
  const int64_t unit = q.pieces.count * 32;
  const Expr matrices = side.batched ? p.batch.count() : Expr(1);
  MadeSide made{q.b.scratch(side_a ? "packed_a" : "packed", DType::kI32,
                            {(matrices * fragments + packing.slack) * (unit * kUnitWords)}),
                side.batched ? fragments * unit : Expr(0)};
  Step step{.kernel = "matmul_pack",
            .defines = {{"SIDE_A", side_a ? "1" : "0"},
                        {"PAIRED", packing.paired ? "1" : "0"},
                        {"PIECES", text(q.pieces.count)},
                        {"SCALED", q.pieces.scaled ? "1" : "0"},
                        {"TO_16", q.pieces.input == DType::kF16 ? "tv_to_f16" : "tv_to_bf16"}},
            .operands = {src("x", side_a ? q.a : q.w), dst("y", made.value)},
            .params = {param("fragments", fragments), param("k_steps", packing.k_steps),
                       param("span_count", side_a ? p.m : p.n), param("k_count", p.k),
                       param("s_span", side_a ? p.a_m : p.b_n),
                       param("s_k", side_a ? p.a_k : p.b_k), param("y_z", made.z_step)},
            .grid = {{ceil_div(fragments, 8), 1, matrices}},
            .local_size = {256, 1, 1},
            .subgroup_size = 32,
            .matrix = CooperativeMatrix{.input = q.pieces.input, .denormals = q.pieces.scaled}};
  if (packing.scales != nullptr) {
    step.operands.push_back(src("scale", packing.scales->value));
    step.params.push_back(param("scale_z", packing.scales->z_step));
  }
  add_batch(step, p.batch, side.strides, "s");
  steps.push_back(std::move(step));
  return made;
}

}  // namespace tv
