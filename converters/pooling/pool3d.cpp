// Pooling over three dimensions: average, maximum, their adaptive forms, and the gradients; and the
// adaptive maximum of two, whose depth is 1.

#include <array>

#include "converters/pooling/pool_types.h"
#include "converters/pooling/pool_window.h"

namespace tv {
namespace {

struct Form {
  bool max = false, adaptive = false;
  int dims = 3;
};

/// The last three dimensions, those that are missing 1, and the product of those before.
struct Volumes {
  Expr count = 1;
  std::array<Expr, 3> size = {1, 1, 1};
  Expr elements() const { return count * size[0] * size[1] * size[2]; }
};

Volumes volumes_of(const Shape& shape, int dims) {
  const size_t lead = shape.size() - dims;
  Volumes v{.count = product_of(shape, 0, lead)};
  for (int i = 0; i < dims; ++i) v.size[3 - dims + i] = shape[lead + i];
  return v;
}

/// kernel, stride, padding, dilation; those of an adaptive window are not read.
struct Window {
  std::array<Expr, 3> kernel = {1, 1, 1}, stride = {1, 1, 1}, padding = {0, 0, 0},
                      dilation = {1, 1, 1};
};

void read(const Node& node, const std::string& arg, std::array<Expr, 3>& to) {
  const std::vector<Expr> values = node.has(arg) ? node.exprs(arg) : std::vector<Expr>{};
  for (size_t i = 0; i < 3 && !values.empty(); ++i)
    to[i] = values.size() == 1 ? values[0] : values.at(i);
}

Window window_of(const Node& node, const Form& form) {
  Window w;
  if (form.adaptive) return w;
  read(node, "kernel_size", w.kernel);
  w.stride = w.kernel;
  read(node, "stride", w.stride);
  read(node, "padding", w.padding);
  read(node, "dilation", w.dilation);
  return w;
}

/// Loop iterations of an output, and of an element of the gradient.
Expr iterations(const Window& w, const Form& form, const Volumes& in, const Volumes& out,
                bool backward) {
  Expr steps[3];
  for (int i = 0; i < 3; ++i) {
    const Expr& from = backward ? out.size[i] : in.size[i];
    const Expr& to = backward ? in.size[i] : out.size[i];
    if (form.adaptive) {
      steps[i] = floordiv(from, max(to, Expr(1))) + 2;
    } else if (backward) {
      steps[i] = ceil_div((w.kernel[i] - 1) * w.dilation[i], w.stride[i]) + 2;
    } else {
      steps[i] = min(w.kernel[i], in.size[i]);
    }
  }
  return steps[0] * (steps[1] * (steps[2] + 1) + 1);
}

void add_params(Step& step, const NodeContext& c, const Form& form, const Volumes& in,
                const Volumes& out) {
  const Window w = window_of(c.node, form);
  const char* axes[] = {"d", "h", "w"};
  for (int i = 0; i < 3; ++i) {
    const std::string axis = axes[i];
    step.params.push_back(param("in_" + axis, in.size[i]));
    step.params.push_back(param("out_" + axis, out.size[i]));
    step.params.push_back(fixed("kernel_" + axis, w.kernel[i]));
    step.params.push_back(fixed("stride_" + axis, w.stride[i]));
    step.params.push_back(param("pad_" + axis, w.padding[i]));
    step.params.push_back(fixed("dilation_" + axis, w.dilation[i]));
  }
  const bool has = !form.adaptive && c.node.has("divisor_override");
  step.params.push_back({.name = "divisor",
                         .value = has ? c.node.expr("divisor_override") : Expr(0),
                         .number = DType::kI32});
  const bool include = form.adaptive || c.node.find("count_include_pad") == nullptr ||
                       c.node.flag("count_include_pad");
  step.defines = {{"ADAPTIVE", form.adaptive ? "1" : "0"},
                  {"MAX", form.max ? "1" : "0"},
                  {"INCLUDE_PAD", include ? "1" : "0"}};
}

void forward(const NodeContext& c, Builder& b, const Form& form) {
  const Volumes in = volumes_of(c.shape("self"), form.dims);
  const Volumes out = volumes_of(c.output().shape, form.dims);
  const bool indices = form.max && c.node.outputs.size() > 1 && is_used(c.graph, c.node.outputs[1]);
  Step step{.kernel = "pool3d",
            .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
            .params = {param("outputs", out.elements())}};
  add_params(step, c, form, in, out);
  step.defines.emplace_back("INDICES", indices ? "1" : "0");
  for (auto& define : key_defines(c.dtype("self"))) step.defines.push_back(std::move(define));
  if (indices) step.operands.push_back(dst("idx", c.node.outputs[1]));
  step.iterations = iterations(window_of(c.node, form), form, in, out, false);
  emit_flat(b, std::move(step), out.elements());
}

void backward(const NodeContext& c, Builder& b, const Form& form) {
  const Volumes in = volumes_of(c.output().shape, form.dims);
  const Volumes out = volumes_of(c.shape("grad_output"), form.dims);
  Step step{.kernel = "pool3d_backward",
            .operands = {src("g", c.node.input("grad_output")), dst("gx", c.node.outputs[0])},
            .params = {param("elements", in.elements())}};
  if (form.max) step.operands.push_back(src("idx", c.node.input("indices")));
  add_params(step, c, form, in, out);
  step.iterations = iterations(window_of(c.node, form), form, in, out, true);
  emit_flat(b, std::move(step), in.elements());
}

std::string unsupported(const NodeContext& c, const Form& form, bool is_backward) {
  const bool compares = form.max && !is_backward;
  const std::string refusal = compares ? numbers_only(c, "self") : floats_only(c, "self");
  if (!refusal.empty()) return refusal;
  const Shape& outputs = is_backward ? c.shape("grad_output") : c.output().shape;
  return loops_too_long(
      c, iterations(window_of(c.node, form), form, volumes_of(c.shape("self"), form.dims),
                    volumes_of(outputs, form.dims), is_backward));
}

ExampleGraph example(const std::string& op, const Form& form, DType dtype) {
  ExampleGraph g(op);
  g.input("self", dtype, form.dims == 2 ? Shape{2, 11, 7} : Shape{2, 5, 11, 7});
  if (!form.adaptive) {
    g.attr("kernel_size", ints({3})).attr("stride", ints({2})).attr("padding", ints({1}));
    if (form.max) g.attr("dilation", ints({1}));
  }
  return g;
}

Shape example_out(const Form& form) { return form.dims == 2 ? Shape{2, 6, 4} : Shape{2, 3, 6, 4}; }

std::vector<Graph> forward_examples(const std::string& op, const Form& form) {
  std::vector<Graph> graphs;
  std::vector<DType> dtypes = {DType::kF32, DType::kF16};
  if (form.max) dtypes.insert(dtypes.end(), {DType::kI64, DType::kU8});
  for (const DType dtype : dtypes) {
    ExampleGraph g = example(op, form, dtype);
    if (!form.max) g.attr("count_include_pad", dtype == DType::kF32);
    g.output(dtype, example_out(form));
    if (form.max) g.output(DType::kI64, example_out(form));
    graphs.push_back(g.graph());
  }
  return graphs;
}

std::vector<Graph> backward_examples(const std::string& op, const Form& form) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    ExampleGraph g = example(op, form, dtype);
    g.input("grad_output", dtype, example_out(form));
    if (form.max) g.input("indices", DType::kI64, example_out(form));
    if (!form.max) g.attr("count_include_pad", dtype == DType::kF32);
    const Shape in = form.dims == 2 ? Shape{2, 11, 7} : Shape{2, 5, 11, 7};
    graphs.push_back(g.output(dtype, in).graph());
  }
  return graphs;
}

Converter pool(std::string op, Form form) {
  const auto dims = static_cast<size_t>(form.dims);
  return {.op = op,
          .unsupported = [form](const NodeContext& c) { return unsupported(c, form, false); },
          .convert = [form](const NodeContext& c, Builder& b) { forward(c, b, form); },
          .prologue_arg = form.max ? "" : "self",
          .epilogue = true,
          .moves = form.max ? Moves::kLargest : Moves::kMeans,
          .types = form.adaptive ? types::adaptive_pool(dims) : types::pool(dims),
          .examples = [op, form] { return forward_examples(op, form); }};
}

Converter gradient(std::string op, Form form) {
  const auto dims = static_cast<size_t>(form.dims);
  return {.op = op,
          .unsupported = [form](const NodeContext& c) { return unsupported(c, form, true); },
          .convert = [form](const NodeContext& c, Builder& b) { backward(c, b, form); },
          .epilogue = true,
          .types = form.adaptive ? types::adaptive_pool_backward(dims) : types::pool_backward(dims),
          .examples = [op, form] { return backward_examples(op, form); }};
}

const RegisterConverter pools{
    pool("aten::avg_pool3d", {}),
    pool("aten::_adaptive_avg_pool3d", {.adaptive = true}),
    pool("aten::max_pool3d_with_indices", {.max = true}),
    pool("aten::adaptive_max_pool2d", {.max = true, .adaptive = true, .dims = 2}),
    pool("aten::adaptive_max_pool3d", {.max = true, .adaptive = true}),
    gradient("aten::avg_pool3d_backward", {}),
    gradient("aten::_adaptive_avg_pool3d_backward", {.adaptive = true}),
    gradient("aten::max_pool3d_with_indices_backward", {.max = true}),
    gradient("aten::adaptive_max_pool2d_backward", {.max = true, .adaptive = true, .dims = 2}),
    gradient("aten::adaptive_max_pool3d_backward", {.max = true, .adaptive = true}),
};

}  // namespace
}  // namespace tv
