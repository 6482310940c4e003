// ATen's products of matrices and vectors, as tv::matmul and pointwise nodes.

#include "converters/kit/flops.h"
#include "converters/kit/matmul_nodes.h"
#include "converters/kit/shape_types.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

using Expand = decltype(Converter::expand);

ValueId as_row(Rewriter& rw, ValueId v) { return rw.reshape(v, {1, rw.graph().value(v).shape[0]}); }
ValueId as_column(Rewriter& rw, ValueId v) {
  return rw.reshape(v, {rw.graph().value(v).shape[0], 1});
}

/// torch.matmul's rules: vectors become a row or a column whose dimension is dropped again.
ValueId matmul_any(Rewriter& rw, ValueId a, ValueId b, DType dtype, const Shape& out) {
  if (rw.graph().rank(a) == 1) a = as_row(rw, a);
  if (rw.graph().rank(b) == 1) b = as_column(rw, b);
  return rw.reshape(matmul_of(rw, a, b, dtype), out);
}

/// out = a · b for the named arguments.
Expand plain(const char* a, const char* b) {
  return [a, b](const NodeContext& c, Rewriter& rw) {
    rw.replace(
        0, matmul_any(rw, c.node.input(a), c.node.input(b), c.output().dtype, c.output().shape));
  };
}

/// `value` times the argument, a number that may depend on symbols.
ValueId times(const NodeContext& c, Rewriter& rw, ValueId value, const char* factor) {
  const Expr* e = c.node.has(factor) ? std::get_if<Expr>(&c.node.arg(factor).attr) : nullptr;
  if (e == nullptr || e->is_constant()) {
    return scaled(rw, value, c.node.has(factor) ? c.node.number(factor) : 1.0);
  }
  const Value& v = rw.graph().value(value);
  return rw.add("aten::mul.Scalar", {tensor_arg("self", value), attr_arg("other", *e)}, v.dtype,
                v.shape);
}

/// Whether the argument is 0; throws Error(kUnsupported) if that is not known.
bool is_zero(const NodeContext& c, const char* factor) {
  const Expr* e = c.node.has(factor) ? std::get_if<Expr>(&c.node.arg(factor).attr) : nullptr;
  if (e == nullptr || e->is_constant()) return c.node.has(factor) && c.node.number(factor) == 0;
  const auto [low, high] = e->bounds(c.graph.symbols);
  if (low > 0 || high < 0) return false;
  throw Error(ErrorKind::kUnsupported, "[" + c.node.op + "] " + factor + " may be 0: " + e->str());
}

/// out = beta · self + alpha · (a · b); beta = 0 leaves self out, nan and all.
Expand with_self(const char* a, const char* b) {
  return [a, b](const NodeContext& c, Rewriter& rw) {
    const DType dtype = c.output().dtype, sums = sum_dtype(dtype);
    ValueId out = matmul_any(rw, c.node.input(a), c.node.input(b), sums, c.output().shape);
    out = times(c, rw, out, "alpha");
    if (!is_zero(c, "beta")) {
      const ValueId self = times(c, rw, rw.cast(c.node.input("self"), sums), "beta");
      out = rw.pointwise("add", {out, self}, sums);
    }
    rw.replace(0, rw.cast(out, dtype));
  };
}

void linear(const NodeContext& c, Rewriter& rw) {
  const DType dtype = c.output().dtype;
  const ValueId input = c.node.input("input"), weight = c.node.input("weight");
  const bool has_bias = c.node.has("bias");
  const ValueId columns = rw.graph().rank(weight) == 1 ? weight : transposed(rw, weight);
  ValueId out =
      matmul_any(rw, input, columns, has_bias ? sum_dtype(dtype) : dtype, c.output().shape);
  if (has_bias) {
    out = rw.pointwise("add", {out, rw.cast(c.node.input("bias"), sum_dtype(dtype))},
                       sum_dtype(dtype));
  }
  rw.replace(0, rw.cast(out, dtype));
}

std::string one_dtype(const NodeContext& c) {
  DType first = DType::kOther;
  for (const Arg& arg : c.node.args) {
    if (!arg.is_tensor || arg.values.empty() || arg.values[0] == kNoValue) continue;
    const DType dtype = c.graph.value(arg.values[0]).dtype;
    if (dtype == DType::kBool || (first != DType::kOther && dtype != first)) {
      return "[" + c.node.op + "] operands must have one numeric dtype; got " +
             std::string(name(dtype)) + " for " + arg.name;
    }
    first = dtype;
  }
  return c.output().shape.size() > 5 ? "[" + c.node.op + "] more than 3 batch dimensions" : "";
}

/// torch.matmul's result of two operands.
Shape type_of_product(NodeTypes& t, const char* first, const char* second) {
  Shape a = t.shape(first), b = t.shape(second);
  t.want(!a.empty() && !b.empty(), "a scalar is no matrix");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), Expr(1));
  if (column) b.emplace_back(1);
  t.equal(b[b.size() - 2], a.back(), std::string("the rows of argument '") + second + "'");
  Shape made = t.broadcast(types::leading(a, 2), types::leading(b, 2), "a batch");
  if (!row) made.push_back(a[a.size() - 2]);
  if (!column) made.push_back(b.back());
  return made;
}

void types_of_matmul(NodeTypes& t) { t.gives(type_of_product(t, "self", "other")); }

Converter product(std::string op, Expand expand) {
  return {.op = std::move(op), .unsupported = one_dtype, .expand = std::move(expand)};
}

/// A product that passes read as one.
Converter product(std::string op, Expand expand, const ProductArgs& args) {
  Converter made = counted(product(std::move(op), std::move(expand)), flops_of_product(args.a));
  made.product = args;
  return made;
}

const RegisterConverter products{
    typed(product("aten::mm", plain("self", "mat2"), {.a = "self", .b = "mat2"}),
          "self T[m k], mat2 T[k n] -> [m n]"),
    typed(product("aten::bmm", plain("self", "mat2"), {.a = "self", .b = "mat2"}),
          "self [b m k], mat2 [b k n] -> [b m n]"),
    typed(product("aten::matmul", plain("self", "other"), {.a = "self", .b = "other"}),
          types_of_matmul),
    typed(counted(product("aten::mv", plain("self", "vec")), flops_of_product("self")),
          "self [m k], vec [k] -> [m]"),
    typed(counted(product("aten::dot", plain("self", "tensor")), flops_of_product("self")),
          "self [n], tensor [n] -> [] | self [n], other [n] -> []"),
    typed(product("aten::vdot", plain("self", "other")),
          "self [n], tensor [n] -> [] | self [n], other [n] -> []"),
    typed(product("aten::addmm", with_self("mat1", "mat2"),
                  {.a = "mat1", .b = "mat2", .bias = "self"}),
          "mat1 [m k], mat2 [k n], self ~[m n] -> [m n]"),
    typed(counted(product("aten::baddbmm", with_self("batch1", "batch2")),
                  flops_of_product("batch1")),
          "batch1 [b m k], batch2 [b k n], self ~[b m n] -> [b m n]"),
    typed(product("aten::addmv", with_self("mat", "vec")), "mat [m k], vec [k], self ~[m] -> [m]"),
    typed(product("aten::linear", linear,
                  {.a = "input", .b = "weight", .bias = "bias", .b_by_steps = false}),
          "input [*b k], weight [o k], bias ~[o] -> [*b o] | "
          "input [*b k], weight [k], bias [] -> [*b]"),
};

}  // namespace
}  // namespace tv
