// Resizing of one to three dimensions: nearest, exact nearest, linear, cubic, and with
// anti-aliasing; and the gradients of all of them.

#include <algorithm>

#include "converters/kit/shape_types.h"
#include "converters/resampling/resize.h"

namespace tv {
namespace {

const char* input_name(const NodeContext& c, const Resize& r) {
  if (r.backward) return "grad_output";
  return c.node.find("input") != nullptr ? "input" : "self";
}

/// The scale factor of dimension `k` of `dims`; 0: none.
double factor(const Node& node, int k, int dims) {
  if (node.has("scale_factors")) {
    const Attr& attr = node.arg("scale_factors").attr;
    if (const auto* v = std::get_if<std::vector<double>>(&attr)) return v->at(k);
    return static_cast<double>(node.integers("scale_factors").at(k));
  }
  const char* names[] = {"scales_d", "scales_h", "scales_w"};
  const std::string name = dims == 1 ? "scales" : names[3 - dims + k];
  return node.has(name) ? node.number(name) : 0;
}

/// Whether dimensions that keep their size keep their elements, too, whatever scale was given: as
/// ATen's kernels for CPUs do it, which differ from one to another.
bool copies(const NodeContext& c, const Resize& r) {
  if (r.filter != 0) return !r.backward;
  if (r.mode == "NEAREST") return r.backward || r.dims == 2;
  if (r.mode != "CUBIC") return r.mode == "LINEAR";
  const std::vector<Axis> axes = axes_of(c, r);
  return r.backward &&
         std::all_of(axes.begin(), axes.end(), [](const Axis& a) { return a.in == a.out; });
}

std::vector<std::pair<std::string, std::string>> taps(const NodeContext& c, const Resize& r) {
  return {{"MODE", r.mode},
          {"ALIGN", c.node.flag("align_corners") ? "1" : "0"},
          {"COPIES", copies(c, r) ? "1" : "0"}};
}

void forward(const NodeContext& c, Builder& b, const Resize& r) {
  const Expr outputs = product(c.output().shape);
  Step step = resize_step(c, r, "upsample");
  step.params.insert(step.params.begin(), param("outputs", outputs));
  step.local_size = {64, 1, 1};
  step.grid = one_each(outputs, 64);
  b.emit({upsample_simd_tactic(c, r), {.name = "upsample", .steps = {std::move(step)}}});
}

/// Iterations of a gradient's loop over the outputs that look at one source element.
Expr reverse_iterations(const Axis& a, const Resize& r) {
  const Expr each = ceil_div(a.out, max(a.in - 1, 1));
  return min(a.out, each * int64_t{std::max(r.filter, 4) + 2} + int64_t{r.filter + 10});
}

/// Iterations of the loops over the source elements of one output, twice for the total.
Expr filter_iterations(const Axis& a, const Resize& r) {
  return (ceil_div(a.in, a.out) + 2) * int64_t{2 * (r.filter + 2)};
}

/// A step along one dimension, without operands.
Step along(const NodeContext& c, const Resize& r, const Axis& a, const Expr& elements) {
  Step step{.kernel = "upsample_dim",
            .defines = taps(c, r),
            .params = {param("elements", elements), param("in_size", a.in),
                       param("out_size", a.out), number("scale", a.scale)},
            .grid = one_each(elements, 64)};
  step.defines.emplace_back("FILTER", std::to_string(r.filter));
  return step;
}

/// What each output's weights add up to.
Step totals(const NodeContext& c, const Resize& r, const Axis& a, ValueId to) {
  Step step = along(c, r, a, a.out);
  step.defines.insert(step.defines.end(), {{"TRANSPOSED", "0"}, {"TOTALS", "1"}});
  step.operands = {dst("y", to)};
  step.params.push_back(param("inner", 1));
  step.iterations = filter_iterations(a, r);
  return step;
}

/// One dimension after the other, the innermost first.
void by_dimensions(const NodeContext& c, Builder& b, const Resize& r) {
  const std::vector<Axis> axes = axes_of(c, r);
  ValueId from = c.node.input(input_name(c, r));
  Shape shape = c.graph.value(from).shape;
  std::vector<Step> steps;
  for (int k = r.dims; k-- > 0;) {
    const Axis& a = axes[k];
    const size_t d = shape.size() - r.dims + k;
    shape[d] = r.backward ? a.in : a.out;
    const std::string n = std::to_string(k);
    const ValueId to = k == 0 ? c.node.outputs[0] : b.scratch("resized_" + n, DType::kF32, shape);
    Step step = along(c, r, a, product(shape));
    step.operands = {src("x", from), dst("y", to)};
    step.params.push_back(param("inner", product_of(shape, d + 1, shape.size())));
    step.defines.insert(step.defines.end(),
                        {{"TRANSPOSED", r.backward ? "1" : "0"}, {"TOTALS", "0"}});
    step.iterations = r.backward ? reverse_iterations(a, r) : filter_iterations(a, r);
    if (r.backward && r.filter != 0) {
      const ValueId sums = b.scratch("totals_" + n, DType::kF32, {a.out});
      steps.push_back(totals(c, r, a, sums));
      step.operands.push_back(src("totals", sums));
    }
    steps.push_back(std::move(step));
    from = to;
  }
  b.emit({{.name = "upsample_by_dimensions", .steps = std::move(steps)}});
}

std::string unsupported(const NodeContext& c, const Resize& r) {
  const bool copies = !r.backward && copies_elements(r);
  const std::string reason = copies ? "" : floats_only(c, input_name(c, r));
  if (!reason.empty()) return reason;
  if (!r.backward && r.filter == 0) return "";
  for (const Axis& a : axes_of(c, r)) {
    std::string too_long = r.backward ? loops_too_long(c, reverse_iterations(a, r)) : "";
    if (too_long.empty() && r.filter != 0) too_long = loops_too_long(c, filter_iterations(a, r));
    if (!too_long.empty()) return too_long;
  }
  return "";
}

std::vector<Graph> examples(const std::string& op, const Resize& r) {
  std::vector<Graph> graphs;
  Shape in = {2, 3}, out = {2, 3};
  for (int k = 0; k < r.dims; ++k) {
    in.push_back(5 + k);
    out.push_back(10 + 2 * k);
  }
  const bool vec = op.ends_with(".vec");
  if (vec) {  // rows of several vectors of a CPU driver
    in.back() = 41;
    out.back() = 82;
  }
  const bool usual = op == "aten::upsample_bilinear2d" || op == "aten::upsample_nearest2d.vec";
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    if (dtype == DType::kF16 && !usual) continue;
    for (const bool align : {false, true}) {
      if (align && r.mode != "LINEAR" && r.mode != "CUBIC") continue;
      ExampleGraph g(op);
      g.input(r.backward ? "grad_output" : vec ? "input" : "self", dtype, r.backward ? out : in);
      g.attr("align_corners", align);
      if (vec) g.attr("scale_factors", std::vector<double>(r.dims, 2.0));
      graphs.push_back(g.output(dtype, r.backward ? in : out).graph());
    }
  }
  return graphs;
}

const char* picture_arg(const NodeTypes& t) {
  return t.node().find("self") != nullptr ? "self" : "input";
}

TypeRule forward_types(size_t dims) {
  return [dims](NodeTypes& t) {
    const Shape in = t.shape(picture_arg(t));
    t.want(in.size() == dims + 2, "the picture is of rank " + std::to_string(in.size()));
    t.positive(types::trailing(in, dims), "a size of the picture");
    if (!t.has_result(0)) return;
    t.want(t.result().size() == in.size(), "the result has another rank");
    // Of factors PyTorch computes the sizes in floating point.
    const Shape sizes =
        t.has("output_size") ? t.list("output_size", dims) : types::trailing(t.result(), dims);
    t.positive(sizes, "a size of the result");
    t.gives(types::joined_shape(types::leading(in, dims), sizes));
    if (t.has("scale_factors")) {
      const auto* factors = std::get_if<std::vector<double>>(&t.node().arg("scale_factors").attr);
      t.want(factors == nullptr || factors->size() == dims, "wants a factor for each dimension");
    }
  };
}

TypeRule backward_types(size_t dims) {
  return [dims](NodeTypes& t) {
    const Shape grad = t.shape("grad_output"), in = t.node().exprs("input_size");
    t.want(grad.size() == dims + 2 && in.size() == dims + 2, "a picture is of another rank");
    t.positive(types::trailing(in, dims), "a size of the picture");
    t.equal(types::leading(grad, dims), types::leading(in, dims),
            "the batch of argument 'grad_output'");
    t.equal(types::trailing(grad, dims), t.list("output_size", dims), "argument 'grad_output'");
    t.gives(in);
  };
}

Converter entry(std::string op, Resize r) {
  const bool direct = r.filter == 0 && !r.backward;
  const auto dims = static_cast<size_t>(r.dims);
  return {
      .op = op,
      .unsupported = [r](const NodeContext& c) { return unsupported(c, r); },
      .convert = [r, direct](const NodeContext& c,
                             Builder& b) { direct ? forward(c, b, r) : by_dimensions(c, b, r); },
      .epilogue = true,
      .moves = direct && copies_elements(r) ? Moves::kPicks : Moves::kNothing,
      .types = r.backward ? backward_types(dims) : forward_types(dims),
      .examples = [op, r] { return examples(op, r); }};
}

/// `name` itself, its form with a list of scale factors, its gradient.
std::vector<Converter> family(const std::string& name, Resize r) {
  Resize gradient = r;
  gradient.backward = true;
  return {entry("aten::" + name, r), entry("aten::" + name + ".vec", r),
          entry("aten::" + name + "_backward", gradient)};
}

const auto registered = [] {
  const std::pair<const char*, Resize> all[] = {
      {"upsample_nearest1d", {"NEAREST", 1}},        {"upsample_nearest2d", {"NEAREST", 2}},
      {"upsample_nearest3d", {"NEAREST", 3}},        {"_upsample_nearest_exact1d", {"EXACT", 1}},
      {"_upsample_nearest_exact2d", {"EXACT", 2}},   {"_upsample_nearest_exact3d", {"EXACT", 3}},
      {"upsample_linear1d", {"LINEAR", 1}},          {"upsample_bilinear2d", {"LINEAR", 2}},
      {"upsample_trilinear3d", {"LINEAR", 3}},       {"upsample_bicubic2d", {"CUBIC", 2}},
      {"_upsample_bilinear2d_aa", {"LINEAR", 2, 2}}, {"_upsample_bicubic2d_aa", {"CUBIC", 2, 4}},
      {"_upsample_lanczos2d_aa", {"CUBIC", 2, 6}},
  };
  for (const auto& [name, resize] : all) {
    for (Converter& c : family(name, resize)) Registry::instance().add(std::move(c));
  }
  return true;
}();

}  // namespace

std::vector<Axis> axes_of(const NodeContext& c, const Resize& r) {
  const Shape& x = c.shape(input_name(c, r));
  const Shape &in = r.backward ? c.output().shape : x, &out = r.backward ? x : c.output().shape;
  std::vector<Axis> axes;
  for (int k = 0; k < r.dims; ++k) {
    const double f = factor(c.node, k, r.dims);
    axes.push_back({in.at(in.size() - r.dims + k), out.at(out.size() - r.dims + k),
                    f > 0 ? static_cast<double>(static_cast<float>(1.0 / f)) : 0});
  }
  return axes;
}

Step resize_step(const NodeContext& c, const Resize& r, std::string kernel) {
  const std::vector<Axis> axes = axes_of(c, r);
  Step step{.kernel = std::move(kernel),
            .defines = taps(c, r),
            .operands = {src("x", c.node.input(input_name(c, r))), dst("y", c.node.outputs[0])}};
  step.defines.emplace_back("DIMS", std::to_string(r.dims));
  step.defines.emplace_back("COPY", copies_elements(r) ? "1" : "0");
  for (int k = 0; k < r.dims; ++k) {  // the innermost is number 0
    const Axis& a = axes[r.dims - 1 - k];
    const std::string n = std::to_string(k);
    step.params.insert(step.params.end(), {param("in_" + n, a.in), param("out_" + n, a.out),
                                           number("scale_" + n, a.scale)});
  }
  return step;
}

}  // namespace tv
