// tv::copy, which gives a view a dense storage.

#include <algorithm>

#include "converters/kit/steps.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

constexpr uint32_t kGpuWorkgroup = 256;
constexpr uint32_t kCpuUnroll = 32;  // a workgroup costs some 100 ns on a CPU driver
constexpr int64_t kSide = 32;        // of a tile that is turned in shared memory

/// A whole number of vectors.
bool divides_by_four(const Expr& count) { return mod(count, 4) == Expr(0); }

Step copy_step(const NodeContext& c, bool vec4) {
  const Expr numel = product(c.output().shape);
  const bool cpu = c.device.is_cpu();
  const uint32_t width = cpu ? c.device.subgroup_size : kGpuWorkgroup;
  const uint32_t unroll = cpu ? kCpuUnroll : vec4 ? 1 : 4;
  Step step;
  step.kernel = "copy";
  step.local_size = {width, 1, 1};
  step.defines = {{"UNROLL", std::to_string(unroll) + "u"}};
  if (vec4) step.defines.emplace_back("VEC4", "1");
  step.params = {{.name = "numel", .value = numel}};
  step.operands = {src("src", c.node.input("self")), dst("dst", c.node.outputs.at(0))};
  step.grid = Grid::flat_groups(ceil_div(numel, Expr(int64_t{width} * unroll * (vec4 ? 4 : 1))));
  return step;
}

/// Through tiles, where neighbours of the result lie apart in the source and others side by side.
Tactic tiled_tactic(const NodeContext& c, const Builder& builder) {
  Tactic tactic{.name = "copy_tiled", .refusal = {}, .steps = {}};
  const ValueId self = c.node.input("self");
  Shape shape = c.output().shape, strides = builder.strides_of(self);
  collapse(shape, strides);
  const auto run = std::find(strides.begin(), strides.end(), Expr(1));
  if (c.device.is_cpu()) {
    tactic.refusal = "workgroups that share memory are slow on a CPU";
  } else if (run == strides.end() || run + 1 == strides.end()) {
    tactic.refusal = "neighbours of the result are neighbours of the source, or nothing is";
  } else if (c.device.max_workgroup_invocations < kGpuWorkgroup) {
    tactic.refusal = "workgroups of 256 invocations are not possible";
  }
  if (!tactic.refusal.empty()) return tactic;
  const auto r = static_cast<size_t>(run - strides.begin()), last = shape.size() - 1;
  if (typical(c.graph, shape[r]) < kSide / 2 || typical(c.graph, shape[last]) < kSide / 2) {
    tactic.refusal = "a tile would be mostly empty";
    return tactic;
  }
  const Shape dense = contiguous_strides(shape);
  LoopNest outer{.targets = {{"src", {}}, {"dst", {}}}};
  for (size_t i = 0; i < last; ++i) {
    if (i == r) continue;
    outer.sizes.push_back(shape[i]);
    outer.targets[0].second.push_back(strides[i]);
    outer.targets[1].second.push_back(dense[i]);
  }
  outer.collapse();
  Step step{.kernel = "copy_tiled", .defines = {{"SIDE", std::to_string(kSide) + "u"}}};
  step.operands = {src("src", self), dst("dst", c.node.outputs.at(0))};
  step.params = {param("outers", outer.count()), param("rows", shape[r]),
                 param("columns", shape[last]), param("row", dense[r]),
                 param("column", strides[last])};
  outer.add_to(step, "outer");
  step.local_size = {static_cast<uint32_t>(kSide), kGpuWorkgroup / static_cast<uint32_t>(kSide), 1};
  step.grid =
      Grid::flat_groups(outer.count() * ceil_div(shape[r], kSide) * ceil_div(shape[last], kSide));
  tactic.steps.push_back(std::move(step));
  return tactic;
}

/// A copy is a pointwise program of one instruction with any view as its input.
void convert_copy(const NodeContext& c, Builder& builder) {
  Tactic vector{.name = "copy_vec4", .refusal = {}, .steps = {}};
  if (c.device.is_cpu()) {
    vector.refusal = "a CPU loads element by element";
  } else if (!divides_by_four(product(c.output().shape))) {
    vector.refusal = "the number of elements is not known to be a multiple of 4";
  } else {
    vector.steps = {copy_step(c, true)};
  }
  builder.emit({tiled_tactic(c, builder),
                vector,
                {.name = "copy", .refusal = {}, .steps = {copy_step(c, false)}}});
}

Graph example(DType dtype, const Shape& shape) {
  ExampleGraph g("tv::copy");
  Graph graph = g.input("self", dtype, shape).output(dtype, shape).graph();
  for (const Expr& dim : shape) {
    if (!dim.is_constant()) graph.symbols = {{.name = "n", .min = 1, .opt = 7}};
  }
  return graph;
}

/// The copy of (2, 37, 41) with its last two dimensions exchanged.
Graph turned_example(DType dtype) {
  Graph graph =
      ExampleGraph("tv::copy").input("self", dtype, {2, 37, 41}).output(dtype, {2, 41, 37}).graph();
  const ValueId base = graph.inputs[0];
  const ValueId turned = graph.add_value({.name = "turned",
                                          .dtype = dtype,
                                          .shape = {2, 41, 37},
                                          .kind = ValueKind::kNode,
                                          .view = View{base, Expr(0), {37 * 41, 1, 41}}});
  graph.nodes[0].args[0].values[0] = turned;
  return graph;
}

std::vector<Graph> examples() {
  return {example(DType::kF32, {7, 11}), example(DType::kF16, {5, 3}),
          example(DType::kBool, {5}),    example(DType::kI64, {Expr::symbol(0)}),
          example(DType::kF16, {7, 12}), turned_example(DType::kF32),
          turned_example(DType::kF16)};
}

const RegisterConverter copy{{.op = "tv::copy",
                              .convert = convert_copy,
                              .reads_views = {"*"},
                              .moves = Moves::kCopies,
                              .is_compute = false,
                              .examples = examples,
                              .notes = "materialises a view"}};

}  // namespace
}  // namespace tv
