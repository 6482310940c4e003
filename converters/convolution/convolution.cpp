// aten::convolution in one to three dimensions: grouped, dilated, transposed, with or without bias.

#include "converters/convolution/convolution.h"

#include <algorithm>

#include "converters/convolution/convolution_nodes.h"
#include "converters/convolution/convolution_types.h"
#include "converters/kit/flops.h"
#include "converters/matmul/matmul.h"

namespace tv {

namespace {

constexpr const char* kDims[3] = {"d", "h", "w"};

/// Attribute `name` as three numbers, the last `rank` of them given (one number: for each).
std::array<int64_t, 3> spatial(const Node& node, const char* name, size_t rank, int64_t missing) {
  std::array<int64_t, 3> out{missing, missing, missing};
  const std::vector<int64_t> given = node.integers(name);
  for (size_t i = 0; i < rank; ++i) out[3 - rank + i] = given.size() == 1 ? given[0] : given.at(i);
  return out;
}

/// The product that a convolution is: output channels x pixels, for each image and group.
Product product_of(const ConvShape& s) {
  Product p{.m = s.oc, .n = s.pixels(), .k = s.ic * s.taps()};
  p.batch.sizes = {s.n * s.groups};
  return p;
}

constexpr int64_t kRows = 64, kCols = 64;  ///< of a tile of conv_tiled

/// `splits`: workgroups that share the steps of k of a tile.
Tactic tiled_tactic(const NodeContext& c, Builder& b, const ConvShape& s, int64_t splits) {
  constexpr int64_t kThreads = 256, kPer = 4, kSteps = 16;
  Tactic tactic{.name = "conv_tiled_64x64"};
  const Product p = product_of(s);
  if (splits > 1) {
    tactic.name += "_k" + std::to_string(splits);
    tactic.refusal = split_k_refusal(c, p, splits);
  }
  if (c.device.is_cpu()) tactic.refusal = "workgroups that share memory are slow on a CPU";
  if (kThreads > c.device.max_workgroup_invocations) {
    tactic.refusal = "workgroups of 256 invocations are not possible";
  }
  if (s.ic == Expr(1) && s.oc.bounds(c.graph.symbols).second < 8) {
    tactic.refusal = "depthwise: tiles would be nearly empty";
  }
  if (!tactic.refusal.empty()) return tactic;
  Step step{.kernel = "conv_tiled",
            .defines = {{"BM", std::to_string(kRows)},
                        {"BN", std::to_string(kCols)},
                        {"BK", std::to_string(kSteps)},
                        {"SPLIT", std::to_string(splits)},
                        {"BLOCK", "64u"},
                        {"RM", std::to_string(kPer)},
                        {"RN", std::to_string(kPer)},
                        {"BIAS", s.bias != kNoValue ? "1" : "0"}},
            .operands = {src("x", s.x), src("w", s.w)},
            .grid = {{ceil_div(s.pixels(), kCols), ceil_div(s.oc, kRows), s.n * s.groups * splits}},
            .local_size = {kThreads, 1, 1}};
  const ValueId sums = splits > 1 ? split_k_sums(b, p, splits) : c.node.outputs[0];
  step.operands.push_back(dst("y", sums));
  if (s.bias != kNoValue) step.operands.push_back(src("bias", s.bias));
  add_geometry(step, s);
  add_weight(step, s);
  if (splits > 1) {
    step.params.push_back(param("k_per_split", round_up(ceil_div(p.k, splits), kSteps)));
    step.params.push_back(param("planes", s.n * s.groups));
  }
  tactic.steps.push_back(std::move(step));
  if (splits > 1) tactic.steps.push_back(split_k_step(c, p, sums, splits));
  return tactic;
}

Tactic reference_tactic(const NodeContext& c, const ConvShape& s) {
  Step step{.kernel = "conv_reference",
            .defines = {{"BIAS", s.bias != kNoValue ? "1" : "0"}},
            .operands = {src("x", s.x), src("w", s.w), dst("y", c.node.outputs[0])},
            .grid = one_each(product(c.output().shape), 64),
            .local_size = {64, 1, 1},
            .iterations = s.iterations()};
  if (s.bias != kNoValue) step.operands.push_back(src("bias", s.bias));
  step.params.push_back(param("total", product(c.output().shape)));
  add_geometry(step, s, "dhw");
  add_weight(step, s, "dhw");
  return {.name = "conv_reference", .steps = {std::move(step)}};
}

void convert(const NodeContext& c, Builder& b) {
  const ConvShape s = conv_shape(c, b);
  std::vector<Tactic> tactics = {conv_depthwise_tactic(c, b, s), conv_simd_tactic(c, b, s)};
  for (Tactic& tactic : conv_depthwise_tactics(c, b, s)) tactics.push_back(std::move(tactic));
  for (Tactic& tactic : conv_matrix_tactics(c, b, s)) tactics.push_back(std::move(tactic));
  for (const int64_t splits : candidate_split_k(c, product_of(s), kRows, kCols)) {
    tactics.push_back(tiled_tactic(c, b, s, splits));
  }
  for (Tactic& tactic : conv_winograd_tactics(c, b, s)) tactics.push_back(std::move(tactic));
  tactics.push_back(reference_tactic(c, s));
  b.emit(std::move(tactics));
}

bool constant_list(const Node& node, const char* name) {
  const std::vector<Expr> list = node.exprs(name);
  return std::all_of(list.begin(), list.end(), [](const Expr& e) { return e.is_constant(); });
}

std::string unsupported(const NodeContext& c) {
  const std::string at = "[" + c.node.op + "] ";
  if (!is_float(c.dtype("input"))) return at + "input must be of a floating type";
  if (c.dtype("input") != c.dtype("weight")) return at + "input and weight must have one dtype";
  const int64_t rank = c.rank("input");
  if (rank < 3 || rank > 5 || c.rank("weight") != rank) {
    return at + "input must have 3 to 5 dimensions and weight as many; got " + std::to_string(rank);
  }
  for (const char* name : {"stride", "padding", "dilation"}) {
    if (!constant_list(c.node, name)) return at + name + " depends on a shape";
  }
  return "";
}

Graph example(DType dtype, Shape x, Shape w, std::vector<int64_t> stride, std::vector<int64_t> pad,
              bool transposed, int64_t groups, Shape out) {
  const std::vector<int64_t> ones(stride.size(), 1), zeros(stride.size(), 0);
  const Expr channels = out[1];
  return ExampleGraph("aten::convolution")
      .input("input", dtype, std::move(x))
      .input("weight", dtype, std::move(w))
      .input("bias", dtype, {channels})
      .attr("stride", ints(stride))
      .attr("padding", ints(pad))
      .attr("dilation", ints(ones))
      .attr("transposed", transposed)
      .attr("output_padding", ints(zeros))
      .attr("groups", integer(groups))
      .output(dtype, std::move(out))
      .graph();
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  for (const DType d : {DType::kF32, DType::kF16, DType::kBF16}) {
    graphs.push_back(
        example(d, {1, 64, 9, 9}, {24, 64, 1, 1}, {1, 1}, {0, 0}, false, 1, {1, 24, 9, 9}));
    graphs.push_back(
        example(d, {1, 64, 9, 9}, {24, 64, 3, 3}, {1, 1}, {1, 1}, false, 1, {1, 24, 9, 9}));
    graphs.push_back(
        example(d, {1, 3, 17, 17}, {24, 3, 3, 3}, {2, 2}, {1, 1}, false, 1, {1, 24, 9, 9}));
    // Images and rows that go in fours.
    graphs.push_back(
        example(d, {2, 64, 8, 8}, {24, 64, 3, 3}, {1, 1}, {1, 1}, false, 1, {2, 24, 8, 8}));
    graphs.push_back(
        example(d, {1, 8, 8, 8}, {8, 1, 3, 3}, {1, 1}, {1, 1}, false, 8, {1, 8, 8, 8}));
    graphs.push_back(
        example(d, {1, 8, 9, 9}, {8, 1, 3, 3}, {2, 2}, {1, 1}, false, 8, {1, 8, 5, 5}));
    graphs.push_back(example(d, {1, 8, 5, 5}, {8, 4, 3, 3}, {2, 2}, {1, 1}, true, 1, {1, 4, 9, 9}));
  }
  graphs.push_back(example(DType::kF32, {1, 3, 9}, {4, 3, 3}, {1}, {1}, false, 1, {1, 4, 9}));
  graphs.push_back(example(DType::kF32, {1, 3, 5, 5, 5}, {4, 3, 3, 3, 3}, {1, 1, 1}, {1, 1, 1},
                           false, 1, {1, 4, 5, 5, 5}));
  return graphs;
}

const RegisterConverter convolution{{.op = "aten::convolution",
                                     .unsupported = unsupported,
                                     .expand = expand_phases,
                                     .convert = convert,
                                     .reads_views = {"input", "weight"},
                                     .epilogue = true,
                                     .convolves = true,
                                     .flops = flops_of_convolution,
                                     .types = types::any_convolution,
                                     .examples = examples}};

}  // namespace

ConvShape conv_shape(const NodeContext& c, const Builder& b) {
  ConvShape s;
  s.x = c.node.input("input");
  s.w = c.node.input("weight");
  s.bias = c.node.input("bias");
  s.x_zero = c.node.input("input_zero");
  s.w_zero = c.node.input("weight_zero");
  const Shape &x = c.shape("input"), &w = c.shape("weight"), &y = c.output().shape;
  const Shape x_strides = b.strides_of(s.x), w_strides = b.strides_of(s.w);
  const size_t rank = x.size() - 2;
  const bool transposed = c.node.flag("transposed");
  s.n = x[0];
  s.groups = c.node.expr("groups");
  s.ic = floordiv(x[1], s.groups);
  s.oc = floordiv(y[1], s.groups);
  s.in = s.out = s.kernel = {Expr(1), Expr(1), Expr(1)};
  s.stride = spatial(c.node, "stride", rank, 1);
  std::ranges::copy(spatial(c.node, "padding", rank, 0), s.pad.begin());
  s.dilation = spatial(c.node, "dilation", rank, 1);
  s.lhs = {1, 1, 1};
  s.x_n = x_strides[0];
  s.x_c = x_strides[1];
  // A transposed weight is [ic of all groups][oc of one], else [oc of all groups][ic of one].
  s.w_oc = w_strides[transposed ? 1 : 0];
  s.w_ic = w_strides[transposed ? 0 : 1];
  s.w_g = w_strides[0] * (transposed ? s.ic : s.oc);
  for (size_t i = 0; i < rank; ++i) {
    const size_t k = 3 - rank + i;
    s.in[k] = x[2 + i];
    s.out[k] = y[2 + i];
    s.kernel[k] = w[2 + i];
    s.x_at[k] = x_strides[2 + i];
    s.w_at[k] = w_strides[2 + i];
    if (!transposed) continue;
    const Expr last = s.kernel[k] - 1;
    s.w_0 += s.w_at[k] * last;
    s.w_at[k] = s.w_at[k] * -1;
    s.lhs[k] = s.stride[k];
    s.stride[k] = 1;
    s.pad[k] = s.dilation[k] * last - s.pad[k];
  }
  const bool each = s.w_zero != kNoValue && !(product(c.graph.value(s.w_zero).shape) == Expr(1));
  s.w_zero_step = each ? 1 : 0;
  return s;
}

void add_geometry(Step& step, const ConvShape& s, const std::string& dims) {
  step.defines.emplace_back("X_ZERO", flag(s.x_zero != kNoValue));
  if (s.x_zero != kNoValue) step.operands.push_back(src("x_zero", s.x_zero));
  step.params.insert(step.params.end(),
                     {param("groups", s.groups), param("ic_count", s.ic), param("oc_count", s.oc),
                      param("x_n", s.x_n), param("x_c", s.x_c)});
  for (size_t k = 3 - dims.size(); k < 3; ++k) {
    const std::string d = kDims[k];
    step.params.insert(step.params.end(),
                       {param("x_" + d, s.x_at[k]),
                        param("in_" + d, s.in[k]),
                        param("out_" + d, s.out[k]),
                        param("stride_" + d, Expr(s.stride[k])),
                        {.name = "pad_" + d, .value = s.pad[k], .number = DType::kI32},
                        fixed("dil_" + d, Expr(s.dilation[k])),
                        fixed("lhs_" + d, Expr(s.lhs[k])),
                        fixed("k_" + d, s.kernel[k])});
  }
}

namespace {

/// Tells a kernel of the third dimension, once.
const char* dims_of(Step& step, const ConvShape& s) {
  if (s.is_planar()) return "hw";
  const std::pair<std::string, std::string> depth{"DEPTH", "1"};
  if (std::ranges::find(step.defines, depth) == step.defines.end()) step.defines.push_back(depth);
  return "dhw";
}

}  // namespace

void add_geometry(Step& step, const ConvShape& s) { add_geometry(step, s, dims_of(step, s)); }
void add_weight(Step& step, const ConvShape& s) { add_weight(step, s, dims_of(step, s)); }

void add_weight(Step& step, const ConvShape& s, const std::string& dims) {
  step.defines.emplace_back("W_ZERO", flag(s.w_zero != kNoValue));
  if (s.w_zero != kNoValue) {
    step.operands.push_back(src("w_zero", s.w_zero));
    step.params.push_back(param("w_zero_step", s.w_zero_step));
  }
  step.params.insert(step.params.end(), {param("w_0", s.w_0), param("w_g", s.w_g),
                                         param("w_oc", s.w_oc), param("w_ic", s.w_ic)});
  for (size_t k = 3 - dims.size(); k < 3; ++k) {
    step.params.push_back(param(std::string("w_") + kDims[k], s.w_at[k]));
  }
}

}  // namespace tv
