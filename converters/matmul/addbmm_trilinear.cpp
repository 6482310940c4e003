// Sums of products that expand into others: addbmm, _trilinear (nn.Bilinear).

#include <algorithm>

#include "converters/kit/reduction.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

/// The batch becomes part of the summed dimension.
void addbmm(const NodeContext& c, Rewriter& r) {
  const Shape a = c.shape("batch1"), b = c.shape("batch2");
  const ValueId left = r.reshape(r.permute(c.node.input("batch1"), {1, 0, 2}), {a[1], a[0] * a[2]});
  const ValueId right = r.reshape(c.node.input("batch2"), {b[0] * b[1], b[2]});
  r.replace(0, r.add("aten::addmm",
                     {tensor_arg("self", c.node.input("self")), tensor_arg("mat1", left),
                      tensor_arg("mat2", right), attr_arg("beta", c.node.arg("beta").attr),
                      attr_arg("alpha", c.node.arg("alpha").attr)},
                     c.output().dtype, c.output().shape));
}

/// Each factor gets dimensions of size 1 at its `expand` places; the product is summed over sumdim.
void trilinear(const NodeContext& c, Rewriter& r) {
  const DType dtype = c.output().dtype;
  const auto factor = [&](const char* arg, const char* places) {
    Shape shape = c.shape(arg);
    for (const int64_t at : c.node.integers(places)) shape.insert(shape.begin() + at, Expr(1));
    return r.cast(r.reshape(c.node.input(arg), shape), DType::kF32);
  };
  const ValueId pair =
      r.pointwise("mul", {factor("i1", "expand1"), factor("i2", "expand2")}, DType::kF32);
  const ValueId all = r.pointwise("mul", {pair, factor("i3", "expand3")}, DType::kF32);
  r.replace(0, add_reduce(r, all, {.kind = "sum", .dims = c.node.integers("sumdim")}, dtype));
}

std::string trilinear_unsupported(const NodeContext& c) { return floats_only(c, "i1"); }

void trilinear_types(NodeTypes& t) {
  size_t rank = 0;
  for (const auto& [tensor, dims] :
       {std::pair{"i1", "expand1"}, {"i2", "expand2"}, {"i3", "expand3"}}) {
    const size_t its = t.shape(tensor).size() + t.node().exprs(dims).size();
    t.want(rank == 0 || its == rank, "the operands' ranks differ");
    rank = its;
  }
}

const RegisterConverter products{
    {.op = "aten::addbmm",
     .expand = addbmm,
     .types = "batch1 [b m k], batch2 [b k n], self ~[m n] -> [m n]"},
    {.op = "aten::_trilinear",
     .unsupported = trilinear_unsupported,
     .expand = trilinear,
     .types = trilinear_types},
};

}  // namespace
}  // namespace tv
