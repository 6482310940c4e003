#include "converters/kit/reduction.h"

#include <algorithm>
#include <numeric>

namespace tv {

Expr count_in(const Shape& shape, const std::vector<int64_t>& dims) {
  Expr count = 1;
  for (const int64_t d : dims) count *= shape.at(d);
  return count;
}

std::vector<int64_t> reduced_dims(const NodeContext& c, const std::string& arg) {
  const int64_t rank = c.rank("self");
  std::vector<int64_t> dims;
  if (c.node.has(arg)) dims = c.node.integers(arg);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }
  if (rank == 0) return {};
  for (int64_t& d : dims) d = c.wrap(d, rank);
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

ValueId add_reduce(Rewriter& rewriter, ValueId self, const Reduction& reduction, DType dtype) {
  const Shape in = rewriter.graph().value(self).shape;
  Shape out;
  std::vector<Expr> dims(reduction.dims.begin(), reduction.dims.end());
  for (size_t i = 0; i < in.size(); ++i) {
    const bool reduced =
        std::find(reduction.dims.begin(), reduction.dims.end(), i) != reduction.dims.end();
    if (!reduced) out.push_back(in[i]);
    if (reduced && reduction.keepdim) out.emplace_back(1);
  }
  std::vector<Arg> args = {tensor_arg("self", self), attr_arg("kind", reduction.kind),
                           attr_arg("dims", dims)};
  if (reduction.divisor) args.push_back(attr_arg("divisor", *reduction.divisor));
  return rewriter.add("tv::reduce", std::move(args), dtype, std::move(out));
}

}  // namespace tv
