// Fourier transforms as products with constant matrices, and windows.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

constexpr int64_t kMaxLength = 4096;  // its matrices have the square of it

// cos and sin of 2 pi j k / n, as (n, columns).
std::pair<Tensor, Tensor> waves(Emitter& e, int64_t n, int64_t columns) {
  Host cosine{.dtype = DType::kF32, .dims = {n, columns}}, sine = cosine;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t k = 0; k < columns; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % n) / double(n);
      cosine.floats.push_back(static_cast<float>(std::cos(angle)));
      sine.floats.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return {e.from_host(std::move(cosine)), e.from_host(std::move(sine))};
}

struct Complex {
  Tensor real, imaginary;  ///< imaginary absent: real numbers
};

// Over the last dimension.
Complex transform(Emitter& e, const Complex& x, int64_t n, int64_t columns, bool inverse) {
  const auto [cosine, sine] = waves(e, n, columns);
  const Tensor turned = inverse ? sine : e.unary("neg", sine);
  Complex y{e.matmul(x.real, cosine), e.matmul(x.real, turned)};
  if (x.imaginary.present) {
    y.real = e.sub(y.real, e.matmul(x.imaginary, turned));
    y.imaginary = e.add(y.imaginary, e.matmul(x.imaginary, cosine));
  }
  if (inverse) {
    y.real = e.with("div", y.real, static_cast<double>(n));
    y.imaginary = e.with("div", y.imaginary, static_cast<double>(n));
  }
  return y;
}

// The last dimension cut or filled with zeros to `n`.
Tensor fitted(Emitter& e, const Tensor& x, int64_t n) {
  const auto have = x.shape.back().constant();
  if (!have) refuse("a transform over a dynamic dimension");
  if (*have > n) return e.slice(x, x.rank() - 1, 0, n);
  return e.pad(x, {0, n - *have}, 0);
}

Complex parts_of(Emitter& e, const Tensor& x) {
  const auto count = x.shape.back().constant();
  const int64_t last = x.rank() - 1;
  if (count == 1) return {e.select(x, last, 0), {}};
  if (count == 2) return {e.select(x, last, 0), e.select(x, last, 1)};
  throw Error(ErrorKind::kUser, "want a last dimension of 1 or 2, real and imaginary parts");
}

void dft(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& x = c.in(0);
  int64_t axis = c.opset() >= 20 ? -2 : c.i("axis", 1);
  if (c.opset() >= 20 && c.has(2)) axis = c.known_ints(2).at(0);
  axis = Emitter::wrap(axis, x.rank());
  if (axis == x.rank() - 1) throw Error(ErrorKind::kUser, "axis is that of the parts");
  const bool inverse = c.i("inverse", 0) != 0, onesided = c.i("onesided", 0) != 0;
  const auto size = x.shape[static_cast<size_t>(axis)].constant();
  if (!size) refuse("a transform over a dynamic dimension");
  int64_t n = c.has(1) ? c.known_ints(1).at(0) : *size;
  Complex parts = parts_of(e, x);
  if (inverse && onesided) {
    // A real result of the half that is given: the other half is its mirror image.
    if (!c.has(1)) n = 2 * (*size - 1);
  }
  if (n < 1 || n > kMaxLength) refuse("a transform of more than 4096 elements");
  const auto moved = [&](const Tensor& t) { return t.present ? e.transpose(t, axis, -1) : t; };
  Complex rows{moved(parts.real), moved(parts.imaginary)};
  if (inverse && onesided) refuse("the inverse of a one-sided transform");
  rows.real = fitted(e, rows.real, n);
  if (rows.imaginary.present) rows.imaginary = fitted(e, rows.imaginary, n);
  const Complex y = transform(e, rows, n, onesided ? n / 2 + 1 : n, inverse);
  c.out(0,
        e.stack({e.transpose(y.real, axis, -1), e.transpose(y.imaginary, axis, -1)}, x.rank() - 1));
}

void stft(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& signal = c.in(0);
  const int64_t step = c.known_ints(1).at(0);
  const bool onesided = c.i("onesided", 1) != 0;
  Complex x{signal, {}};
  if (signal.rank() == 3) x = parts_of(e, signal);
  const auto length = x.real.shape.at(1).constant();
  const auto windowed = c.has(2) ? c.in(2).shape.at(0).constant() : std::nullopt;
  const int64_t n = c.has(3) ? c.known_ints(3).at(0) : windowed.value_or(0);
  if (!length || n < 1 || n > kMaxLength || step < 1 || n > *length) {
    refuse("a dynamic signal, or a frame that is longer than it or than 4096");
  }
  const int64_t frames = (*length - n) / step + 1;
  if (frames * n > kMaxHostElements) refuse("more than 65536 elements in the frames");
  std::vector<Expr> places;
  for (int64_t f = 0; f < frames; ++f) {
    for (int64_t k = 0; k < n; ++k) places.emplace_back(f * step + k);
  }
  const Tensor index = e.integers(std::move(places), DType::kI64);
  const auto framed = [&](const Tensor& t) {
    Tensor y = e.reshape(e.index_select(t, 1, index), {t.shape[0], frames, n});
    return c.has(2) ? e.mul(y, c.in(2)) : y;
  };
  Complex rows{framed(x.real), x.imaginary.present ? framed(x.imaginary) : Tensor{}};
  const Complex y = transform(e, rows, n, onesided ? n / 2 + 1 : n, false);
  c.out(0, e.stack({y.real, y.imaginary}, 3));
}

// a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N)
void window(OpContext& c) {
  const int64_t size = c.known_ints(0).at(0);
  if (size < 0 || size > kMaxHostElements) refuse("a window of more than 65536 elements");
  const DType dtype = c.dtype("output_datatype", DType::kF32);
  if (!is_float(dtype)) refuse("a window of integers");
  const double n = static_cast<double>(c.i("periodic", 1) ? size : size - 1);
  const std::string& type = c.type();
  const double a0 = type == "HannWindow" ? 0.5 : type == "HammingWindow" ? 25.0 / 46 : 0.42;
  const double a2 = type == "BlackmanWindow" ? 0.08 : 0;
  const double a1 = type == "BlackmanWindow" ? 0.5 : 1 - a0;
  Host out{.dtype = dtype, .dims = {size}};
  for (int64_t i = 0; i < size; ++i) {
    const double angle = n == 0 ? 0 : 2 * std::numbers::pi * static_cast<double>(i) / n;
    out.floats.push_back(round_to(dtype, a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle)));
  }
  c.out(0, c.e.from_host(std::move(out)));
}

// Triangles that overlap by half on the mel scale, over the bins of a spectrum.
void mel_weight_matrix(OpContext& c) {
  const int64_t bands = c.known_ints(0).at(0), length = c.known_ints(1).at(0);
  const int64_t rate = c.known_ints(2).at(0), bins = length / 2 + 1;
  const bool sane = bands >= 1 && length >= 1 && rate >= 1 && length <= (1 << 24);
  if (!sane) throw Error(ErrorKind::kUser, "a size or rate of 0 or less");
  if (bands > kMaxHostElements / bins) refuse("a matrix of more than 65536 elements");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(c.known_floats(3).at(0)), high = mel(c.known_floats(4).at(0));
  const double step = (high - low) / static_cast<double>(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    const double bin =
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    if (!(bin >= 0 && bin < static_cast<double>(bins))) throw Error(ErrorKind::kUser, "an edge");
    edges.push_back(static_cast<int64_t>(bin));
  }
  const DType dtype = c.dtype("output_datatype", DType::kF32);
  if (!is_float(dtype)) refuse("a matrix of integers");
  Host out{.dtype = dtype, .dims = {bins, bands}};
  out.floats.assign(static_cast<size_t>(bins * bands), 0);
  for (int64_t i = 0; i < bands; ++i) {
    const auto at = [&](int64_t bin) -> double& {
      return out.floats[static_cast<size_t>(bin * bands + i)];
    };
    const auto edge = edges.begin() + i;
    const auto rise = static_cast<double>(edge[1] - edge[0]);
    const auto fall = static_cast<double>(edge[2] - edge[1]);
    if (rise == 0) at(edge[1]) = 1;
    for (int64_t j = edge[0]; rise > 0 && j <= edge[1]; ++j) {
      at(j) = round_to(dtype, static_cast<double>(j - edge[0]) / rise);
    }
    for (int64_t j = edge[1]; fall > 0 && j < edge[2]; ++j) {
      at(j) = round_to(dtype, static_cast<double>(edge[2] - j) / fall);
    }
  }
  c.out(0, c.e.from_host(std::move(out)));
}

const RegisterOnnx ops{{"MelWeightMatrix", mel_weight_matrix},
                       {"DFT", dft},
                       {"STFT", stft},
                       {"HannWindow", window},
                       {"HammingWindow", window},
                       {"BlackmanWindow", window}};

}  // namespace
}  // namespace tv::onnx
