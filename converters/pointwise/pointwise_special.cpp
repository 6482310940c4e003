// Special functions: gamma's and Bessel's families, orthogonal polynomials, and functions of a
// float's parts (gamma.glsl, bessel.glsl, orthogonal.glsl).

#include <cmath>

#include "converters/kit/pointwise_rules.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

PointwiseRule of_one(const char* op, const char* function) {
  return {.op = op, .function = function, .compute = Compute::kFloat};
}

PointwiseRule of_x(const char* op, const char* function) {
  return {.op = op, .function = function, .args = {"x"}, .compute = Compute::kFloat};
}

/// n! · zeta(n + 1, x), with the sign of the n-th derivative; 0 and 1 have forms of their own.
std::string polygamma(const NodeContext& c, PointwiseInstr& instr) {
  const int64_t n = c.node.integer("n");
  instr.scalars.clear();
  instr.integers.clear();
  if (n == 0) return "digamma";
  if (n == 1) return "trigamma";
  instr.scalars = {static_cast<double>(n + 1),
                   (n % 2 == 0 ? -1.0 : 1.0) * std::tgamma(static_cast<double>(n) + 1)};
  return "polygamma";
}

/// The next number of a 16-bit type is another one than float32's.
std::string next_float(const NodeContext& c, PointwiseInstr&) {
  return c.output().dtype == DType::kF32 ? "nextafter" : "nextafter in 16 bits";
}

const RegisterPointwise gammas({
    of_one("aten::lgamma", "lgamma"),
    of_one("aten::digamma", "digamma"),
    of_one("aten::special_erfcx", "erfcx"),
    of_one("aten::special_ndtri", "ndtri"),
    {.op = "aten::polygamma", .compute = Compute::kFloat, .choose = polygamma},
    {.op = "aten::igamma",
     .function = "igamma",
     .args = {"self", "other"},
     .compute = Compute::kFloat},
    {.op = "aten::igammac",
     .function = "igammac",
     .args = {"self", "other"},
     .compute = Compute::kFloat},
    {.op = "aten::_standard_gamma_grad",
     .formula = PointwiseRow{.on_float = "tv_gamma_grad($0, $1)", .error = "32", .iterations = 15},
     .args = {"self", "output"},
     .compute = Compute::kFloat,
     .notes = "right where PyTorch's powers underflow and it gives 0"},
    {.op = "aten::special_zeta",
     .function = "zeta",
     .args = {"self", "other"},
     .compute = Compute::kFloat},
    {.op = "aten::special_zeta.other_scalar",
     .function = "zeta",
     .args = {"self", "other"},
     .compute = Compute::kFloat},
    {.op = "aten::special_zeta.self_scalar",
     .function = "rzeta",
     .args = {"other", "self"},
     .compute = Compute::kFloat},
});

const RegisterPointwise bessels({
    of_one("aten::i0", "i0"),
    of_one("aten::special_i0e", "i0e"),
    of_one("aten::special_i1", "i1"),
    of_one("aten::special_i1e", "i1e"),
    of_one("aten::special_modified_bessel_i0", "i0"),
    of_one("aten::special_modified_bessel_i1", "i1"),
    of_one("aten::special_modified_bessel_k0", "k0"),
    of_one("aten::special_modified_bessel_k1", "k1"),
    of_x("aten::special_scaled_modified_bessel_k0", "k0e"),
    of_x("aten::special_scaled_modified_bessel_k1", "k1e"),
    of_one("aten::special_bessel_j0", "bessel_j0"),
    of_one("aten::special_bessel_j1", "bessel_j1"),
    of_one("aten::special_bessel_y0", "bessel_y0"),
    of_one("aten::special_bessel_y1", "bessel_y1"),
    of_x("aten::special_spherical_bessel_j0", "spherical_bessel_j0"),
    of_x("aten::special_airy_ai", "airy_ai"),
});

/// Each polynomial of an argument and a degree, either of which may be a number.
struct RegisterPolynomials {
  RegisterPolynomials() {
    const char* names[] = {"chebyshev_polynomial_t",         "chebyshev_polynomial_u",
                           "chebyshev_polynomial_v",         "chebyshev_polynomial_w",
                           "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
                           "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w",
                           "hermite_polynomial_h",           "hermite_polynomial_he",
                           "laguerre_polynomial_l",          "legendre_polynomial_p"};
    for (const std::string name : names) {
      const std::string op = "aten::special_" + name;
      const auto add = [&](const std::string& overload, std::string row,
                           std::vector<std::string> args) {
        Registry::instance().add(pointwise_converter({.op = op + overload,
                                                      .function = std::move(row),
                                                      .args = std::move(args),
                                                      .compute = Compute::kFloat}));
      };
      add("", name, {"x", "n"});
      add(".n_scalar", name, {"x", "n"});
      add(".x_scalar", "r" + name, {"n", "x"});
    }
  }
};
const RegisterPolynomials polynomials;

const RegisterPointwise parts({
    of_one("aten::angle", "angle"),
    {.op = "aten::ldexp.Tensor",
     .function = "ldexp",
     .args = {"self", "other"},
     .compute = Compute::kFloat},
    {.op = "aten::nextafter", .args = {"self", "other"}, .choose = next_float},
});

void frexp(const NodeContext& c, Rewriter& r) {
  const ValueId x = r.cast(c.node.input("self"), DType::kF32);
  r.replace(0, r.cast(r.pointwise("frexp_mantissa", {x}, DType::kF32), c.output(0).dtype));
  r.replace(1, r.cast(r.pointwise("frexp_exponent", {x}, DType::kF32), c.output(1).dtype));
}

std::string frexp_unsupported(const NodeContext& c) { return floats_only(c, "self"); }

const RegisterConverter pairs{{.op = "aten::frexp.Tensor",
                               .unsupported = frexp_unsupported,
                               .expand = frexp,
                               .types = "self [*s] -> [*s], [*s]"}};

}  // namespace
}  // namespace tv
