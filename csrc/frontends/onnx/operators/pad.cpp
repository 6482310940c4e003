// Padding, and what moves blocks of space into channels and back.

#include <algorithm>
#include <numeric>

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

Expr dim(const Tensor& x, int64_t d) { return x.shape.at(static_cast<size_t>(d)); }

// Places that a padded dimension reads.
std::vector<Expr> places_of(const std::string& mode, int64_t size, int64_t before, int64_t after) {
  std::vector<Expr> places;
  if (size < 1) throw Error(ErrorKind::kUser, "an empty dimension is padded by its own elements");
  if (before + after > (1 << 24)) refuse("more than 16 million elements of padding");
  for (int64_t i = -before; i < size + after; ++i) {
    int64_t at = i;
    if (mode == "edge") at = std::clamp<int64_t>(i, 0, size - 1);
    if (mode == "wrap") at = ((i % size) + size) % size;
    if (mode == "reflect") {
      const int64_t period = std::max<int64_t>(1, 2 * (size - 1));
      at = ((i % period) + period) % period;
      if (at >= size) at = period - at;
    }
    places.emplace_back(at);
  }
  return places;
}

double pad_value(OpContext& c) {
  if (c.opset() < 11) return c.f("value", 0);
  if (!c.has(2)) return 0;
  const auto values = c.known_floats(2);
  return values.empty() ? 0 : values[0];
}

/// x with the value around it. That of bytes is their zero point, a weight that a refit may change.
Tensor padded(OpContext& c, const Tensor& x, const std::vector<Expr>& pads) {
  const bool given = c.opset() >= 11 && c.has(2);
  const bool bytes = x.dtype == DType::kI8 || x.dtype == DType::kU8;
  if (given && (bytes || !c.e.host(c.in(2)))) return c.e.pad(x, pads, c.in(2));
  return c.e.pad(x, pads, pad_value(c));
}

void pad(OpContext& c) {
  Emitter& e = c.e;
  Tensor x = c.in(0);
  const std::vector<Expr> pads = c.opset() < 11 ? exprs(c.ints("pads")) : c.known(1);
  std::vector<int64_t> axes;
  if (c.has(3)) axes = c.known_ints(3);
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (pads.size() != 2 * axes.size()) throw Error(ErrorKind::kUser, "two pads a dimension");
  const std::string mode = c.s("mode", "constant");
  std::vector<Expr> before(x.shape.size()), after(x.shape.size());
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(Emitter::wrap(axes[k], x.rank()));
    before[d] = pads[k];
    after[d] = pads[k + axes.size()];
  }
  if (mode == "constant") {
    std::vector<Expr> all;
    for (size_t d = x.shape.size(); d-- > 0;) {
      all.push_back(before[d]);
      all.push_back(after[d]);
    }
    if (x.dtype != DType::kBool) return c.out(0, padded(c, x, all));
    return c.out(0, e.cast(e.pad(e.cast(x, DType::kU8), all, pad_value(c)), DType::kBool));
  }
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const auto size = x.shape[d].constant(), b = before[d].constant(), a = after[d].constant();
    if (b == 0 && a == 0) continue;
    if (!size || !b || !a) refuse("a dynamic dimension is padded by its own elements");
    x = e.index_select(x, static_cast<int64_t>(d),
                       e.integers(places_of(mode, *size, *b, *a), DType::kI64));
  }
  c.out(0, x);
}

void center_crop_pad(OpContext& c) {
  Emitter& e = c.e;
  Tensor x = c.in(0);
  std::vector<int64_t> axes = c.ints("axes");
  const std::vector<Expr> sizes = c.known(1);
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t d = Emitter::wrap(axes[k], x.rank());
    const auto have = dim(x, d).constant(), want = sizes.at(k).constant();
    if (!have || !want) refuse("a dynamic dimension is cropped or padded");
    if (*want < *have) {
      const int64_t start = (*have - *want) / 2;
      x = e.slice(x, d, start, start + *want);
    } else if (*want > *have) {
      std::vector<Expr> pads(static_cast<size_t>(2 * (x.rank() - d)), Expr(0));
      pads[pads.size() - 2] = (*want - *have) / 2;
      pads[pads.size() - 1] = *want - *have - (*want - *have) / 2;
      x = e.pad(x, pads, 0);
    }
  }
  c.out(0, x);
}

int64_t block_of(OpContext& c) {
  const int64_t block = c.i("blocksize", 0);
  if (block < 1 || block > 4096 || c.in(0).rank() != 4)
    throw Error(ErrorKind::kUser, "blocksize, rank");
  return block;
}

void depth_to_space(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& x = c.in(0);
  const Expr b = block_of(c), n = dim(x, 0), h = dim(x, 2), w = dim(x, 3);
  e.require(dim(x, 1), Relation::kMultiple, b * b);
  const Expr depth = floordiv(dim(x, 1), b * b);
  const bool dcr = c.s("mode", "DCR") == "DCR";
  const Tensor blocks =
      dcr ? e.permute(e.counted_reshape(x, {n, b, b, depth, h, w}), {0, 3, 4, 1, 5, 2})
          : e.permute(e.counted_reshape(x, {n, depth, b, b, h, w}), {0, 1, 4, 2, 5, 3});
  c.out(0, e.reshape(blocks, {n, depth, h * b, w * b}));
}

void space_to_depth(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& x = c.in(0);
  const Expr b = block_of(c), n = dim(x, 0), depth = dim(x, 1);
  const Expr h = floordiv(dim(x, 2), b), w = floordiv(dim(x, 3), b);
  for (int64_t d : {2, 3}) e.require(dim(x, d), Relation::kMultiple, b);
  const Tensor blocks = e.counted_reshape(x, {n, depth, h, b, w, b});
  const bool crd = c.s("mode", "DCR") == "CRD";
  const std::vector<int64_t> order =
      crd ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4};
  c.out(0, e.reshape(e.permute(blocks, order), {n, depth * b * b, h, w}));
}

// Sums columns into the image they were taken from: a product with ones, channel by channel.
void col2im(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& x = c.in(0);
  const auto image = c.known_ints(1), block = c.known_ints(2);
  const size_t rank = image.size();
  if (rank < 1 || rank > 3 || block.size() != rank || x.rank() != 3) {
    refuse("images of more than 3 dimensions");
  }
  auto strides = c.ints("strides"), dilations = c.ints("dilations"), pads = c.ints("pads");
  if (strides.empty()) strides.assign(rank, 1);
  if (dilations.empty()) dilations.assign(rank, 1);
  if (pads.empty()) pads.assign(2 * rank, 0);
  if (strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank) {
    throw Error(ErrorKind::kUser, "strides, dilations or pads");
  }
  Expr block_count = 1;
  for (int64_t b : block) block_count = block_count * Expr(b);
  e.require(dim(x, 1), Relation::kMultiple, block_count);
  const Expr n = dim(x, 0), channels = floordiv(dim(x, 1), block_count);
  Shape columns = {n * channels, block_count}, weight = {block_count, 1}, full = {n * channels, 1};
  Host ones{.dtype = DType::kF32, .dims = {*block_count.constant(), 1}};
  Expr places = 1;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t reach = dilations[d] * (block[d] - 1) + 1;
    const int64_t padded = image[d] + pads[d] + pads[d + rank];
    if (block[d] < 1 || strides[d] < 1 || dilations[d] < 1 || padded < reach) {
      throw Error(ErrorKind::kUser, "block_shape, strides or pads");
    }
    const int64_t count = (padded - reach) / strides[d] + 1;
    places = places * Expr(count);
    columns.emplace_back(count);
    full.emplace_back((count - 1) * strides[d] + reach);
    ones.dims.push_back(block[d]);
  }
  e.equal(dim(x, 2), places);
  // Weight k is 1 at place k of the block alone.
  const int64_t blocks = *block_count.constant();
  if (blocks > 4096) refuse("blocks of more than 4096 elements");
  ones.floats.assign(static_cast<size_t>(blocks * blocks), 0);
  for (int64_t k = 0; k < blocks; ++k) ones.floats[static_cast<size_t>(k * blocks + k)] = 1;
  const std::vector<Expr> none(rank);
  Tensor y = e.node(
      "aten::convolution",
      {e.arg("input", e.counted_reshape(x, columns)),
       e.arg("weight", e.cast(e.from_host(std::move(ones)), x.dtype)), tensor_arg("bias", kNoValue),
       attr_arg("stride", exprs(strides)), attr_arg("padding", none),
       attr_arg("dilation", exprs(dilations)), attr_arg("transposed", true),
       attr_arg("output_padding", none), attr_arg("groups", Expr(1))},
      x.dtype, full);
  std::vector<Expr> crop;
  for (size_t d = rank; d-- > 0;) {
    crop.emplace_back(-pads[d]);
    crop.push_back(Expr(image[d] + pads[d]) - full[d + 2]);
  }
  y = e.pad(y, crop, 0);
  Shape shape = {n, channels};
  for (int64_t size : image) shape.emplace_back(size);
  c.out(0, e.reshape(y, shape));
}

const RegisterOnnx ops{{"Pad", pad},
                       {"CenterCropPad", center_crop_pad},
                       {"DepthToSpace", depth_to_space},
                       {"SpaceToDepth", space_to_depth},
                       {"Col2Im", col2im}};

}  // namespace
}  // namespace tv::onnx
