// ATen's Fourier transforms: one dimension after the other.

#include "converters/fft/fft.h"
#include "converters/kit/steps.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

constexpr int64_t kLongestLine = int64_t{1} << 26;
constexpr int64_t kMostElements = int64_t{1} << 28;

/// Adds the transform of `x` along `dim`; the last of a chain has the norm.
struct Chain {
  Rewriter& r;
  bool forward;
  Expr count;  // product of the lengths
  int64_t norm;

  ValueId along(ValueId x, int64_t dim, FftKind in, FftKind out, const Expr& length,
                const Shape& shape, bool last) const {
    return r.add("tv::fft",
                 {tensor_arg("self", x), attr_arg("dim", Expr(dim)), attr_arg("length", length),
                  attr_arg("in", Expr(static_cast<int64_t>(in))),
                  attr_arg("out", Expr(static_cast<int64_t>(out))), attr_arg("forward", forward),
                  attr_arg("norm", Expr(last ? norm : 0)), attr_arg("count", count)},
                 DType::kF32, shape);
  }
};

/// The dimensions of the transform, counted from the front; `rank` is that of the complex tensor.
std::vector<int64_t> transformed(const NodeContext& c, int64_t rank) {
  std::vector<int64_t> dims = c.node.integers("dim");
  for (int64_t& d : dims) d = c.wrap(d, rank);
  return dims;
}

Expr length_along(const Shape& shape, const std::vector<int64_t>& dims) {
  Expr count = 1;
  for (const int64_t d : dims) count = count * shape.at(static_cast<size_t>(d));
  return count;
}

void real_to_complex(const NodeContext& c, Rewriter& r) {
  const Shape& in = c.shape("self");
  const std::vector<int64_t> dims = transformed(c, static_cast<int64_t>(in.size()));
  const Shape out = c.output().shape;
  const Chain chain{r, true, length_along(in, dims), c.node.integer("normalization")};
  const auto size = [&](int64_t d) { return in.at(static_cast<size_t>(d)); };
  ValueId x = chain.along(r.cast(c.node.input("self"), DType::kF32), dims.back(), FftKind::kReal,
                          FftKind::kComplex, size(dims.back()), out, dims.size() == 1);
  for (size_t i = dims.size() - 1; i-- > 0;) {
    x = chain.along(x, dims[i], FftKind::kComplex, FftKind::kComplex, size(dims[i]), out, i == 0);
  }
  r.replace(0, r.cast(x, c.output().dtype));
}

void complex_to_complex(const NodeContext& c, Rewriter& r) {
  const Shape out = c.output().shape;
  const std::vector<int64_t> dims = transformed(c, static_cast<int64_t>(out.size()) - 1);
  const Chain chain{r, c.node.flag("forward"), length_along(out, dims),
                    c.node.integer("normalization")};
  ValueId x = r.cast(c.node.input("self"), DType::kF32);
  for (size_t i = dims.size(); i-- > 0;) {
    x = chain.along(x, dims[i], FftKind::kComplex, FftKind::kComplex,
                    out.at(static_cast<size_t>(dims[i])), out, i == 0);
  }
  r.replace(0, r.cast(x, c.output().dtype));
}

void complex_to_real(const NodeContext& c, Rewriter& r) {
  const Shape out = c.output().shape, in = c.shape("self");
  const std::vector<int64_t> dims = transformed(c, static_cast<int64_t>(out.size()));
  const Chain chain{r, false, length_along(out, dims), c.node.integer("normalization")};
  ValueId x = r.cast(c.node.input("self"), DType::kF32);
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    x = chain.along(x, dims[i], FftKind::kComplex, FftKind::kComplex,
                    in.at(static_cast<size_t>(dims[i])), in, false);
  }
  x = chain.along(x, dims.back(), FftKind::kHalf, FftKind::kReal,
                  out.at(static_cast<size_t>(dims.back())), out, true);
  r.replace(0, r.cast(x, c.output().dtype));
}

std::string unsupported(const NodeContext& c) {
  const std::string floats = floats_only(c, "self");
  if (!floats.empty()) return floats;
  if (c.node.integers("dim").empty()) return "[" + c.node.op + "] along no dimension";
  // Temporaries are complex, and up to four times as long as the lines.
  Expr elements = max(product(c.shape("self")), product(c.output().shape));
  if (elements.bounds(c.graph.symbols).first >= kMostElements) {
    return "[" + c.node.op + "] of " + elements.str() + " elements; engines take fewer than 2^28";
  }
  Shape lengths;
  const Shape& lines = c.node.find("last_dim_size") ? c.output().shape : c.shape("self");
  for (const int64_t d : c.node.integers("dim")) {
    const bool pairs = c.node.find("forward") != nullptr;
    const auto rank = static_cast<int64_t>(lines.size()) - (pairs ? 1 : 0);
    const Expr& length = lines.at(static_cast<size_t>(c.wrap(d, rank)));
    if (length.bounds(c.graph.symbols).first > kLongestLine) {
      return "[" + c.node.op + "] lines of " + length.str() + "; engines take up to 2^26";
    }
    if (length.constant()) continue;
    const std::string loops = loops_too_long(c, length);
    if (!loops.empty()) return loops;
  }
  return "";
}

void types(NodeTypes& t) {
  const int64_t rank = t.rank("self");
  for (const Expr& dim : t.node().exprs("dim")) t.wrap(dim.constant().value_or(0), rank);
  if (!t.has_result(0)) return;
  t.want(static_cast<int64_t>(t.result().size()) == rank, "the result has another rank");
}

Converter transform(std::string op, decltype(Converter::expand) expand) {
  return {
      .op = std::move(op), .unsupported = unsupported, .expand = std::move(expand), .types = types};
}

const RegisterConverter transforms{
    transform("complex::_fft_r2c", real_to_complex),
    transform("complex::_fft_c2r", complex_to_real),
    transform("complex::_fft_c2c", complex_to_complex),
};

}  // namespace
}  // namespace tv
