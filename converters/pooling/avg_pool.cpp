// Average pooling in one and two dimensions, its adaptive form, and their gradients.

#include "converters/pooling/avg_pool.h"

#include "converters/kit/reduction.h"
#include "converters/pooling/pool_types.h"

namespace tv {
namespace {

void add_divisor(Step& step, const Node& node) {
  const Expr divisor = node.has("divisor_override") ? node.expr("divisor_override") : Expr(0);
  step.params.push_back({.name = "divisor", .value = divisor, .number = DType::kI32});
}

std::vector<std::pair<std::string, std::string>> defines(const Node& node, bool adaptive) {
  const bool include =
      adaptive || node.find("count_include_pad") == nullptr || node.flag("count_include_pad");
  return {{"ADAPTIVE", adaptive ? "1" : "0"}, {"INCLUDE_PAD", include ? "1" : "0"}};
}

void forward(const NodeContext& c, Builder& b, PoolForm form) {
  const Planes in = planes_of(c.shape("self"), form.dims);
  const Planes out = planes_of(c.output().shape, form.dims);
  Step step = pool_step(c, form, "avg_pool");
  step.params.insert(step.params.begin(), param("outputs", out.elements()));
  step.iterations = form.adaptive ? adaptive_iterations(in, out)
                                  : clipped_iterations(window_of(c.node, form.dims), in);
  step.grid = one_each(out.elements(), 64);
  b.emit({avg_pool_simd_tactic(c, form), {.name = "avg_pool", .steps = {std::move(step)}}});
}

void backward(const NodeContext& c, Builder& b, PoolForm form) {
  const Planes in = planes_of(c.output().shape, form.dims);
  const Planes out = planes_of(c.shape("grad_output"), form.dims);
  Step step{.kernel = "avg_pool_backward",
            .defines = defines(c.node, form.adaptive),
            .operands = {src("g", c.node.input("grad_output")), dst("gx", c.node.outputs[0])},
            .params = {param("elements", in.elements())}};
  add_plane_params(step, in, out);
  step.iterations = adaptive_iterations(out, in);
  if (!form.adaptive) {
    const PoolWindow window = window_of(c.node, form.dims);
    step.iterations = window.reverse_iterations();
    add_window_params(step, window, false);
    add_divisor(step, c.node);
  }
  emit_flat(b, std::move(step), in.elements());
}

/// One output per plane is a mean, which has better kernels.
void adaptive_expand(const NodeContext& c, Rewriter& r, int dims) {
  const auto rank = static_cast<int64_t>(c.shape("self").size());
  Reduction reduction{.kind = "sum", .dims = {}, .keepdim = true};
  bool single = true;
  for (int64_t d = rank - dims; d < rank; ++d) {
    reduction.dims.push_back(d);
    single = single && c.output().shape.at(d) == Expr(1);
  }
  if (single) {
    reduction.divisor = count_in(c.shape("self"), reduction.dims);
    r.replace(0, add_reduce(r, c.node.input("self"), reduction, c.output().dtype));
    return;
  }
  r.replace(0, r.add("tv::adaptive_avg_pool",
                     {tensor_arg("self", c.node.input("self")), attr_arg("dims", Expr(dims))},
                     c.output().dtype, c.output().shape));
}

ExampleGraph window(const std::string& op, int dims) {
  ExampleGraph g(op);
  const std::vector<int64_t> three(dims, 3), two(dims, 2), one(dims, 1);
  g.attr("kernel_size", ints(three)).attr("stride", ints(two)).attr("padding", ints(one));
  return g;
}

std::vector<Graph> forward_examples(const std::string& op, int dims) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    for (const bool include : {false, true}) {
      ExampleGraph g = window(op, dims);
      const int64_t in = include ? 97 : 7, out = include ? 49 : 4;
      g.input("self", dtype, dims == 2 ? Shape{2, 3, 11, in} : Shape{2, 3, in});
      g.attr("count_include_pad", include);
      graphs.push_back(g.output(dtype, dims == 2 ? Shape{2, 3, 6, out} : Shape{2, 3, out}).graph());
    }
  }
  return graphs;
}

std::vector<Graph> backward_examples() {
  std::vector<Graph> graphs;
  for (const bool include : {false, true}) {
    ExampleGraph g = window("aten::avg_pool2d_backward", 2);
    g.input("grad_output", DType::kF32, {2, 3, 6, 4}).input("self", DType::kF32, {2, 3, 11, 7});
    g.attr("count_include_pad", include);
    graphs.push_back(g.output(DType::kF32, {2, 3, 11, 7}).graph());
  }
  return graphs;
}

std::vector<Graph> adaptive_examples() {
  return {ExampleGraph("tv::adaptive_avg_pool")
              .input("self", DType::kF32, {2, 3, 11, 7})
              .attr("dims", integer(2))
              .output(DType::kF32, {2, 3, 5, 3})
              .graph()};
}

std::vector<Graph> adaptive_backward_examples() {
  return {ExampleGraph("aten::_adaptive_avg_pool2d_backward")
              .input("grad_output", DType::kF32, {2, 3, 5, 3})
              .input("self", DType::kF32, {2, 3, 11, 7})
              .output(DType::kF32, {2, 3, 11, 7})
              .graph()};
}

std::string self_floats(const NodeContext& c) { return floats_only(c, "self"); }

Converter pool(std::string op, int dims) {
  return {.op = op,
          .unsupported =
              [dims](const NodeContext& c) {
                const std::string floats = self_floats(c);
                return floats.empty()
                           ? loops_too_long(c, clipped_iterations(window_of(c.node, dims),
                                                                  planes_of(c.shape("self"), dims)))
                           : floats;
              },
          .convert = [dims](const NodeContext& c, Builder& b) { forward(c, b, {.dims = dims}); },
          .prologue_arg = "self",
          .epilogue = true,
          .moves = Moves::kMeans,
          .types = types::pool(static_cast<size_t>(dims)),
          .examples = [op, dims] { return forward_examples(op, dims); }};
}

Converter adaptive(std::string op, int dims) {
  return {.op = std::move(op),
          .unsupported = self_floats,
          .expand = [dims](const NodeContext& c, Rewriter& r) { adaptive_expand(c, r, dims); },
          .moves = Moves::kMeans,
          .types = types::adaptive_pool(static_cast<size_t>(dims))};
}

const RegisterConverter avg_pools{
    pool("aten::avg_pool2d", 2),
    pool("aten::avg_pool1d", 1),
    adaptive("aten::_adaptive_avg_pool2d", 2),
    adaptive("aten::adaptive_avg_pool2d", 2),
    adaptive("aten::adaptive_avg_pool1d", 1),
    {.op = "tv::adaptive_avg_pool",
     .convert =
         [](const NodeContext& c, Builder& b) {
           forward(c, b, {.dims = static_cast<int>(c.node.integer("dims")), .adaptive = true});
         },
     .prologue_arg = "self",
     .epilogue = true,
     .moves = Moves::kMeans,
     .examples = adaptive_examples},
    {.op = "aten::avg_pool2d_backward",
     .unsupported = self_floats,
     .convert = [](const NodeContext& c, Builder& b) { backward(c, b, {}); },
     .epilogue = true,
     .types = types::pool_backward(2),
     .examples = backward_examples},
    {.op = "aten::_adaptive_avg_pool2d_backward",
     .unsupported = self_floats,
     .convert = [](const NodeContext& c, Builder& b) { backward(c, b, {.adaptive = true}); },
     .epilogue = true,
     .types = types::adaptive_pool_backward(2),
     .examples = adaptive_backward_examples},
};

}  // namespace

Step pool_step(const NodeContext& c, PoolForm form, std::string kernel) {
  Step step{.kernel = std::move(kernel),
            .defines = defines(c.node, form.adaptive),
            .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])}};
  add_plane_params(step, planes_of(c.shape("self"), form.dims),
                   planes_of(c.output().shape, form.dims));
  if (form.adaptive) return step;
  add_window_params(step, window_of(c.node, form.dims), false);
  add_divisor(step, c.node);
  return step;
}

}  // namespace tv
