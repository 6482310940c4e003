// Systems of equations with a triangular matrix.

#include "converters/kit/matmul_nodes.h"
#include "converters/linalg/linalg.h"
#include "converters/linalg/linalg_types.h"

namespace tv {
namespace {

constexpr int kColumns = 32;  // of b, by a workgroup; one an invocation

void convert(const NodeContext& c, Builder& b) {
  const Shape& shape = c.shape("other");
  const Expr columns = shape.back(), total = product_of(shape, 0, shape.size() - 2) * columns;
  const bool upper = c.node.flag("upper"), transposed = c.node.flag("transposed");
  const int64_t count = *c.shape("self").back().constant();
  Step step{.kernel = "solve_triangle",
            .defines = {{"N", std::to_string(count) + "u"},
                        {"FORWARD", upper == transposed ? "1" : "0"},
                        {"TRANSPOSED", transposed ? "1" : "0"},
                        {"UNIT", c.node.flag("unit") ? "1" : "0"}},
            .operands = {src("t", c.node.input("self")), src("b", c.node.input("other")),
                         dst("y", c.node.outputs[0])},
            .params = {param("total", total), param("columns", columns)},
            .grid = Grid::flat_groups(ceil_div(total, kColumns)),
            .local_size = {kColumns, 1, 1},
            .iterations = count * (count + 1) / 2};
  b.emit({{.name = "solve_triangle", .steps = {step}}});
}

ValueId with_columns(Rewriter& rw, ValueId t, ValueId b, Triangle triangle, bool left) {
  const Shape& from = rw.graph().value(t).shape;
  const Shape& to = rw.graph().value(b).shape;
  const ValueId matrix = expanded(rw, t, broadcast_batch(from, to, from));
  const ValueId given = expanded(rw, b, broadcast_batch(from, to, to));
  if (left) return solve_triangle(rw, matrix, given, triangle);
  triangle.transposed = !triangle.transposed;
  return transposed(rw, solve_triangle(rw, matrix, transposed(rw, given), triangle));
}

void linalg_form(const NodeContext& c, Rewriter& rw) {
  const Triangle triangle{.upper = c.node.flag("upper"), .unit = c.node.flag("unitriangular")};
  rw.replace(
      0, with_columns(rw, c.node.input("self"), c.node.input("B"), triangle, c.node.flag("left")));
}

void older_form(const NodeContext& c, Rewriter& rw) {
  const Triangle triangle{.upper = c.node.flag("upper"),
                          .transposed = c.node.flag("transpose"),
                          .unit = c.node.flag("unitriangular")};
  const ValueId a = c.node.input("A");
  rw.replace(0, with_columns(rw, a, c.node.input("self"), triangle, true));
  if (is_used(c.graph, c.node.outputs[1])) rw.replace(1, expanded(rw, a, c.output(1).shape));
}

/// by the factor L (or U) of a, as the second argument: two triangles.
void cholesky_solve(const NodeContext& c, Rewriter& rw) {
  const bool upper = c.node.flag("upper");
  const Shape& from = c.shape("input2");
  const Shape& to = c.shape("self");
  const ValueId t = expanded(rw, c.node.input("input2"), broadcast_batch(from, to, from));
  const ValueId b = expanded(rw, c.node.input("self"), broadcast_batch(from, to, to));
  const ValueId half = solve_triangle(rw, t, b, {.upper = upper, .transposed = upper});
  rw.replace(0, solve_triangle(rw, t, half, {.upper = upper, .transposed = !upper}));
}

auto of_matrices(std::string first, std::string second) {
  return [=](const NodeContext& c) {
    const std::string refusal = matrix_refusal(c, first);
    if (!refusal.empty() || c.dtype(second) == DType::kF32) return refusal;
    return "[" + c.node.op + "] of another type than float32";
  };
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  for (const int which : {0, 1, 2, 3}) {
    graphs.push_back(ExampleGraph("tv::solve_triangle")
                         .input("self", DType::kF32, {2, 7, 7})
                         .input("other", DType::kF32, {2, 7, 41})
                         .attr("upper", which % 2 != 0)
                         .attr("transposed", which / 2 != 0)
                         .attr("unit", which == 3)
                         .output(DType::kF32, {2, 7, 41})
                         .graph());
  }
  return graphs;
}

const RegisterConverter solves{
    {.op = "tv::solve_triangle", .convert = convert, .epilogue = true, .examples = examples},
    {.op = "aten::linalg_solve_triangular",
     .unsupported = of_matrices("self", "B"),
     .expand = linalg_form,
     .types = types::solves("self", "B")},
    {.op = "aten::triangular_solve",
     .unsupported = of_matrices("A", "self"),
     .expand = older_form,
     .types = types::solves("A", "self")},
    {.op = "aten::cholesky_solve",
     .unsupported = of_matrices("input2", "self"),
     .expand = cholesky_solve,
     .types = types::solves("input2", "self")},
};

}  // namespace
}  // namespace tv
