#include "csrc/frontends/onnx/kit/window.h"

#include <algorithm>

namespace tv::onnx {

bool Window::symmetric() const { return before == after; }

Window read_window(const OpContext& c, const Shape& spatial, std::vector<int64_t> kernel) {
  const size_t rank = spatial.size();
  Window w{.kernel = c.ints("kernel_shape"),
           .strides = c.ints("strides"),
           .dilations = c.ints("dilations"),
           .before = {},
           .after = {},
           .ceil_mode = c.i("ceil_mode", 0) != 0};
  if (w.kernel.empty()) w.kernel = std::move(kernel);
  if (w.strides.empty()) w.strides.assign(rank, 1);
  if (w.dilations.empty()) w.dilations.assign(rank, 1);
  const std::vector<int64_t> pads = c.ints("pads");
  const auto sane = [](int64_t v) { return v > 0 && v < (int64_t{1} << 31); };
  if (w.kernel.size() != rank || w.strides.size() != rank || w.dilations.size() != rank ||
      (!pads.empty() && pads.size() != 2 * rank) ||
      !std::all_of(w.kernel.begin(), w.kernel.end(), sane) ||
      !std::all_of(w.strides.begin(), w.strides.end(), sane) ||
      !std::all_of(w.dilations.begin(), w.dilations.end(), sane) ||
      !std::all_of(pads.begin(), pads.end(), [&](int64_t v) { return v == 0 || sane(v); })) {
    throw Error(ErrorKind::kUser, "kernel_shape, strides, dilations or pads do not fit " +
                                      std::to_string(rank) + " spatial dimensions");
  }
  const std::string mode = c.s("auto_pad", "NOTSET");
  for (size_t d = 0; d < rank; ++d) {
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const Expr outputs = ceil_div(spatial[d], w.strides[d]);
      const Expr needed = (outputs - Expr(1)) * Expr(w.strides[d]) +
                          Expr((w.kernel[d] - 1) * w.dilations[d] + 1) - spatial[d];
      const Expr total = max(needed, 0), half = floordiv(total, 2);
      w.before.push_back(mode == "SAME_UPPER" ? half : total - half);
      w.after.push_back(mode == "SAME_UPPER" ? total - half : half);
    } else {
      w.before.emplace_back(pads.empty() || mode == "VALID" ? 0 : pads[d]);
      w.after.emplace_back(pads.empty() || mode == "VALID" ? 0 : pads[d + rank]);
    }
  }
  return w;
}

Shape window_sizes(Emitter& e, const Window& w, const Shape& spatial) {
  Shape sizes;
  for (size_t d = 0; d < spatial.size(); ++d) {
    const Expr padded = spatial[d] + w.before[d] + w.after[d];
    const Expr room = padded - Expr((w.kernel[d] - 1) * w.dilations[d] + 1);
    Expr size =
        (w.ceil_mode ? ceil_div(room, w.strides[d]) : floordiv(room, w.strides[d])) + Expr(1);
    if (w.ceil_mode) {  // the last window must start within the input or the padding before it
      const auto last =
          ((size - Expr(1)) * Expr(w.strides[d]) - spatial[d] - w.before[d]).constant();
      if (last && *last >= 0) size = size - Expr(1);
      if (!last) refuse("ceil_mode of a dynamic size");
    }
    if (const auto value = size.constant(); value && *value < 1) {
      throw Error(ErrorKind::kUser, "the window is larger than its input");
    }
    if (!w.ceil_mode) e.require(padded, Relation::kAtLeast, padded - room);
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<Expr> torch_pads(const Window& w) {
  std::vector<Expr> pads;
  for (size_t d = w.before.size(); d-- > 0;) {
    pads.push_back(w.before[d]);
    pads.push_back(w.after[d]);
  }
  return pads;
}

}  // namespace tv::onnx
