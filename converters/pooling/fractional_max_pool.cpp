// Max pooling over windows whose places follow from random numbers, with torch's flattened indices.

#include "converters/kit/shape_types.h"
#include "converters/kit/window_types.h"
#include "converters/pooling/pool_window.h"

namespace tv {
namespace {

constexpr const char* kFractional = "aten::fractional_max_pool2d";

void fractional(const NodeContext& c, Builder& b) {
  const Planes in = planes_of(c.shape("self"), 2), out = planes_of(c.output().shape, 2);
  const PoolWindow window = window_of(c.node, 2);
  const bool indices = c.node.outputs.size() > 1 && is_used(c.graph, c.node.outputs[1]);
  Step step{
      .kernel = "fractional_max_pool",
      .defines = {{"INDICES", flag(indices)}},
      .operands = {src("x", c.node.input("self")), src("samples", c.node.input("random_samples")),
                   dst("y", c.node.outputs[0])},
      .params = {param("outputs", out.elements()), fixed("kernel_h", window.kernel[0]),
                 fixed("kernel_w", window.kernel[1])},
      .iterations = window.iterations()};
  if (indices) step.operands.push_back(dst("idx", c.node.outputs[1]));
  add_plane_params(step, in, out);
  emit_flat(b, std::move(step), out.elements());
}

/// PyTorch places windows by arithmetic in the samples' type on CPUs, and in float32 on GPUs.
std::string fractional_unsupported(const NodeContext& c) {
  const DType samples = c.dtype("random_samples");
  if (samples != DType::kF32) {
    return "[" + c.node.op + "] random_samples must be float32, because PyTorch's CPUs and GPUs " +
           "place windows differently by others; got " + std::string(name(samples));
  }
  const std::string floats = floats_only(c, "self");
  return floats.empty() ? loops_too_long(c, window_of(c.node, 2).iterations()) : floats;
}

void fractional_types(NodeTypes& t) {
  const Shape in = types::picture(t, "self", 2), samples = t.shape("random_samples");
  const std::vector<Expr> kernel = t.list("kernel_size", 2), made = t.list("output_size", 2);
  for (size_t i = 0; i < 2; ++i) {
    t.at_least(kernel[i], 0, "a size of the kernel");
    t.at_least(made[i], 0, "a size of the result");
    t.at_least(types::trailing(in, 2)[i], kernel[i] + made[i] - 1, "a size of the picture");
  }
  t.want(samples.size() == 3, "random_samples of rank " + std::to_string(samples.size()));
  t.at_least(samples[0], in.size() == 4 ? in[0] : Expr(1),
             "the batch of argument 'random_samples'");
  t.equal({samples[1], samples[2]}, {in[in.size() - 3], 2}, "argument 'random_samples'");
  for (size_t i = 0; i < t.results(); ++i) {
    if (t.has_result(i)) t.gives(types::joined_shape(types::leading(in, 2), made), i);
  }
}

std::vector<Graph> fractional_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const bool indices : {true, false}) {
      ExampleGraph g(kFractional);
      g.input("self", dtype, {2, 3, 11, 7}).input("random_samples", DType::kF32, {2, 3, 2});
      g.attr("kernel_size", ints({3, 2})).attr("output_size", ints({5, 4}));
      g.output(dtype, {2, 3, 5, 4});
      if (indices) g.output(DType::kI64, {2, 3, 5, 4});
      graphs.push_back(g.graph());
    }
  }
  return graphs;
}

const RegisterConverter fractional_pool{
    {.op = kFractional,
     .unsupported = fractional_unsupported,
     .convert = fractional,
     .reads_views = {"random_samples"},
     .epilogue = true,
     .float32_args = {"random_samples"},
     .types = fractional_types,
     .examples = fractional_examples,
     .notes = "float32 samples; of one outside of [0, 1), windows lie in the picture"}};

}  // namespace
}  // namespace tv
