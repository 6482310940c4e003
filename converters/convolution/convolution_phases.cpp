// Transposed convolutions with a stride as convolutions of the input as it is: neither is it spread
// out nor are zeros multiplied.
//
// With o + padding = stride * q + r, output o of phase r is the sum over j of x[q - j] times
// w[r + stride * j]. So phases with as many taps are output channels of one convolution with a
// flipped window, and in the end the phases take turns. Phases past the window are zeros.

#include <algorithm>
#include <numeric>

#include "converters/convolution/convolution_nodes.h"
#include "converters/convolution/join_phases.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

/// Phases first … first + count - 1, which have `taps` taps each.
struct PhaseClass {
  int64_t first = 0, count = 1, taps = 1;
};

/// One spatial dimension.
struct PhasedDim {
  int64_t stride = 1, kernel = 1;
  std::vector<PhaseClass> classes;
  int64_t most = 1;     ///< taps of a phase
  int64_t skipped = 0;  ///< q that lie before the first output, and after the last
  Expr rows;            ///< values of q
  Expr start, out;      ///< the outputs begin at `start` of stride * rows
  int64_t missing = 0;  ///< outputs past those, which no tap reaches

  int64_t phases() const { return std::min(stride, kernel); }
};

PhasedDim dim_of(int64_t stride, int64_t kernel, int64_t padding, int64_t output_padding) {
  PhasedDim d{.stride = stride, .kernel = kernel};
  d.most = (kernel + stride - 1) / stride;
  const int64_t with_most = kernel - (d.most - 1) * stride;
  if (d.most == 1 || with_most == stride) {
    d.classes = {{0, d.phases(), d.most}};
  } else {
    d.classes = {{0, with_most, d.most}, {with_most, stride - with_most, d.most - 1}};
  }
  if (output_padding <= padding % stride) d.skipped = std::min(padding / stride, d.most - 1);
  d.start = padding - stride * d.skipped;
  return d;
}

/// The dimensions of a transposed convolution; none where it is not for this file.
std::vector<PhasedDim> dims_of(const NodeContext& c, const ConvGeometry& g) {
  const Shape &x = c.shape("input"), &w = c.shape("weight"), &y = c.output().shape;
  if (std::ranges::all_of(g.stride, [](int64_t s) { return s == 1; })) return {};
  if (!std::ranges::all_of(w, [](const Expr& e) { return e.is_constant(); })) return {};
  std::vector<PhasedDim> dims;
  for (size_t i = 0; i < g.stride.size(); ++i) {
    const int64_t kernel = *w[i + 2].constant();
    if (g.dilation[i] != 1 && kernel != 1) return {};
    PhasedDim d = dim_of(g.stride[i], kernel, g.padding[i], g.output_padding[i]);
    d.rows = x[i + 2] + (d.most - 1 - 2 * d.skipped);
    d.out = y[i + 2];
    const auto missing = (d.start + d.out - d.rows * d.stride).constant();
    if (!missing) return {};
    d.missing = std::max<int64_t>(0, *missing);
    dims.push_back(std::move(d));
  }
  return dims;
}

class Phases {
 public:
  Phases(const NodeContext& c, Rewriter& rw, const ConvGeometry& g,
         const std::vector<PhasedDim>& dims)
      : rw_(rw),
        g_(g),
        dims_(dims),
        x_(c.node.input("input")),
        w_(c.node.input("weight")),
        bias_(c.node.input("bias")),
        scale_(c.node.input("scale")),
        zero_(c.node.input("input_zero")),
        dtype_(c.output().dtype),
        n_(c.shape("input")[0]),
        groups_(g.groups),
        ic_(floordiv(c.shape("weight")[0], g.groups)),
        oc_(c.shape("weight")[1]) {}

  /// The sums of all phases as [n][groups · oc][rows · stride]…
  ValueId sums() {
    std::vector<PhaseClass> chosen(dims_.size());
    const ValueId all = joined(chosen, 0);  // [n][groups][oc][rows][phases]…
    Shape merged{n_, groups_ * oc_};
    for (const PhasedDim& d : dims_) merged.push_back(d.rows * d.stride);
    return rw_.reshape(filled(all), std::move(merged));
  }

  /// The result, of tensors that tv::join_phases reads.
  ValueId joined_rows(const Shape& shape) {
    JoinedPhases j{.groups = groups_};
    for (const PhasedDim& d : dims_) {
      j.stride.push_back(d.stride);
      j.start.push_back(*d.start.constant());
      j.split.push_back(d.classes[0].count);
      j.rows.push_back(d.rows);
    }
    std::vector<PhaseClass> chosen(dims_.size());
    add_sums(chosen, 0, j.tensors);
    return join_phases(rw_, j, dtype_, shape);
  }

 private:
  void add_sums(std::vector<PhaseClass>& chosen, size_t dim, std::vector<ValueId>& sums) {
    if (dim == dims_.size()) return sums.push_back(sums_of(chosen));
    for (const PhaseClass& one : dims_[dim].classes) {
      chosen[dim] = one;
      add_sums(chosen, dim + 1, sums);
    }
  }

  /// The phases of all classes of the dimensions from `dim` on, side by side.
  ValueId joined(std::vector<PhaseClass>& chosen, size_t dim) {
    if (dim == dims_.size()) return of_classes(chosen);
    std::vector<ValueId> parts;
    for (const PhaseClass& one : dims_[dim].classes) {
      chosen[dim] = one;
      parts.push_back(joined(chosen, dim + 1));
    }
    if (parts.size() == 1) return parts[0];
    const auto at = static_cast<int64_t>(4 + 2 * dim);
    Shape shape = rw_.graph().value(parts[0]).shape;
    shape[static_cast<size_t>(at)] = dims_[dim].phases();
    const DType dtype = rw_.graph().value(parts[0]).dtype;
    return rw_.add("aten::cat", {tensor_list_arg("tensors", parts), attr_arg("dim", integer(at))},
                   dtype, std::move(shape));
  }

  /// The convolution of one class of each dimension, [n][groups · phases · oc][rows]…; where there
  /// are fewer taps with more rows, the first ones.
  ValueId sums_of(const std::vector<PhaseClass>& chosen) {
    const size_t rank = dims_.size();
    Expr phases = 1;
    ConvGeometry plain{.stride = std::vector<int64_t>(rank, 1),
                       .padding = {},
                       .dilation = std::vector<int64_t>(rank, 1),
                       .output_padding = std::vector<int64_t>(rank, 0),
                       .groups = groups_};
    Shape shape{n_, Expr(0)};
    for (size_t i = 0; i < rank; ++i) {
      phases *= chosen[i].count;
      plain.padding.push_back(dims_[i].most - 1 - dims_[i].skipped);
      shape.push_back(dims_[i].rows + (dims_[i].most - chosen[i].taps));
    }
    shape[1] = groups_ * phases * oc_;
    return convolved(weight_of(chosen), phases, plain, shape);
  }

  /// The same as [n][groups][oc][rows][phases]….
  ValueId of_classes(const std::vector<PhaseClass>& chosen) {
    const size_t rank = dims_.size();
    Shape split{n_, groups_};
    for (const PhaseClass& one : chosen) split.emplace_back(one.count);
    split.push_back(oc_);
    ValueId y = sums_of(chosen);
    std::vector<int64_t> order{0, 1, static_cast<int64_t>(rank) + 2};
    for (size_t i = 0; i < rank; ++i) {
      y = narrowed(rw_, y, i + 2, dims_[i].most - chosen[i].taps, dims_[i].rows);
      split.push_back(dims_[i].rows);
      order.push_back(static_cast<int64_t>(rank + 3 + i));
      order.push_back(static_cast<int64_t>(2 + i));
    }
    return rw_.permute(rw_.reshape(y, std::move(split)), std::move(order));
  }

  /// The taps of the phases, [groups · phases · oc][ic][taps]…, each window flipped.
  ValueId weight_of(const std::vector<PhaseClass>& chosen) {
    const size_t rank = dims_.size();
    ValueId w = w_;
    Shape split{groups_, ic_, oc_}, shape{Expr(0), ic_};
    std::vector<int64_t> order{0}, taps{1}, flipped;
    Expr phases = 1;
    for (size_t i = 0; i < rank; ++i) {
      const PhaseClass& one = chosen[i];
      // Rows of `stride` elements, of which these phases are a part; the last may be shorter.
      const int64_t whole = one.taps * dims_[i].phases();
      w = padded(w, i + 2, std::max<int64_t>(0, whole - dims_[i].kernel));
      w = narrowed(rw_, w, i + 2, 0, whole);
      split.insert(split.end(), {Expr(one.taps), Expr(dims_[i].phases())});
    }
    w = rw_.reshape(w, split);
    for (size_t i = 0; i < rank; ++i) {
      const auto at = static_cast<int64_t>(3 + 2 * i);
      w = narrowed(rw_, w, static_cast<size_t>(at) + 1, chosen[i].first, chosen[i].count);
      if (chosen[i].taps > 1) flipped.push_back(at);
      order.push_back(at + 1);
      taps.push_back(at);
      phases *= chosen[i].count;
      shape.emplace_back(chosen[i].taps);
    }
    if (!flipped.empty()) {
      w = rw_.add("aten::flip", {tensor_arg("self", w), attr_arg("dims", ints(flipped))},
                  rw_.graph().value(w).dtype, rw_.graph().value(w).shape);
    }
    order.push_back(2);
    order.insert(order.end(), taps.begin(), taps.end());
    shape[0] = groups_ * phases * oc_;
    return rw_.reshape(rw_.permute(w, std::move(order)), std::move(shape));
  }

  /// Numbers of output channels, for each phase.
  ValueId of_phases(ValueId channels, const Expr& phases) {
    if (channels == kNoValue) return kNoValue;
    const ValueId rows = rw_.reshape(channels, {groups_, Expr(1), oc_});
    const ValueId all = rw_.add(
        "aten::expand",
        {tensor_arg("self", rows), attr_arg("size", std::vector<Expr>{groups_, phases, oc_})},
        rw_.graph().value(rows).dtype, {groups_, phases, oc_});
    return rw_.reshape(all, {groups_ * phases * oc_});
  }

  ValueId convolved(ValueId w, const Expr& phases, const ConvGeometry& plain, const Shape& shape) {
    const ValueId bias = of_phases(bias_, phases);
    if (scale_ == kNoValue) return conv_of(rw_, x_, w, bias, plain, dtype_, shape);
    const bool one = tv::product(rw_.graph().value(scale_).shape) == Expr(1);
    return scaled_conv_of(rw_,
                          {.x = x_,
                           .w = w,
                           .x_zero = zero_,
                           .scale = one ? scale_ : of_phases(scale_, phases),
                           .bias = bias},
                          plain, dtype_, shape);
  }

  /// Zeros for the phases that have no taps.
  ValueId filled(ValueId v) {
    for (size_t i = 0; i < dims_.size(); ++i) {
      v = padded(v, 4 + 2 * i, dims_[i].stride - dims_[i].phases());
    }
    return v;
  }

 public:
  ValueId padded(ValueId v, size_t dim, int64_t zeros) {
    if (zeros == 0) return v;
    Shape shape = rw_.graph().value(v).shape;
    std::vector<int64_t> pads(2 * (shape.size() - dim), 0);
    pads.back() = zeros;
    shape[dim] += zeros;
    return rw_.add("aten::constant_pad_nd",
                   {tensor_arg("self", v), attr_arg("pad", ints(pads)), attr_arg("value", 0.0)},
                   rw_.graph().value(v).dtype, std::move(shape));
  }

 private:
  Rewriter& rw_;
  const ConvGeometry& g_;
  const std::vector<PhasedDim>& dims_;
  ValueId x_, w_, bias_, scale_, zero_;  ///< scale_: of integers
  DType dtype_;
  Expr n_, groups_, ic_, oc_;
};

}  // namespace

void expand_phases(const NodeContext& c, Rewriter& rw) {
  if (!c.node.flag("transposed")) return;
  const ConvGeometry g = conv_geometry_of(c, c.shape("weight").size() - 2, true);
  const std::vector<PhasedDim> dims = dims_of(c, g);
  if (dims.empty()) return;
  const bool zeros = std::ranges::any_of(
      dims, [](const PhasedDim& d) { return d.missing > 0 || d.phases() < d.stride; });
  if (zeros && c.node.input("bias") != kNoValue) return;  // which is all that is there
  Phases phases(c, rw, g, dims);
  // GPUs fuse the moves below with others; a CPU driver takes as long for each as for the sums.
  if (c.device.is_cpu() && dims.size() < 3 && !zeros) {
    return rw.replace(0, phases.joined_rows(c.output().shape));
  }
  ValueId y = phases.sums();
  for (size_t i = 0; i < dims.size(); ++i) {
    y = phases.padded(y, i + 2, dims[i].missing);
    y = narrowed(rw, y, i + 2, dims[i].start, dims[i].out);
  }
  rw.replace(0, y);
}

}  // namespace tv
