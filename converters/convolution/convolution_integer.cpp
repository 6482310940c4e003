// tv::convolution_integer(input, weight, input_zero?, weight_zero?, stride, padding, dilation,
// groups, transposed?, output_padding?): a convolution of 8-bit integers less their zero points, in
// 32 bits that wrap. One zero point of the input, one of the weight or one of each output channel.
// tv::convolution_scaled(… scale, bias?): floats of the sums, scaled by one number or by one for
// each output channel. Made by multiply_integers.

#include <algorithm>

#include "converters/convolution/convolution.h"
#include "converters/convolution/convolution_nodes.h"
#include "converters/convolution/convolution_types.h"
#include "converters/kit/flops.h"

namespace tv {
namespace {

bool is_byte(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

/// As a define: what is subtracted to make signed bytes.
std::string offset_of(DType dtype) { return dtype == DType::kU8 ? "128" : "0"; }

}  // namespace

ConvWords conv_words(const NodeContext& c, Builder& b, const ConvShape& s) {
  const Expr rows = s.groups * s.oc, quads = s.taps() * ceil_div(s.ic, 4);
  ConvWords made{.weight = b.scratch("weight", DType::kI8, {rows, quads * 4}),
                 .sums = b.scratch("weight_sums", DType::kI32, {rows})};
  Step pack{
      .kernel = "conv_integer_pack",
      .defines = {{"OFFSET", offset_of(c.dtype("weight"))}},
      .operands = {src("w", s.w), dst("y", made.weight)},
      .params = {param("elements", rows * quads * 4), param("oc_count", s.oc),
                 param("ic_count", s.ic), param("k_h", s.kernel[1]), param("k_w", s.kernel[2])},
      .grid = one_each(rows * quads * 4, 64)};
  ConvShape plain = s;
  plain.w_zero = kNoValue;
  add_weight(pack, plain, "hw");
  made.steps.push_back(std::move(pack));
  Operand words = src("x", made.weight);
  words.vec4 = true;
  made.steps.push_back({.kernel = "matmul_integer_sums",
                        .defines = {{"X_FLIP", "0u"}, {"IN_RUNS", "0"}},
                        .operands = {words, dst("y", made.sums)},
                        .params = {param("rows", rows), param("quads", quads)},
                        .grid = one_each(rows, 64),
                        .iterations = quads});
  return made;
}

namespace {

void add_words(const ConvShape& s, const ConvWords& made, Tactic& tactic, Step& step) {
  tactic.steps = made.steps;
  Operand words = src("w", made.weight);
  words.vec4 = true;
  step.operands.insert(step.operands.end(), {words, src("w_sums", made.sums)});
  if (s.w_zero == kNoValue) return;
  step.operands.push_back(src("w_zero", s.w_zero));
  step.params.push_back(param("w_zero_step", s.w_zero_step));
}

Tactic tiled_tactic(const NodeContext& c, Builder& b, const ConvShape& s, int64_t rows,
                    int64_t cols) {
  constexpr int64_t kPer = 4, kWords = 8;
  const int64_t threads = rows / kPer * (cols / kPer);
  Tactic tactic{.name = "conv_integer_tiled_" + text(rows) + "x" + text(cols)};
  if (c.device.is_cpu()) tactic.refusal = "workgroups that share memory are slow on a CPU";
  if (threads > c.device.max_workgroup_invocations) {
    tactic.refusal = "workgroups of " + text(threads) + " invocations are not possible";
  }
  if (!s.is_planar()) tactic.refusal = "three dimensions";
  if (s.ic == Expr(1) && s.oc.bounds(c.graph.symbols).second < 8) {
    tactic.refusal = "depthwise: tiles would be nearly empty";
  }
  if (!tactic.refusal.empty()) return tactic;
  const bool shifts_w = c.dtype("weight") == DType::kU8 || s.w_zero != kNoValue;
  Step step{.kernel = "conv_integer_tiled",
            .defines = {{"BM", text(rows)},
                        {"BN", text(cols)},
                        {"BK", text(kWords)},
                        {"RM", text(kPer)},
                        {"RN", text(kPer)},
                        {"X_OFFSET", offset_of(c.dtype("input"))},
                        {"W_OFFSET", offset_of(c.dtype("weight"))},
                        {"W_ZERO", flag(s.w_zero != kNoValue)},
                        {"W_SHIFTED", flag(shifts_w)}},
            .operands = {src("x", s.x)},
            .grid = {{ceil_div(s.pixels(), cols), ceil_div(s.oc, rows), s.n * s.groups}},
            .local_size = {static_cast<uint32_t>(threads), 1, 1}};
  add_words(s, conv_words(c, b, s), tactic, step);
  add_geometry(step, s, "hw");
  step.operands.push_back(dst("y", c.node.outputs[0]));
  tactic.steps.push_back(std::move(step));
  return tactic;
}

Tactic reference_tactic(const NodeContext& c, const ConvShape& s) {
  const Expr total = product(c.output().shape);
  Step step{.kernel = "conv_integer_reference",
            .operands = {src("x", s.x), src("w", s.w)},
            .params = {param("total", total)},
            .grid = one_each(total, 64),
            .iterations = s.iterations()};
  add_geometry(step, s, "dhw");
  add_weight(step, s, "dhw");
  step.operands.push_back(dst("y", c.node.outputs[0]));
  return {.name = "conv_integer_reference", .steps = {std::move(step)}};
}

void convert(const NodeContext& c, Builder& b) {
  const ConvShape s = conv_shape(c, b);
  const bool narrow = typical(c.graph, s.oc) <= 32 || typical(c.graph, s.pixels()) <= 512;
  std::vector<Tactic> tactics = {conv_depthwise_tactic(c, b, s), conv_simd_tactic(c, b, s)};
  for (Tactic& tactic : conv_depthwise_tactics(c, b, s)) tactics.push_back(std::move(tactic));
  for (Tactic& tactic : conv_matrix_tactics(c, b, s)) tactics.push_back(std::move(tactic));
  for (const int64_t rows : narrow ? std::vector<int64_t>{32, 64} : std::vector<int64_t>{64, 32}) {
    tactics.push_back(tiled_tactic(c, b, s, rows, 64));
  }
  tactics.push_back(reference_tactic(c, s));
  b.emit(std::move(tactics));
}

std::string unsupported(const NodeContext& c) {
  const std::string at = "[" + c.node.op + "] ";
  if (!is_byte(c.dtype("input")) || !is_byte(c.dtype("weight"))) {
    return at + "got " + std::string(name(c.dtype("input"))) + " and " +
           std::string(name(c.dtype("weight"))) + "; int8 or uint8 would work";
  }
  const int64_t rank = c.rank("input");
  if (rank < 3 || rank > 5 || c.rank("weight") != rank) {
    return at + "input must have 3 to 5 dimensions and weight as many; got " + std::to_string(rank);
  }
  for (const char* list : {"stride", "padding", "dilation"}) {
    for (const Expr& e : c.node.exprs(list)) {
      if (!e.is_constant()) return at + list + " depends on a shape";
    }
  }
  return "";
}

struct Example {
  Shape x, w, y;
  std::vector<int64_t> stride, pad;
  int64_t groups = 1;
  DType dtype = DType::kU8, weight = DType::kI8;
  bool x_zero = true;
  int64_t w_zeros = 0;  ///< 0: none
  bool transposed = false;
};

Graph example(const Example& e) {
  ExampleGraph graph("tv::convolution_integer");
  graph.input("input", e.dtype, e.x).input("weight", e.weight, e.w);
  e.x_zero ? graph.input("input_zero", e.dtype, {1}) : graph.none("input_zero");
  e.w_zeros > 0 ? graph.input("weight_zero", e.weight, {e.w_zeros}) : graph.none("weight_zero");
  return graph.attr("stride", ints(e.stride))
      .attr("padding", ints(e.pad))
      .attr("dilation", ints(std::vector<int64_t>(e.stride.size(), 1)))
      .attr("groups", integer(e.groups))
      .attr("transposed", e.transposed)
      .attr("output_padding", ints(std::vector<int64_t>(e.stride.size(), 0)))
      .output(DType::kI32, e.y)
      .graph();
}

std::vector<Graph> examples() {
  using enum DType;
  const std::vector<Example> cases = {
      {{2, 64, 9, 9}, {24, 64, 1, 1}, {2, 24, 9, 9}, {1, 1}, {0, 0}},
      {{1, 66, 9, 7}, {40, 66, 3, 3}, {1, 40, 9, 7}, {1, 1}, {1, 1}, 1, kU8, kU8, true, 40},
      {{1, 3, 17, 17}, {24, 3, 3, 3}, {1, 24, 9, 9}, {2, 2}, {1, 1}, 1, kI8, kI8, false, 1},
      {{1, 8, 9, 9}, {8, 1, 3, 3}, {1, 8, 9, 9}, {1, 1}, {1, 1}, 8},
      {{1, 8, 9, 9}, {12, 4, 3, 3}, {1, 12, 5, 5}, {2, 2}, {1, 1}, 2, kU8, kU8, false, 12},
      {{1, 3, 9}, {4, 3, 3}, {1, 4, 9}, {1}, {1}},
      {{1, 6, 9, 9}, {6, 4, 3, 3}, {1, 8, 17, 17}, {2, 2}, {1, 1}, 2, kU8, kI8, true, 8, true},
      {{1, 3, 5, 5, 5}, {4, 3, 3, 3, 3}, {1, 4, 5, 5, 5}, {1, 1, 1}, {1, 1, 1}},
  };
  std::vector<Graph> graphs;
  for (const Example& e : cases) graphs.push_back(example(e));
  return graphs;
}

/// As phases of a plain convolution where that can be, which takes weights without zero points.
void expand_scaled(const NodeContext& c, Rewriter& rw) {
  if (!c.node.has("weight_zero") && c.node.flag("transposed")) {
    expand_phases(c, rw);
    if (!rw.replacements().empty()) return;
  }
  const ScaledConv conv{.x = c.node.input("input"),
                        .w = c.node.input("weight"),
                        .x_zero = c.node.input("input_zero"),
                        .w_zero = c.node.input("weight_zero"),
                        .scale = c.node.input("scale"),
                        .bias = c.node.input("bias")};
  const ConvGeometry g =
      conv_geometry_of(c, c.shape("weight").size() - 2, c.node.flag("transposed"));
  rw.replace(0, scaled_conv_of(rw, conv, g, c.output().dtype, c.output().shape));
}

const RegisterConverter convolution_scaled{{.op = "tv::convolution_scaled",
                                            .unsupported = unsupported,
                                            .expand = expand_scaled,
                                            .flops = flops_of_convolution,
                                            .translates = true,
                                            .types = types::integer_convolution}};

const RegisterConverter convolution_integer{{.op = "tv::convolution_integer",
                                             .unsupported = unsupported,
                                             .convert = convert,
                                             .reads_views = {"input", "weight"},
                                             .epilogue = true,
                                             .flops = flops_of_convolution,
                                             .types = types::integer_convolution,
                                             .schema =
                                                 "tv::convolution_integer(Tensor input, Tensor "
                                                 "weight, Tensor? input_zero, Tensor? weight_zero, "
                                                 "int[] stride, int[] padding, int[] dilation, "
                                                 "int groups) -> Tensor",
                                             .examples = examples}};

}  // namespace

ValueId scaled_conv_of(Rewriter& rw, const ScaledConv& conv, const ConvGeometry& g, DType dtype,
                       const Shape& shape) {
  const ValueId sums =
      rw.add("tv::convolution_integer",
             {tensor_arg("input", conv.x), tensor_arg("weight", conv.w),
              tensor_arg("input_zero", conv.x_zero), tensor_arg("weight_zero", conv.w_zero),
              attr_arg("stride", ints(g.stride)), attr_arg("padding", ints(g.padding)),
              attr_arg("dilation", ints(g.dilation)), attr_arg("transposed", g.transposed),
              attr_arg("output_padding", ints(g.output_padding)), attr_arg("groups", g.groups)},
             DType::kI32, shape);
  const auto along = [&](ValueId channels) {
    Shape to(shape.size(), Expr(1));
    to[1] = product(rw.graph().value(channels).shape);
    return rw.reshape(channels, to);
  };
  ValueId y = rw.pointwise("mul", {rw.cast(sums, DType::kF32), along(conv.scale)}, DType::kF32);
  if (conv.bias != kNoValue) y = rw.pointwise("add", {y, along(conv.bias)}, DType::kF32);
  return rw.cast(y, dtype);
}

}  // namespace tv
