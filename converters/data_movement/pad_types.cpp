#include "converters/data_movement/pad_types.h"

#include "converters/kit/window_types.h"

namespace tv::types {
namespace {

Shape padded(NodeTypes& t, const Shape& in, const char* arg) {
  const std::vector<Expr> pads = t.node().exprs(arg);
  t.want(pads.size() % 2 == 0 && pads.size() <= 2 * in.size(),
         std::string("argument '") + arg + "' has " + std::to_string(pads.size()) + " items");
  Shape made = in;
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    Expr& size = made[made.size() - 1 - i];
    size = size + pads[2 * i] + pads[2 * i + 1];
  }
  return made;
}

/// Pads by what the picture has: pads are as many as its edges.
Shape padded_by_edges(NodeTypes& t, size_t dims, bool reflects) {
  const Shape in = picture(t, "self", dims);
  const std::vector<Expr> pads = t.node().exprs("padding");
  t.want(pads.size() == 2 * dims, "has " + std::to_string(pads.size()) + " paddings");
  for (size_t i = 0; i < dims; ++i) {
    const Expr& size = in[in.size() - 1 - i];
    t.at_least(size, 1, "a size of the picture");
    for (size_t side = 0; reflects && side < 2; ++side) {
      t.at_least(size - 1, pads[2 * i + side], "a size of the picture less one");
    }
  }
  return padded(t, in, "padding");
}

}  // namespace

void padded_constant(NodeTypes& t) { t.gives(padded(t, t.shape("self"), "pad")); }

TypeRule edge_pad(size_t dims, bool reflects) {
  return [=](NodeTypes& t) { t.gives(padded_by_edges(t, dims, reflects)); };
}

TypeRule edge_pad_backward(size_t dims) {
  return [dims](NodeTypes& t) {
    t.equal(t.shape("grad_output"), padded_by_edges(t, dims, false), "argument 'grad_output'");
    t.gives(t.shape("self"));
  };
}

}  // namespace tv::types
