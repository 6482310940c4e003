// Max pooling in one and two dimensions, with torch's flattened indices, and its gradient.

#include "converters/pooling/pool_types.h"
#include "converters/pooling/pool_window.h"

namespace tv {
namespace {

void forward(const NodeContext& c, Builder& b, int dims) {
  const Planes in = planes_of(c.shape("self"), dims);
  const Planes out = planes_of(c.output().shape, dims);
  const bool indices = c.node.outputs.size() > 1 && is_used(c.graph, c.node.outputs[1]);
  Step step{.kernel = "max_pool",
            .defines = {{"VALUES", "1"}, {"INDICES", indices ? "1" : "0"}},
            .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
            .params = {param("outputs", out.elements())}};
  for (auto& define : key_defines(c.dtype("self"))) step.defines.push_back(std::move(define));
  if (indices) step.operands.push_back(dst("idx", c.node.outputs[1]));
  add_plane_params(step, in, out);
  const PoolWindow window = window_of(c.node, dims);
  step.iterations = window.iterations();
  add_window_params(step, window, true);
  emit_flat(b, std::move(step), out.elements());
}

void backward(const NodeContext& c, Builder& b) {
  const Planes in = planes_of(c.output().shape, 2);
  const Planes out = planes_of(c.shape("grad_output"), 2);
  Step step{.kernel = "max_pool_backward",
            .operands = {src("g", c.node.input("grad_output")), src("idx", c.node.input("indices")),
                         dst("gx", c.node.outputs[0])},
            .params = {param("elements", in.elements())}};
  add_plane_params(step, in, out);
  const PoolWindow window = window_of(c.node, 2);
  step.iterations = window.reverse_iterations();
  add_window_params(step, window, true);
  emit_flat(b, std::move(step), in.elements());
}

ExampleGraph pool(const std::string& op, DType dtype, const Shape& shape, int dims) {
  ExampleGraph g(op);
  const std::vector<int64_t> three(dims, 3), two(dims, 2), one(dims, 1);
  g.input("self", dtype, shape).attr("kernel_size", ints(three)).attr("stride", ints(two));
  g.attr("padding", ints(one)).attr("dilation", ints(one)).attr("ceil_mode", false);
  return g;
}

std::vector<Graph> forward_examples(const std::string& op, int dims) {
  const bool with_indices = op.find("with_indices") != std::string::npos;
  const Shape in = dims == 2 ? Shape{2, 3, 11, 7} : Shape{2, 3, 7};
  const Shape out = dims == 2 ? Shape{2, 3, 6, 4} : Shape{2, 3, 4};
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kI8}) {
    ExampleGraph g = pool(op, dtype, in, dims);
    g.output(dtype, out);
    if (with_indices) g.output(DType::kI64, out);
    graphs.push_back(g.graph());
  }
  return graphs;
}

std::vector<Graph> backward_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    ExampleGraph g = pool("aten::max_pool2d_with_indices_backward", dtype, {2, 3, 11, 7}, 2);
    g.input("grad_output", dtype, {2, 3, 6, 4}).input("indices", DType::kI64, {2, 3, 6, 4});
    graphs.push_back(g.output(dtype, {2, 3, 11, 7}).graph());
  }
  return graphs;
}

std::string self_floats(const NodeContext& c) { return floats_only(c, "self"); }

Converter max_pool(std::string op, int dims) {
  return {.op = op,
          .unsupported =
              [dims](const NodeContext& c) {
                const std::string refusal = numbers_only(c, "self");
                return refusal.empty() ? loops_too_long(c, window_of(c.node, dims).iterations())
                                       : refusal;
              },
          .convert = [dims](const NodeContext& c, Builder& b) { forward(c, b, dims); },
          .epilogue = true,
          .moves = Moves::kLargest,
          .types = types::pool(static_cast<size_t>(dims)),
          .examples = [op, dims] { return forward_examples(op, dims); }};
}

const RegisterConverter max_pools{
    max_pool("aten::max_pool2d_with_indices", 2),
    max_pool("aten::max_pool2d", 2),
    max_pool("aten::max_pool1d_with_indices", 1),
    max_pool("aten::max_pool1d", 1),
    {.op = "aten::max_pool2d_with_indices_backward",
     .unsupported = self_floats,
     .convert = backward,
     .epilogue = true,
     .types = types::pool_backward(2),
     .examples = backward_examples},
};

}  // namespace
}  // namespace tv
