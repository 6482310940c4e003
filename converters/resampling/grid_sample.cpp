// grid_sampler_2d and grid_sampler_3d, and their gradients.

#include "converters/kit/shape_types.h"
#include "converters/sorting/sort_lines.h"

namespace tv {
namespace {

constexpr int64_t kCubic = 2;

/// Sizes that all kernels share.
struct Sampling {
  int dims = 2;
  Expr batch, channels, points, plane;
  Shape sizes;  ///< of the plane, outermost first

  int64_t taps(const Node& node) const {
    const int64_t mode = node.integer("interpolation_mode");
    return mode == 0 ? int64_t{1} << dims : mode == kCubic ? 16 : 1;
  }
};

Sampling sampling(const NodeContext& c, int dims) {
  const Shape &x = c.shape("input"), &grid = c.shape("grid");
  Sampling s{.dims = dims, .batch = x.at(0), .channels = x.at(1)};
  s.points = product_of(grid, 1, grid.size() - 1);
  s.plane = product_of(x, 2, x.size());
  s.sizes.assign(x.begin() + 2, x.end());
  return s;
}

Step base_step(const NodeContext& c, const Sampling& s, std::string kernel) {
  Step step{.kernel = std::move(kernel),
            .defines = {{"DIMS", std::to_string(s.dims)},
                        {"MODE", std::to_string(c.node.integer("interpolation_mode"))},
                        {"PADDING", std::to_string(c.node.integer("padding_mode"))},
                        {"ALIGN", c.node.flag("align_corners") ? "1" : "0"}},
            .operands = {src("grid", c.node.input("grid"))},
            .params = {param("channels", s.channels), param("points", s.points),
                       param("plane", s.plane)}};
  for (int k = 0; k < s.dims; ++k) {
    step.params.push_back(param("size_" + std::to_string(k), s.sizes[s.dims - 1 - k]));
  }
  return step;
}

void forward(const NodeContext& c, Builder& b, int dims) {
  const Sampling s = sampling(c, dims);
  const Expr outputs = product(c.output().shape);
  Step step = base_step(c, s, "grid_sample");
  step.operands.push_back(src("x", c.node.input("input")));
  step.operands.push_back(dst("y", c.node.outputs[0]));
  step.params.push_back(param("outputs", outputs));
  emit_flat(b, std::move(step), outputs);
}

Step grid_gradient(const NodeContext& c, const Sampling& s) {
  const Expr points = s.batch * s.points;
  Step step = base_step(c, s, "grid_sample_grid");
  step.operands.push_back(src("x", c.node.input("input")));
  step.operands.push_back(src("g", c.node.input("grad_output")));
  step.operands.push_back(dst("y", c.node.outputs.at(1)));
  step.params.push_back(param("all_points", points));
  step.grid = one_each(points, 64);
  step.iterations = (s.channels + 1) * s.taps(c.node);
  return step;
}

/// Which element each point looks at, sorted by element, so that each element finds its points.
void input_gradient(const NodeContext& c, Builder& b, const Sampling& s, std::vector<Step>& steps) {
  const int64_t taps = s.taps(c.node);
  const Expr points = s.batch * s.points, each = s.points * taps;
  const ValueId element = b.scratch("element", DType::kI32, {s.batch, each});
  const ValueId weight = b.scratch("weight", DType::kF32, {s.batch, each});
  Step entries = base_step(c, s, "grid_sample_entries");
  entries.operands.push_back(dst("element", element));
  entries.operands.push_back(dst("weight", weight));
  entries.params.push_back(param("all_points", points));
  entries.grid = one_each(points, 64);
  entries.iterations = taps;
  steps.push_back(std::move(entries));

  SortLines lines{.x = {.value = element}, .split = {s.batch, each, 1}, .dtype = DType::kI32};
  lines.limit = each;
  const SortedLines sorted = sort(c, b, lines, steps);
  const Expr elements = s.batch * s.channels * s.plane;
  Step step{.kernel = "grid_sample_input",
            .defines = {{"TAPS", std::to_string(taps) + "u"}},
            .operands = {src("g", c.node.input("grad_output")), src("weight", weight),
                         dst("y", c.node.outputs.at(0))},
            .params = {param("elements", elements), param("channels", s.channels),
                       param("points", s.points), param("plane", s.plane)},
            .grid = one_each(elements, 64),
            .iterations = each + 33};
  sorted.add_to(step, lines);
  steps.push_back(std::move(step));
}

void backward(const NodeContext& c, Builder& b, int dims) {
  const Sampling s = sampling(c, dims);
  std::vector<Step> steps;
  if (is_used(c.graph, c.node.outputs.at(0))) input_gradient(c, b, s, steps);
  if (is_used(c.graph, c.node.outputs.at(1))) steps.push_back(grid_gradient(c, s));
  b.emit({{.name = "grid_sample_backward", .steps = std::move(steps)}});
}

std::string unsupported(const NodeContext& c, int dims, bool gradient) {
  const std::string reason = floats_only(c, "input");
  if (!reason.empty()) return reason;
  const Sampling s = sampling(c, dims);
  if (s.plane == Expr(0)) return "[" + c.node.op + "] an empty image";
  if (dims == 3 && c.node.integer("interpolation_mode") == kCubic) {
    return "[" + c.node.op + "] cubic interpolation of volumes";
  }
  if (!gradient) return "";
  if (!is_used(c.graph, c.node.outputs.at(0)) && !is_used(c.graph, c.node.outputs.at(1))) {
    return "[" + c.node.op + "] of which nothing is used";
  }
  const std::string channels = loops_too_long(c, (s.channels + 1) * s.taps(c.node));
  return channels.empty() ? loops_too_long(c, s.points * s.taps(c.node) + 33) : channels;
}

std::vector<Graph> examples(const std::string& op, int dims, bool gradient) {
  std::vector<Graph> graphs;
  const Shape in = dims == 2 ? Shape{2, 3, 5, 7} : Shape{2, 3, 4, 5, 7};
  const Shape grid = dims == 2 ? Shape{2, 6, 4, 2} : Shape{2, 3, 6, 4, 3};
  const Shape out = dims == 2 ? Shape{2, 3, 6, 4} : Shape{2, 3, 3, 6, 4};
  for (const int64_t mode : {0, 1, 2}) {
    for (const int64_t padding : {0, 1, 2}) {
      if (mode == kCubic && dims == 3) continue;
      const DType dtype = padding == 1 ? DType::kF16 : DType::kF32;
      ExampleGraph g(op);
      if (gradient) g.input("grad_output", dtype, out);
      g.input("input", dtype, in).input("grid", dtype, grid);
      g.attr("interpolation_mode", integer(mode)).attr("padding_mode", integer(padding));
      g.attr("align_corners", padding == 0).output(dtype, gradient ? in : out);
      if (gradient) g.output(dtype, grid);
      graphs.push_back(g.graph());
    }
  }
  return graphs;
}

TypeRule sampled(size_t dims) {
  return [dims](NodeTypes& t) {
    t.positive(types::trailing(t.shape("input"), dims), "a size of the picture");
  };
}

Converter entry(std::string op, int dims, bool gradient) {
  return {
      .op = op,
      .unsupported = [=](const NodeContext& c) { return unsupported(c, dims, gradient); },
      .convert = [=](const NodeContext& c,
                     Builder& b) { gradient ? backward(c, b, dims) : forward(c, b, dims); },
      .epilogue = !gradient,
      .examples = [=] { return examples(op, dims, gradient); },
      .notes = gradient ? "sums run in the order of the points: the same bits on every call" : ""};
}

const RegisterConverter samplers{
    typed(entry("aten::grid_sampler_2d", 2, false),
          TypeRule("input T[n c . .], grid T[n h w 2] -> [n c h w]") & sampled(2)),
    typed(entry("aten::grid_sampler_3d", 3, false),
          TypeRule("input T[n c . . .], grid T[n d h w 3] -> [n c d h w]") & sampled(3)),
    typed(entry("aten::grid_sampler_2d_backward", 2, true),
          TypeRule("input [n c a b], grid [n h w 2], grad_output [n c h w] -> "
                   "[n c a b], [n h w 2]") &
              sampled(2)),
    typed(entry("aten::grid_sampler_3d_backward", 3, true),
          TypeRule("input [n c a b e], grid [n d h w 3], grad_output [n c d h w] -> "
                   "[n c a b e], [n d h w 3]") &
              sampled(3)),
};

}  // namespace
}  // namespace tv
