// Factorisations of square and other matrices, and what is made of them: solutions, inverses and
// determinants. A workgroup factors one matrix.

#include "converters/kit/matmul_nodes.h"
#include "converters/linalg/linalg.h"
#include "converters/linalg/linalg_types.h"

namespace tv {
namespace {

const Shape& shape_of(Rewriter& rw, ValueId v) { return rw.graph().value(v).shape; }

// --- kernels ---

Step matrix_step(const NodeContext& c, const std::string& kernel, const std::string& second) {
  const Shape& shape = c.shape("self");
  const Expr matrices = product_of(shape, 0, shape.size() - 2);
  Step step{.kernel = kernel,
            .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
            .params = {param("matrices", matrices)},
            .grid = Grid::flat_groups(matrices),
            .local_size = {matrix_group(c.device), 1, 1}};
  if (!second.empty()) step.operands.push_back(dst(second, c.node.outputs[1]));
  step.operands.push_back(dst("info", c.node.outputs.back()));
  const int64_t rows = *shape[shape.size() - 2].constant(), cols = *shape.back().constant();
  const int64_t group = matrix_group(c.device);
  step.iterations =
      std::min(rows, cols) * (rows + 3 + 3 * (rows + cols) / group + rows * cols / group);
  return step;
}

std::string literal(const Expr& size) { return std::to_string(*size.constant()) + "u"; }

void convert_lu(const NodeContext& c, Builder& b) {
  Step step = matrix_step(c, "lu_factor", "pivots");
  const Shape& shape = c.shape("self");
  step.defines = {{"M", literal(shape[shape.size() - 2])}, {"N", literal(shape.back())}};
  b.emit({{.name = "lu_factor", .steps = {step}}});
}

void convert_cholesky(const NodeContext& c, Builder& b) {
  Step step = matrix_step(c, "cholesky", "");
  step.defines = {{"N", literal(c.shape("self").back())},
                  {"UPPER", c.node.flag("upper") ? "1" : "0"}};
  b.emit({{.name = "cholesky", .steps = {step}}});
}

void convert_rows(const NodeContext& c, Builder& b) {
  const Expr total = product(c.output().shape);
  Step step{.kernel = "pivoted_rows",
            .defines = {{"INVERSE", c.node.flag("inverse") ? "1" : "0"}},
            .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
            .params = {param("total", total), param("count", c.output().shape.back()),
                       param("exchanges", c.shape("self").back())},
            .iterations = c.shape("self").back()};
  emit_flat(b, std::move(step), total);
}

// --- ATen's forms ---

void replace_used(const NodeContext& c, Rewriter& rw, size_t index, ValueId value) {
  if (is_used(c.graph, c.node.outputs.at(index))) rw.replace(index, value);
}

void lu_factor_ex(const NodeContext& c, Rewriter& rw) {
  const Factors f = lu_factors(rw, c.node.input("A"));
  rw.replace(0, f.lu);
  rw.replace(1, f.pivots);
  rw.replace(2, f.info);
}

ValueId numbers(Rewriter& rw, const Expr& count, Shape shape) {
  const ValueId range = rw.add("aten::arange", {attr_arg("end", count)}, DType::kI32, {count});
  return rw.reshape(range, std::move(shape));
}

ValueId first_of(Rewriter& rw, ValueId value, int64_t dim, const Expr& count) {
  Shape shape = shape_of(rw, value);
  const size_t at = shape.size() - static_cast<size_t>(-dim);
  if (shape[at] == count) return value;
  shape[at] = count;
  return rw.add("aten::slice.Tensor",
                {tensor_arg("self", value), attr_arg("dim", integer(dim)),
                 attr_arg("start", Expr(0)), attr_arg("end", count), attr_arg("step", Expr(1))},
                rw.graph().value(value).dtype, shape);
}

ValueId identity(Rewriter& rw, const Expr& rows, const Expr& cols) {
  const ValueId same = rw.pointwise(
      "eq", {numbers(rw, rows, {rows, Expr(1)}), numbers(rw, cols, {Expr(1), cols})}, DType::kBool);
  return rw.cast(same, DType::kF32);
}

ValueId triangle_of(Rewriter& rw, ValueId value, const char* op, int64_t diagonal) {
  return rw.add(op, {tensor_arg("self", value), attr_arg("diagonal", integer(diagonal))},
                DType::kF32, shape_of(rw, value));
}

struct Unpacked {
  ValueId lower, upper;
};

Unpacked unpacked(Rewriter& rw, ValueId lu) {
  const Shape shape = shape_of(rw, lu);
  const Expr rows = shape[shape.size() - 2], cols = shape.back(), least = min(rows, cols);
  const ValueId below = triangle_of(rw, first_of(rw, lu, -1, least), "aten::tril", -1);
  return {rw.pointwise("add", {below, identity(rw, rows, least)}, DType::kF32),
          triangle_of(rw, first_of(rw, lu, -2, least), "aten::triu", 0)};
}

/// The permutation P of P L U.
ValueId permutation(Rewriter& rw, ValueId pivots, const Expr& rows) {
  const ValueId from = pivoted_rows(rw, pivots, rows, false);
  Shape across = shape_of(rw, from);
  across.insert(across.end() - 1, Expr(1));
  const ValueId one = rw.pointwise(
      "eq", {numbers(rw, rows, {rows, Expr(1)}), rw.reshape(from, across)}, DType::kBool);
  return rw.cast(one, DType::kF32);
}

void lu_unpack(const NodeContext& c, Rewriter& rw) {
  const Unpacked u = unpacked(rw, c.node.input("LU_data"));
  const Shape& shape = c.shape("LU_data");
  replace_used(c, rw, 0, permutation(rw, c.node.input("LU_pivots"), shape[shape.size() - 2]));
  replace_used(c, rw, 1, u.lower);
  replace_used(c, rw, 2, u.upper);
}

void lu(const NodeContext& c, Rewriter& rw) {
  const Shape& shape = c.shape("A");
  const Factors f = lu_factors(rw, c.node.input("A"));
  const Unpacked u = unpacked(rw, f.lu);
  replace_used(c, rw, 0, permutation(rw, f.pivots, shape[shape.size() - 2]));
  replace_used(c, rw, 1, u.lower);
  replace_used(c, rw, 2, u.upper);
}

ValueId solution(Rewriter& rw, ValueId factored, ValueId pivots, ValueId b, bool left,
                 bool adjoint) {
  const Shape& from = shape_of(rw, factored);
  const Shape to = shape_of(rw, b);
  Shape rows = broadcast_batch(from, to, from);
  const ValueId lu = expanded(rw, factored, rows);
  rows.pop_back();
  const ValueId exchanges = expanded(rw, pivots, rows);
  const ValueId given = expanded(rw, b, broadcast_batch(from, to, to));
  if (left) return solve_factored(rw, lu, exchanges, given, adjoint);
  return transposed(rw, solve_factored(rw, lu, exchanges, transposed(rw, given), !adjoint));
}

void lu_solve(const NodeContext& c, Rewriter& rw) {
  rw.replace(0, solution(rw, c.node.input("LU"), c.node.input("pivots"), c.node.input("B"),
                         c.node.flag("left"), c.node.flag("adjoint")));
}

void solve_ex(const NodeContext& c, Rewriter& rw) {
  const Shape& a = c.shape("A");
  Shape b = c.shape("B"), vectors = a;
  vectors.pop_back();
  const bool vector = b.size() == 1 || b == vectors;
  if (vector) b.emplace_back(1);
  const Factors f = lu_factors(rw, c.node.input("A"));
  const ValueId x =
      solution(rw, f.lu, f.pivots, rw.reshape(c.node.input("B"), b), c.node.flag("left"), false);
  rw.replace(0, rw.reshape(x, c.output().shape));
  replace_used(c, rw, 3, f.info);
}

void inverse(const NodeContext& c, Rewriter& rw) {
  const Shape& shape = c.shape("A");
  const Factors f = lu_factors(rw, c.node.input("A"));
  const ValueId one = expanded(rw, identity(rw, shape.back(), shape.back()), shape);
  rw.replace(0, solve_factored(rw, f.lu, f.pivots, one, false));
  replace_used(c, rw, 1, f.info);
}

ValueId product_over(Rewriter& rw, ValueId value, const char* op) {
  Shape shape = shape_of(rw, value);
  shape.pop_back();
  const bool sum = std::string(op) == "aten::sum.dim_IntList";
  return rw.add(op,
                {tensor_arg("self", value), attr_arg("dim", sum ? ints({-1}) : integer(-1)),
                 attr_arg("keepdim", false)},
                DType::kF32, shape);
}

struct Diagonal {
  ValueId values, parity;  ///< of U; 1 or -1
};

Diagonal diagonal(Rewriter& rw, const Factors& f) {
  const Shape pivots = shape_of(rw, f.pivots);
  const ValueId values = rw.add("aten::diagonal",
                                {tensor_arg("self", f.lu), attr_arg("offset", integer(0)),
                                 attr_arg("dim1", integer(-2)), attr_arg("dim2", integer(-1))},
                                DType::kF32, pivots);
  const ValueId places = numbers(rw, pivots.back(), {pivots.back()});
  const ValueId next = rw.pointwise("add", {places}, DType::kI32, {1.0});
  const ValueId moved = rw.cast(rw.pointwise("ne", {f.pivots, next}, DType::kBool), DType::kF32);
  const ValueId signs =
      rw.pointwise("rsub", {rw.pointwise("mul", {moved}, DType::kF32, {2.0})}, DType::kF32, {1.0});
  return {values, product_over(rw, signs, "aten::prod.dim_int")};
}

void det(const NodeContext& c, Rewriter& rw) {
  const Diagonal d = diagonal(rw, lu_factors(rw, c.node.input("A")));
  const ValueId size = product_over(rw, d.values, "aten::prod.dim_int");
  rw.replace(0, rw.pointwise("mul", {size, d.parity}, DType::kF32));
}

void slogdet(const NodeContext& c, Rewriter& rw) {
  const Diagonal d = diagonal(rw, lu_factors(rw, c.node.input("A")));
  const ValueId signs =
      product_over(rw, rw.pointwise("sign", {d.values}, DType::kF32), "aten::prod.dim_int");
  const ValueId logs =
      rw.pointwise("log", {rw.pointwise("abs", {d.values}, DType::kF32)}, DType::kF32);
  rw.replace(0, rw.pointwise("mul", {signs, d.parity}, DType::kF32));
  rw.replace(1, product_over(rw, logs, "aten::sum.dim_IntList"));
}

void cholesky_ex(const NodeContext& c, Rewriter& rw) {
  const auto results = rw.add_multi(
      "tv::cholesky",
      {tensor_arg("self", c.node.input("self")), attr_arg("upper", c.node.flag("upper"))},
      {{DType::kF32, c.output().shape}, {DType::kI32, c.output(1).shape}});
  rw.replace(0, results[0]);
  rw.replace(1, results[1]);
}

/// `hidden`: the first of two results that are not computed.
auto refusal(std::string matrices, size_t hidden = 0) {
  return [=](const NodeContext& c) -> std::string {
    const std::string at = "[" + c.node.op + "] ";
    for (const char* flag : {"pivot", "unpack_data", "unpack_pivots"}) {
      if (c.node.has(flag) && !c.node.flag(flag)) return at + "without " + flag;
    }
    if (c.node.has("check_errors") && c.node.flag("check_errors")) {
      return at + "it raises an error where the data is singular";
    }
    for (size_t i = hidden; hidden != 0 && i < hidden + 2; ++i) {
      if (is_used(c.graph, c.node.outputs.at(i))) {
        return at + "its factors are used, which may be those of the transposed matrix";
      }
    }
    if (c.node.has("B") && c.dtype("B") != DType::kF32) return at + "of another type than float32";
    return matrix_refusal(c, matrices);
  };
}

std::vector<Graph> lu_examples() {
  std::vector<Graph> graphs;
  for (const auto& [m, n] : {std::pair{7, 7}, std::pair{5, 11}}) {
    graphs.push_back(ExampleGraph("tv::lu_factor")
                         .input("self", DType::kF32, {2, m, n})
                         .output(DType::kF32, {2, m, n})
                         .output(DType::kI32, {2, std::min(m, n)})
                         .output(DType::kI32, {2})
                         .graph());
  }
  return graphs;
}

std::vector<Graph> cholesky_examples() {
  std::vector<Graph> graphs;
  for (const bool upper : {false, true}) {
    graphs.push_back(ExampleGraph("tv::cholesky")
                         .input("self", DType::kF32, {2, 7, 7})
                         .attr("upper", upper)
                         .output(DType::kF32, {2, 7, 7})
                         .output(DType::kI32, {2})
                         .graph());
  }
  return graphs;
}

std::vector<Graph> row_examples() {
  std::vector<Graph> graphs;
  for (const bool inverse : {false, true}) {
    graphs.push_back(ExampleGraph("tv::pivoted_rows")
                         .input("self", DType::kI32, {2, 5})
                         .attr("inverse", inverse)
                         .output(DType::kI32, {2, 7})
                         .graph());
  }
  return graphs;
}

const RegisterConverter factorisations{
    {.op = "tv::lu_factor", .convert = convert_lu, .examples = lu_examples},
    {.op = "tv::cholesky", .convert = convert_cholesky, .examples = cholesky_examples},
    {.op = "tv::pivoted_rows", .convert = convert_rows, .examples = row_examples},
    {.op = "aten::linalg_lu_factor_ex",
     .unsupported = refusal("A"),
     .expand = lu_factor_ex,
     .types = "A T[*b m n] -> T[*b m n], [*b .], [*b]"},
    {.op = "aten::linalg_lu",
     .unsupported = refusal("A"),
     .expand = lu,
     .types = "A T[*b m n] -> [*], T[*b m k], T[*b k n]"},
    {.op = "aten::lu_unpack",
     .unsupported = refusal("LU_data"),
     .expand = lu_unpack,
     .types = "LU_data T[*b m n], LU_pivots [*b .] -> [*], [*], [*]"},
    {.op = "aten::linalg_lu_solve",
     .unsupported = refusal("LU"),
     .expand = lu_solve,
     .types = types::lu_solve},
    {.op = "aten::_linalg_solve_ex",
     .unsupported = refusal("A", 1),
     .expand = solve_ex,
     .types = types::solve_ex},
    {.op = "aten::linalg_inv_ex",
     .unsupported = refusal("A"),
     .expand = inverse,
     .types = "A T[*b n n] -> T[*b n n], [*b]"},
    {.op = "aten::_linalg_det",
     .unsupported = refusal("A", 1),
     .expand = det,
     .types = "A T[*b n n] -> T[*b], T[*b n n], [*b n]"},
    {.op = "aten::_linalg_slogdet",
     .unsupported = refusal("A", 2),
     .expand = slogdet,
     .types = "A T[*b n n] -> T[*b], T[*b], T[*b n n], [*b n]"},
    {.op = "aten::linalg_cholesky_ex",
     .unsupported = refusal("self"),
     .expand = cholesky_ex,
     .types = "self T[*b n n] -> T[*b n n], [*b]"},
};

}  // namespace
}  // namespace tv
