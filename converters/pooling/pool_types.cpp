#include "converters/pooling/pool_types.h"

#include <optional>

#include "converters/kit/shape_types.h"
#include "converters/kit/window_types.h"

namespace tv::types {
namespace {

/// A size after a pool; nothing where it depends on symbols whether a last window counts.
std::optional<Expr> pooled(const Expr& in, const Window& w, size_t i, bool ceil) {
  const Expr reach = w.dilation[i] * (w.kernel[i] - 1);
  const Expr room = in + w.padding[i] * 2 - reach - 1;
  if (!ceil) return floordiv(room, w.stride[i]) + 1;
  const Expr more = floordiv(room + w.stride[i] - 1, w.stride[i]) + 1;
  const auto last = ((more - 1) * w.stride[i]).constant();
  const auto end = (in + w.padding[i]).constant();
  if (!last || !end) return std::nullopt;
  return *last >= *end ? more - 1 : more;
}

/// The shape of a pool's result; `known` where a size cannot be told.
Shape pooled_shape(NodeTypes& t, size_t dims, const Shape& known) {
  const Shape in = picture(t, "self", dims);
  t.want(known.size() == in.size(), "a pool of another rank");
  Window w{.kernel = t.list("kernel_size", dims),
           .padding =
               t.node().has("padding") ? t.list("padding", dims) : std::vector<Expr>(dims, Expr(0)),
           .dilation = t.node().has("dilation") ? t.list("dilation", dims)
                                                : std::vector<Expr>(dims, Expr(1))};
  w.stride = t.node().exprs("stride").empty() ? w.kernel : t.list("stride", dims);
  check_window(t, w);
  Shape made = leading(in, dims);
  for (size_t i = 0; i < dims; ++i) {
    const size_t at = in.size() - dims + i;
    made.push_back(pooled(in[at], w, i, t.node().flag("ceil_mode")).value_or(known[at]));
  }
  return made;
}

void check_indices(NodeTypes& t) {
  if (t.has("indices")) {
    t.equal(t.shape("indices"), t.shape("grad_output"), "argument 'indices'");
  }
}

}  // namespace

TypeRule pool(size_t dims) {
  return [dims](NodeTypes& t) {
    for (size_t i = 0; i < t.results(); ++i) {
      if (t.has_result(i)) t.gives(pooled_shape(t, dims, t.result(i)), i);
    }
  };
}

TypeRule pool_backward(size_t dims) {
  return [dims](NodeTypes& t) {
    const Shape grad = t.shape("grad_output");
    t.equal(grad, pooled_shape(t, dims, grad), "argument 'grad_output'");
    check_indices(t);
    t.gives(t.shape("self"));
  };
}

TypeRule adaptive_pool(size_t dims) {
  return [dims](NodeTypes& t) {
    const Shape in = picture(t, "self", dims);
    t.positive(trailing(in, dims), "a size of the picture");
    const Shape made = joined_shape(leading(in, dims), t.list("output_size", dims));
    for (size_t i = 0; i < t.results(); ++i) t.gives(made, i);
  };
}

TypeRule adaptive_pool_backward(size_t dims) {
  return [dims](NodeTypes& t) {
    const Shape in = picture(t, "self", dims), grad = picture(t, "grad_output", dims);
    t.equal(leading(grad, dims), leading(in, dims), "the batch of argument 'grad_output'");
    check_indices(t);
    t.gives(in);
  };
}

}  // namespace tv::types
