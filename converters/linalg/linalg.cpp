#include "converters/linalg/linalg.h"

#include <algorithm>

#include "converters/kit/matmul_nodes.h"

namespace tv {
namespace {

constexpr int64_t kSharedBytes = 32768;

const Shape& shape_of(Rewriter& rw, ValueId v) { return rw.graph().value(v).shape; }

ValueId rows_of(Rewriter& rw, ValueId b, ValueId rows) {
  Shape places = shape_of(rw, rows);
  places.emplace_back(1);
  return rw.add("aten::gather",
                {tensor_arg("self", b), attr_arg("dim", integer(-2)),
                 tensor_arg("index", expanded(rw, rw.reshape(rows, places), shape_of(rw, b)))},
                DType::kF32, shape_of(rw, b));
}

}  // namespace

ValueId expanded(Rewriter& rw, ValueId value, const Shape& shape) {
  if (shape_of(rw, value) == shape) return value;
  return rw.add("aten::expand", {tensor_arg("self", value), attr_arg("size", shape)},
                rw.graph().value(value).dtype, shape);
}

Shape broadcast_batch(const Shape& a, const Shape& b, const Shape& matrix) {
  Shape batch;
  const size_t rank = std::max(a.size(), b.size()) - 2;
  for (size_t d = 0; d < rank; ++d) {
    const auto size = [&](const Shape& s) {
      return d + s.size() < rank + 2 ? Expr(1) : s[d + s.size() - rank - 2];
    };
    batch.push_back(size(a) == Expr(1) ? size(b) : size(a));
  }
  batch.insert(batch.end(), matrix.end() - 2, matrix.end());
  return batch;
}

ValueId solve_triangle(Rewriter& rw, ValueId t, ValueId b, Triangle triangle) {
  const Shape shape = shape_of(rw, b);
  if (shape[shape.size() - 2] == Expr(0)) return b;
  return rw.add("tv::solve_triangle",
                {tensor_arg("self", t), tensor_arg("other", b), attr_arg("upper", triangle.upper),
                 attr_arg("transposed", triangle.transposed), attr_arg("unit", triangle.unit)},
                DType::kF32, shape);
}

Factors lu_factors(Rewriter& rw, ValueId a) {
  const Shape& shape = shape_of(rw, a);
  Shape info(shape.begin(), shape.end() - 2), pivots = info;
  pivots.push_back(min(shape[shape.size() - 2], shape.back()));
  const auto results =
      rw.add_multi("tv::lu_factor", {tensor_arg("self", a)},
                   {{DType::kF32, shape}, {DType::kI32, pivots}, {DType::kI32, info}});
  return {results[0], results[1], results[2]};
}

ValueId pivoted_rows(Rewriter& rw, ValueId pivots, const Expr& count, bool inverse) {
  Shape rows = shape_of(rw, pivots);
  rows.back() = count;
  return rw.add("tv::pivoted_rows", {tensor_arg("self", pivots), attr_arg("inverse", inverse)},
                DType::kI32, rows);
}

ValueId solve_factored(Rewriter& rw, ValueId lu, ValueId pivots, ValueId b, bool transposed) {
  const Expr count = shape_of(rw, lu).back();
  const ValueId rows = pivoted_rows(rw, pivots, count, transposed);
  const Triangle lower{.transposed = transposed, .unit = true};
  const Triangle upper{.upper = true, .transposed = transposed};
  if (!transposed) {
    return solve_triangle(rw, lu, solve_triangle(rw, lu, rows_of(rw, b, rows), lower), upper);
  }
  return rows_of(rw, solve_triangle(rw, lu, solve_triangle(rw, lu, b, upper), lower), rows);
}

std::string matrix_refusal(const NodeContext& c, const std::string& arg) {
  const std::string at = "[" + c.node.op + "] ";
  if (c.dtype(arg) != DType::kF32) return at + "matrices of another type than float32";
  const Shape& shape = c.shape(arg);
  if (shape.size() < 2) return at + "needs matrices";
  const auto rows = shape[shape.size() - 2].constant(), cols = shape.back().constant();
  if (!rows || !cols) return at + "matrices need fixed sizes";
  const int64_t most = std::min<int64_t>(c.device.max_shared_bytes, kSharedBytes) / 4 - 64;
  if (*rows * *cols > most) {
    return at + "matrices of more than " + std::to_string(most) +
           " elements: one has to fit a workgroup's shared memory";
  }
  const int64_t group = matrix_group(c.device), least = std::min(*rows, *cols);
  return loops_too_long(
      c, Expr(least * (*rows + 3 + 3 * (*rows + *cols) / group + *rows * *cols / group)));
}

uint32_t matrix_group(const DeviceProfile& device) { return device.is_cpu() ? 16 : 64; }

}  // namespace tv
