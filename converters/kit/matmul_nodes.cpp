#include "converters/kit/matmul_nodes.h"

#include <algorithm>
#include <numeric>

namespace tv {

ValueId matmul_of(Rewriter& rw, ValueId a, ValueId b, DType dtype) {
  const Shape sa = rw.graph().value(a).shape, sb = rw.graph().value(b).shape;
  const size_t rank = std::max(sa.size(), sb.size());
  Shape out;
  for (size_t i = 0; i + 2 < rank; ++i) {
    const size_t lead_a = rank - sa.size(), lead_b = rank - sb.size();
    const Expr da = i < lead_a ? Expr(1) : sa[i - lead_a],
               db = i < lead_b ? Expr(1) : sb[i - lead_b];
    out.push_back(da == Expr(1) ? db : da);
  }
  out.push_back(sa[sa.size() - 2]);
  out.push_back(sb[sb.size() - 1]);
  return rw.add("tv::matmul", {tensor_arg("a", a), tensor_arg("b", b)}, dtype, std::move(out));
}

ValueId transposed(Rewriter& rw, ValueId value) {
  std::vector<int64_t> dims(rw.graph().value(value).shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return rw.permute(value, dims);
}

ValueId scaled(Rewriter& rw, ValueId value, double factor) {
  if (factor == 1.0) return value;
  return rw.pointwise("mul", {value}, rw.graph().value(value).dtype, {factor});
}

DType sum_dtype(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype;
}

}  // namespace tv
