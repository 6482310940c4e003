// Sampling at places that are data.

#include <algorithm>

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

void grid_sample(OpContext& c) {
  Emitter& e = c.e;
  const Tensor &x = c.in(0), &grid = c.in(1);
  if (x.rank() != grid.rank() || x.rank() < 4 || x.rank() > 5) {
    refuse("images of " + std::to_string(x.rank() - 2) + " dimensions; want 2 or 3");
  }
  static const std::map<std::string, int64_t> modes = {
      {"linear", 0}, {"bilinear", 0}, {"nearest", 1}, {"cubic", 2}, {"bicubic", 2}};
  static const std::map<std::string, int64_t> paddings = {
      {"zeros", 0}, {"border", 1}, {"reflection", 2}};
  const std::string mode = c.s("mode", "linear"), padding = c.s("padding_mode", "zeros");
  if (!modes.count(mode) || !paddings.count(padding)) throw Error(ErrorKind::kUser, "mode");
  if (x.rank() == 5 && modes.at(mode) == 2) refuse("cubic sampling of volumes");
  e.equal(x.shape[0], grid.shape[0]);
  e.equal(grid.shape.back(), x.rank() - 2);
  Shape shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
  c.out(0, e.node(x.rank() == 4 ? "aten::grid_sampler_2d" : "aten::grid_sampler_3d",
                  {e.arg("input", x), e.arg("grid", grid),
                   attr_arg("interpolation_mode", Expr(modes.at(mode))),
                   attr_arg("padding_mode", Expr(paddings.at(padding))),
                   attr_arg("align_corners", c.i("align_corners", 0) != 0)},
                  x.dtype, shape));
}

// Places between -1 and 1 along one dimension.
Tensor line(Emitter& e, int64_t count, bool corners, DType dtype) {
  Host out{.dtype = dtype, .dims = {count}};
  for (int64_t i = 0; i < count; ++i) {
    const double n = static_cast<double>(count), at = static_cast<double>(i);
    out.floats.push_back(
        round_to(dtype, corners ? (count == 1 ? -1 : 2 * at / (n - 1) - 1) : (2 * at + 1) / n - 1));
  }
  return e.from_host(std::move(out));
}

void affine_grid(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& theta = c.in(0);
  const auto size = c.known_ints(1);
  if (size.size() < 4 || size.size() > 5) throw Error(ErrorKind::kUser, "want 4 or 5 sizes");
  const auto rank = size.size() - 2;
  Shape spatial;
  for (size_t d = 0; d < rank; ++d) {
    if (size[d + 2] < 1 || size[d + 2] > 65536) throw Error(ErrorKind::kUser, "size");
    spatial.emplace_back(size[d + 2]);
  }
  std::vector<Tensor> columns;  // x first: the last dimension
  for (size_t d = rank; d-- > 0;) {
    Shape shape(rank, Expr(1));
    shape[d] = spatial[d];
    const Tensor places = line(e, size[d + 2], c.i("align_corners", 0) != 0, theta.dtype);
    columns.push_back(e.expand(e.reshape(places, shape), spatial));
  }
  columns.push_back(e.full(spatial, theta.dtype, 1));
  const Expr count = product(spatial), width = static_cast<int64_t>(rank) + 1;
  e.equal(theta.shape.at(0), size[0]);
  const Tensor places = e.reshape(e.stack(columns, static_cast<int64_t>(rank)), {count, width});
  const Tensor grid = e.matmul(places, e.transpose(theta, 1, 2));
  Shape shape = {theta.shape.at(0)};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.emplace_back(static_cast<int64_t>(rank));
  c.out(0, e.reshape(grid, shape));
}

void reverse_sequence(OpContext& c) {
  Emitter& e = c.e;
  const Tensor &x = c.in(0), &lengths = c.in(1);
  const int64_t time = c.axis("time_axis", 0, x.rank()), batch = c.axis("batch_axis", 1, x.rank());
  const DType index = DType::kI64;
  const auto along = [&](const Tensor& t, int64_t d) {
    Shape shape(x.shape.size(), Expr(1));
    shape[static_cast<size_t>(d)] = x.shape[static_cast<size_t>(d)];
    return e.reshape(t, shape);
  };
  const Tensor places = along(e.arange(x.shape[static_cast<size_t>(time)], index), time);
  const Tensor ends = along(e.cast(lengths, index), batch);
  const Tensor turned = e.with("sub", e.sub(ends, places), 1);
  const Tensor source = e.where(e.compare("lt", places, ends), turned, places);
  c.out(0, e.gather(x, time, e.cast(e.expand(source, x.shape), DType::kI64)));
}

void max_unpool(OpContext& c) {
  Emitter& e = c.e;
  const Tensor &x = c.in(0), &places = c.in(1);
  const auto kernel = c.ints("kernel_shape");
  auto strides = c.ints("strides"), pads = c.ints("pads");
  const size_t rank = kernel.size();
  if (x.rank() != static_cast<int64_t>(rank) + 2) throw Error(ErrorKind::kUser, "kernel_shape");
  if (strides.empty()) strides.assign(rank, 1);
  if (pads.empty()) pads.assign(2 * rank, 0);
  if (strides.size() != rank || pads.size() != 2 * rank) throw Error(ErrorKind::kUser, "strides");
  Shape inferred = {x.shape[0], x.shape[1]};
  for (size_t d = 0; d < rank; ++d) {
    inferred.push_back((x.shape[d + 2] - Expr(1)) * Expr(strides[d]) +
                       Expr(kernel[d] - pads[d] - pads[d + rank]));
  }
  const Shape shape = c.has(2) ? Shape(c.known(2)) : inferred;
  // Places count in the tensor that was pooled, of the inferred size.
  const Expr count = product(inferred), given = product(x.shape);
  const Tensor zero = e.full({count}, x.dtype, 0);
  const Tensor flat = e.node("aten::scatter.src",
                             {e.arg("self", zero), attr_arg("dim", Expr(0)),
                              e.arg("index", e.reshape(e.cast(places, DType::kI64), {given})),
                              e.arg("src", e.reshape(x, {given}))},
                             x.dtype, {count});
  Tensor y = e.reshape(flat, inferred);
  if (!(shape == inferred)) {
    std::vector<Expr> fill;
    for (size_t d = shape.size(); d-- > 0;) {
      fill.emplace_back(0);
      fill.push_back(shape[d] - inferred.at(d));
    }
    y = e.pad(y, fill, 0);
  }
  c.out(0, y);
}

// Of a condition that is known while importing.
void compress(OpContext& c) {
  Emitter& e = c.e;
  Tensor x = c.in(0);
  const auto chosen = c.known_ints(1);
  int64_t axis = 0;
  if (c.has_attr("axis")) {
    axis = c.axis("axis", 0, x.rank());
  } else {
    x = e.reshape(x, {e.numel(x)});
  }
  std::vector<Expr> places;
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i]) places.emplace_back(static_cast<int64_t>(i));
  }
  const auto size = x.shape[static_cast<size_t>(axis)].constant();
  if (size && static_cast<int64_t>(chosen.size()) > *size)
    throw Error(ErrorKind::kUser, "condition");
  if (!places.empty())
    e.require(x.shape[static_cast<size_t>(axis)], Relation::kAtLeast, places.back() + Expr(1));
  c.out(0, e.index_select(x, axis, e.integers(std::move(places), DType::kI64)));
}

// Of elements that are known while importing.
void non_zero(OpContext& c) {
  const auto host = c.e.host(c.in(0));
  if (!host) refuse("the places of non-zero elements that are data");
  const size_t rank = host->dims.size();
  std::vector<std::vector<Expr>> rows(rank);
  for (size_t i = 0; i < host->count(); ++i) {
    bool zero = false;
    if (is_float(host->dtype)) {
      zero = host->floats[i] == 0;
    } else {
      if (!host->ints[i].is_constant()) refuse("elements that depend on a size");
      zero = host->ints[i] == Expr(0);
    }
    auto left = static_cast<int64_t>(i);
    for (size_t d = rank; d-- > 0 && !zero;) {
      rows[d].emplace_back(left % host->dims[d]);
      left /= host->dims[d];
    }
  }
  Host out{.dtype = DType::kI64};
  out.dims = {static_cast<int64_t>(rank), rank ? static_cast<int64_t>(rows[0].size()) : 0};
  for (const auto& row : rows) out.ints.insert(out.ints.end(), row.begin(), row.end());
  c.out(0, c.e.from_host(std::move(out)));
}

const RegisterOnnx ops{
    {"GridSample", grid_sample}, {"AffineGrid", affine_grid}, {"ReverseSequence", reverse_sequence},
    {"MaxUnpool", max_unpool},   {"Compress", compress},      {"NonZero", non_zero}};

}  // namespace
}  // namespace tv::onnx
