#include "converters/convolution/convolution_types.h"

#include "converters/kit/shape_types.h"
#include "converters/kit/window_types.h"

namespace tv::types {
namespace {

Shape convolved(NodeTypes& t, bool transposed) {
  const Shape weight = t.shape("weight");
  t.want(weight.size() >= 3 && weight.size() <= 5,
         "argument 'weight' is of rank " + std::to_string(weight.size()));
  const size_t dims = weight.size() - 2;
  const Shape in = picture(t, "input", dims);
  const Window w{.kernel = trailing(weight, dims),
                 .stride = t.list("stride", dims),
                 .padding = t.list("padding", dims),
                 .dilation = t.list("dilation", dims)};
  check_window(t, w);
  const Expr groups = t.expr("groups", 1);
  t.at_least(groups, 1, "argument 'groups'");
  const Expr channels = in[in.size() - dims - 1];
  const Expr want = transposed ? weight[0] : weight[1] * groups;
  t.equal(channels, want, "the number of channels");
  t.equal(mod(weight[0], groups), 0, "what is left of the channels");
  const Expr out_channels = transposed ? weight[1] * groups : weight[0];
  if (t.has("bias")) t.equal(t.shape("bias"), {out_channels}, "argument 'bias'");
  Shape made = leading(in, dims + 1);
  made.push_back(out_channels);
  for (size_t i = 0; i < dims; ++i) {
    const Expr size = in[in.size() - dims + i], reach = w.dilation[i] * (w.kernel[i] - 1);
    if (transposed) {
      const Expr more = t.list("output_padding", dims)[i];
      t.at_least(more, 0, "an output padding");
      made.push_back((size - 1) * w.stride[i] - w.padding[i] * 2 + reach + more + 1);
    } else {
      made.push_back(floordiv(size + w.padding[i] * 2 - reach - 1, w.stride[i]) + 1);
    }
  }
  return made;
}

}  // namespace

TypeRule convolution(size_t dims, bool transposed) {
  return [=](NodeTypes& t) {
    t.want(t.rank("weight") == static_cast<int64_t>(dims) + 2, "the weight is of another rank");
    t.gives(convolved(t, transposed));
  };
}

void any_convolution(NodeTypes& t) { t.gives(convolved(t, t.node().flag("transposed"))); }

void convolution_backward(NodeTypes& t) {
  const Shape made = convolved(t, t.node().flag("transposed"));
  t.equal(t.shape("grad_output"), made, "argument 'grad_output'");
  t.gives(t.shape("input"), 0);
  t.gives(t.shape("weight"), 1);
  t.gives({made[made.size() - static_cast<size_t>(t.rank("weight")) + 1]}, 2);
}

void integer_convolution(NodeTypes& t) {
  const Shape made = convolved(t, t.node().flag("transposed"));
  if (t.has("input_zero")) t.equal(product(t.shape("input_zero")), 1, "the input's zero points");
  if (t.has("weight_zero")) {
    const Expr count = product(t.shape("weight_zero"));
    if (!(count == Expr(1))) t.equal(count, made[1], "the weight's zero points");
  }
  t.gives(made);
}

}  // namespace tv::types
