// Arithmetic on complex values, by their parts.

#include <algorithm>

#include "converters/complex/complex.h"
#include "converters/kit/shape_types.h"

namespace tv {
namespace {

using Expand = decltype(Converter::expand);

/// A complex value's parts and arithmetic on them.
struct Parts {
  ValueId re, im;
};

class Arithmetic {
 public:
  Arithmetic(const NodeContext& c, Rewriter& r, DType dtype) : c_(c), r_(r), dtype_(dtype) {}

  Parts parts(const std::string& arg) {
    const ValueId x = r_.cast(c_.node.input(arg), dtype_);
    if (is_complex(c_, arg)) return {part(r_, x, 0), part(r_, x, 1)};
    return {x, filled(r_, 0, dtype_, r_.graph().value(x).shape)};
  }
  ValueId of(const char* function, ValueId a) { return r_.pointwise(function, {a}, dtype_); }
  ValueId of(const char* function, ValueId a, ValueId b) {
    return r_.pointwise(function, {a, b}, dtype_);
  }
  ValueId sum_of_products(Parts a, Parts b, const char* join) {
    return of(join, of("mul", a.re, b.re), of("mul", a.im, b.im));
  }
  Parts product(Parts a, Parts b) {
    return {sum_of_products(a, b, "sub"), sum_of_products(a, {b.im, b.re}, "add")};
  }
  ValueId choose(ValueId condition, ValueId yes, ValueId no) {
    return r_.pointwise("where", {condition, yes, no}, dtype_);
  }
  /// R. L. Smith, "Algorithm 116: Complex division", 1962, and by zero each part by 0, as PyTorch:
  /// squares of the divisor, which overflow or vanish, are not made.
  Parts quotient(Parts a, Parts b) {
    const ValueId re_size = of("abs", b.re), im_size = of("abs", b.im);
    const ValueId by_re = r_.pointwise("ge", {re_size, im_size}, DType::kBool);
    const ValueId by_zero =
        r_.pointwise("eq", {of("maximum", re_size, im_size)}, DType::kBool, {0.0});
    const ValueId large = choose(by_re, b.re, b.im), small = choose(by_re, b.im, b.re);
    const ValueId ratio = of("div", small, large);
    const ValueId divisor = of("add", large, of("mul", small, ratio));
    const ValueId re =
        of("add", choose(by_re, a.re, a.im), of("mul", choose(by_re, a.im, a.re), ratio));
    const ValueId im = choose(by_re, of("sub", a.im, of("mul", a.re, ratio)),
                              of("sub", of("mul", a.im, ratio), a.re));
    return {choose(by_zero, of("div", a.re, re_size), of("div", re, divisor)),
            choose(by_zero, of("div", a.im, im_size), of("div", im, divisor))};
  }
  void give(Parts p) { r_.replace(0, joined(r_, p.re, p.im)); }
  void give(ValueId value) { r_.replace(0, r_.cast(value, c_.output().dtype)); }

 private:
  const NodeContext& c_;
  Rewriter& r_;
  DType dtype_;
};

Arithmetic arithmetic(const NodeContext& c, Rewriter& r) { return {c, r, c.output().dtype}; }

/// Functions that treat the parts alike: the same on pairs, scaled by a real number.
Expand on_pairs(const char* function, const char* scaled, bool with_other) {
  return [=](const NodeContext& c, Rewriter& r) {
    const DType dtype = c.output().dtype;
    std::vector<ValueId> operands{as_complex(c, r, "self", dtype)};
    if (with_other) operands.push_back(as_complex(c, r, "other", dtype));
    const bool is_scaled = c.node.has("alpha") && c.node.number("alpha") != 1;
    r.replace(0, is_scaled ? r.pointwise(scaled, operands, dtype, {c.node.number("alpha")})
                           : r.pointwise(function, operands, dtype));
  };
}

/// The number `other`, which the importer gives as a list of two where it is complex.
Parts number_of(const NodeContext& c, Rewriter& r, DType dtype) {
  const auto* both = std::get_if<std::vector<double>>(&c.node.arg("other").attr);
  return {filled(r, both ? both->at(0) : c.node.number("other"), dtype, {}),
          filled(r, both ? both->at(1) : 0, dtype, {})};
}

bool is_real_number(const NodeContext& c) {
  return !std::holds_alternative<std::vector<double>>(c.node.arg("other").attr);
}

/// Times or divided by a number; a real one treats the parts alike.
Expand by_number(const char* function) {
  return [function](const NodeContext& c, Rewriter& r) {
    const ValueId self = c.node.input("self");
    if (is_real_number(c) && is_complex(c, "self")) {
      r.replace(0, r.pointwise(function, {self}, c.output().dtype, {c.node.number("other")}));
      return;
    }
    Arithmetic a = arithmetic(c, r);
    const Parts x = a.parts("self"), number = number_of(c, r, c.output().dtype);
    a.give(std::string(function) == "mul" ? a.product(x, number) : a.quotient(x, number));
  };
}

Expand plus_number(const char* function, const char* scaled) {
  return [=](const NodeContext& c, Rewriter& r) {
    const DType dtype = c.output().dtype;
    const Parts parts = number_of(c, r, dtype);
    const ValueId number = joined(r, parts.re, parts.im);
    const double alpha = c.node.has("alpha") ? c.node.number("alpha") : 1;
    const ValueId x = as_complex(c, r, "self", dtype);
    r.replace(0, alpha == 1 ? r.pointwise(function, {x, number}, dtype)
                            : r.pointwise(scaled, {x, number}, dtype, {alpha}));
  };
}

/// Equal, or not, in both parts; with a tensor or a number.
Expand compared(const char* function, const char* join) {
  return [=](const NodeContext& c, Rewriter& r) {
    const DType dtype = is_float(c.dtype("self")) ? c.dtype("self") : DType::kF32;
    Arithmetic a(c, r, dtype);
    const bool tensors = c.node.arg("other").is_tensor;
    const Parts x = a.parts("self"), y = tensors ? a.parts("other") : number_of(c, r, dtype);
    const ValueId re = r.pointwise(function, {x.re, y.re}, DType::kBool);
    const ValueId im = r.pointwise(function, {x.im, y.im}, DType::kBool);
    r.replace(0, r.pointwise(join, {re, im}, DType::kBool));
  };
}

/// A number of Python's.
void scalar(const NodeContext& c, Rewriter& r) {
  const DType dtype = c.output().dtype;
  r.replace(0, joined(r, filled(r, c.node.number("real"), dtype, {}),
                      filled(r, c.node.number("imag"), dtype, {})));
}

void conjugate(const NodeContext& c, Rewriter& r) {
  Arithmetic a = arithmetic(c, r);
  const Parts x = a.parts("self");
  a.give(Parts{x.re, a.of("neg", x.im)});
}

void make(const NodeContext& c, Rewriter& r) {
  r.replace(0, joined(r, c.node.input("real"), c.node.input("imag")));
}

void polar(const NodeContext& c, Rewriter& r) {
  Arithmetic a = arithmetic(c, r);
  const ValueId size = c.node.input("abs"), angle = c.node.input("angle");
  a.give(Parts{a.of("mul", size, a.of("cos", angle)), a.of("mul", size, a.of("sin", angle))});
}

void multiply(const NodeContext& c, Rewriter& r) {
  Arithmetic a = arithmetic(c, r);
  a.give(a.product(a.parts("self"), a.parts("other")));
}

void divide(const NodeContext& c, Rewriter& r) {
  Arithmetic a = arithmetic(c, r);
  a.give(a.quotient(a.parts("self"), a.parts("other")));
}

void invert(const NodeContext& c, Rewriter& r) {
  Arithmetic a = arithmetic(c, r);
  const Parts x = a.parts("self");
  const Shape shape = r.graph().value(x.re).shape;
  a.give(a.quotient({filled(r, 1, c.output().dtype, shape), filled(r, 0, c.output().dtype, shape)},
                    x));
}

void magnitude(const NodeContext& c, Rewriter& r) {
  Arithmetic a = arithmetic(c, r);
  const Parts x = a.parts("self");
  a.give(a.of("hypot", x.re, x.im));
}

void angle(const NodeContext& c, Rewriter& r) {
  Arithmetic a = arithmetic(c, r);
  const Parts x = a.parts("self");
  a.give(a.of("atan2", x.im, x.re));
}

/// x / |x|, and 0 for 0.
void direction(const NodeContext& c, Rewriter& r) {
  Arithmetic a = arithmetic(c, r);
  const Parts x = a.parts("self");
  const ValueId size = a.of("hypot", x.re, x.im);
  const ValueId something = r.pointwise("ne", {size}, DType::kBool, {0.0});
  const ValueId nothing = filled(r, 0, c.output().dtype, {});
  const auto scaled = [&](ValueId p) {
    return r.pointwise("where", {something, a.of("div", p, size), nothing}, c.output().dtype);
  };
  a.give(Parts{scaled(x.re), scaled(x.im)});
}

void exponential(const NodeContext& c, Rewriter& r) {
  Arithmetic a = arithmetic(c, r);
  const Parts x = a.parts("self");
  const ValueId size = a.of("exp", x.re);
  a.give(Parts{a.of("mul", size, a.of("cos", x.im)), a.of("mul", size, a.of("sin", x.im))});
}

void logarithm(const NodeContext& c, Rewriter& r) {
  Arithmetic a = arithmetic(c, r);
  const Parts x = a.parts("self");
  a.give(Parts{a.of("log", a.of("hypot", x.re, x.im)), a.of("atan2", x.im, x.re)});
}

/// Over dimensions that are counted from the front; without any, over all but the pair's.
void sum(const NodeContext& c, Rewriter& r) {
  const ValueId x = c.node.input("self");
  const int64_t rank = c.graph.rank(x) - 1;
  std::vector<Expr> dims;
  if (c.node.has("dim")) {
    for (const int64_t d : c.node.integers("dim")) dims.emplace_back(c.wrap(d, rank));
  }
  if (dims.empty()) {
    for (int64_t d = 0; d < rank; ++d) dims.emplace_back(d);
  }
  const DType dtype = c.output().dtype;
  const Shape shape = c.output().shape;
  const std::string op =
      c.node.op.starts_with("complex::mean") ? "aten::mean.dim" : "aten::sum.dim_IntList";
  r.replace(0, rank == 0 ? r.add("aten::alias", {tensor_arg("self", x)}, dtype, shape)
                         : r.add(op,
                                 {tensor_arg("self", x), attr_arg("dim", dims),
                                  attr_arg("keepdim", c.node.flag("keepdim"))},
                                 dtype, shape));
}

/// Four real products.
Expand matrices(const std::string& op, const std::string& second) {
  return [=](const NodeContext& c, Rewriter& r) {
    Arithmetic a = arithmetic(c, r);
    const Parts x = a.parts("self"), y = a.parts(second);
    const auto times = [&](ValueId p, ValueId q) {
      return r.add(op, {tensor_arg("self", p), tensor_arg(second, q)}, c.output().dtype,
                   without_pair(c.output().shape));
    };
    a.give(Parts{a.of("sub", times(x.re, y.re), times(x.im, y.im)),
                 a.of("add", times(x.re, y.im), times(x.im, y.re))});
  };
}

std::string gives_complex(const NodeContext& c) {
  return is_complex(c, "result") ? "" : "[" + c.node.op + "] the result must be complex";
}
std::string takes_complex(const NodeContext& c) {
  return is_complex(c, "self") ? "" : "[" + c.node.op + "] the argument must be complex";
}

/// Of real parts.
TypeRule of_parts(const char* first, const char* second) {
  return [=](NodeTypes& t) { t.gives(t.broadcast(t.shape(first), t.shape(second), "a size")); };
}

Converter entry(const char* name, Expand expand,
                decltype(Converter::unsupported) refuse = gives_complex) {
  return {.op = std::string("complex::") + name,
          .unsupported = std::move(refuse),
          .expand = std::move(expand)};
}

const RegisterConverter functions{
    entry("add.Tensor", on_pairs("add", "add_scaled", true)),
    entry("sub.Tensor", on_pairs("sub", "sub_scaled", true)),
    entry("add.Scalar", plus_number("add", "add_scaled")),
    entry("sub.Scalar", plus_number("sub", "sub_scaled")),
    entry("rsub.Scalar", plus_number("rsub", "rsub_scaled")),
    described(typed(entry("scalar", scalar), "-> []"),
              "complex::scalar(float real, float imag) -> Tensor"),
    entry("eq.Tensor", compared("eq", "logical_and"), nullptr),
    entry("eq.Scalar", compared("eq", "logical_and"), nullptr),
    entry("ne.Tensor", compared("ne", "logical_or"), nullptr),
    entry("ne.Scalar", compared("ne", "logical_or"), nullptr),
    entry("neg", on_pairs("neg", "", false)),
    entry("mul.Tensor", multiply),
    entry("mul.Scalar", by_number("mul")),
    entry("div.Tensor", divide),
    entry("div.Scalar", by_number("div")),
    entry("reciprocal", invert),
    typed(entry("_conj", conjugate), types::kSame),
    typed(entry("_conj_physical", conjugate), types::kSame),
    typed(entry("conj_physical", conjugate), types::kSame),
    typed(entry("complex", make), of_parts("real", "imag")),
    typed(entry("polar", polar), of_parts("abs", "angle")),
    entry("abs", magnitude, takes_complex),
    entry("angle", angle, takes_complex),
    entry("sgn", direction),
    entry("exp", exponential),
    entry("log", logarithm),
    entry("sum", sum),
    entry("sum.dim_IntList", sum),
    entry("mean", sum),
    entry("mean.dim", sum),
    entry("mm", matrices("aten::mm", "mat2")),
    entry("mv", matrices("aten::mv", "vec")),
    entry("bmm", matrices("aten::bmm", "mat2")),
};

}  // namespace
}  // namespace tv
