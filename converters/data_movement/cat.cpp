// cat and stack. GPUs read up to eight inputs in one launch, since each launch that writes the same
// tensor waits for the one before; on a CPU a launch for each input saves the search.

#include <algorithm>

#include "converters/kit/rows.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

constexpr size_t kInputsPerLaunch = 8;

/// The inputs that have elements, each with the size of its share of an output slab.
struct Parts {
  std::vector<ValueId> inputs;
  std::vector<Expr> slabs;
  Expr outer = 1, out_slab = 0;
};

Parts parts_of(const NodeContext& c, bool stack) {
  const Shape& out = c.output().shape;
  const auto rank = static_cast<int64_t>(out.size());
  const int64_t dim = c.wrap(c.node.integer("dim"), rank);
  const DimSplit split = split_at(out, dim);
  Parts parts{
      .inputs = {}, .slabs = {}, .outer = split.outer, .out_slab = split.size * split.inner};
  for (const ValueId id : c.node.inputs("tensors")) {
    const Shape& shape = c.graph.value(id).shape;
    // torch lets an empty one-dimensional tensor stand among others.
    if (!stack && shape.size() == 1 && shape[0] == Expr(0)) continue;
    parts.inputs.push_back(id);
    parts.slabs.push_back(stack ? split.inner : shape.at(dim) * split.inner);
  }
  return parts;
}

Step part(const Parts& parts, size_t i) {
  const Expr elements = parts.outer * parts.slabs[i];
  return {.kernel = "cat_part",
          .params = {param("elements", elements), param("slab", parts.slabs[i])},
          .grid = one_each(elements, 64)};
}

/// Input i in whole vectors, on CPU drivers; or nothing.
std::optional<Step> part_by_vectors(const NodeContext& c, const Builder& b, const Parts& parts,
                                    size_t i) {
  const Value& x = c.graph.value(parts.inputs[i]);
  if (x.dtype != DType::kF32 || !is_dense(x.shape, b.strides_of(parts.inputs[i]))) return {};
  const RowBlocks rows = row_blocks(c, parts.outer, 1, parts.slabs[i]);
  if (!rows.refusal.empty()) return {};
  Step step = rows.each(c, "cat_simd", "simd_load(simd_at(x_ptr, i))");
  step.simd_row = parts.out_slab;
  return step;
}

/// A launch for each input. `vectors`: by SIMD for those that allow it.
Tactic separate(const NodeContext& c, const Builder& b, const Parts& parts, bool vectors) {
  Tactic tactic{.name = vectors ? "cat_simd" : "cat_part"};
  bool some = !vectors;
  Expr from = 0;
  for (size_t i = 0; i < parts.inputs.size(); ++i) {
    std::optional<Step> step;
    if (vectors) step = part_by_vectors(c, b, parts, i);
    some |= step.has_value();
    if (!step) step = part(parts, i);
    step->operands = {src("x", parts.inputs[i]), dst("y", c.node.outputs[0])};
    step->params.insert(step->params.end(),
                        {param("out_slab", parts.out_slab), param("from", from)});
    tactic.steps.push_back(std::move(*step));
    from += parts.slabs[i];
  }
  if (!some) tactic.refusal = "no input has vectors of neighbours";
  return tactic;
}

Tactic joined(const NodeContext& c, const Parts& parts) {
  Tactic tactic{.name = "cat"};
  Expr base = 0;
  for (size_t first = 0; first < parts.inputs.size(); first += kInputsPerLaunch) {
    const size_t count = std::min(kInputsPerLaunch, parts.inputs.size() - first);
    Step step{.kernel = "cat"};
    std::string text;
    Expr share = 0;
    for (size_t i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      share += parts.slabs[first + i];
      step.operands.push_back(src("x" + n, parts.inputs[first + i]));
      step.params.push_back(param("end" + n, share));
      const std::string begin = i == 0 ? "0u" : "end" + std::to_string(i - 1);
      text += "PART(x" + n + "_load, " + begin + ", end" + n + ", o, at, to) ";
    }
    step.operands.push_back(dst("y", c.node.outputs[0]));
    step.defines = {{"CAT_PARTS(o, at, to)", text}};
    const Expr elements = parts.outer * share;
    for (Param p : {param("elements", elements), param("share", share), param("base", base),
                    param("out_slab", parts.out_slab)}) {
      step.params.push_back(std::move(p));
    }
    step.grid = one_each(elements, 64);
    tactic.steps.push_back(std::move(step));
    base += share;
  }
  return tactic;
}

void convert(const NodeContext& c, Builder& b, bool stack) {
  const Parts parts = parts_of(c, stack);
  std::vector<Tactic> tactics;
  if (!c.device.is_cpu()) tactics.push_back(joined(c, parts));
  tactics.push_back(separate(c, b, parts, true));
  tactics.push_back(separate(c, b, parts, false));
  b.emit(std::move(tactics));
}

std::vector<Graph> examples(const std::string& op, bool stack) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kBool}) {
    for (const size_t count : {2, 3}) {
      const Shape in = {5, 3, 7};
      const auto total = static_cast<int64_t>(count);
      graphs.push_back(ExampleGraph(op)
                           .inputs("tensors", std::vector(count, std::pair(dtype, in)))
                           .attr("dim", integer(1))
                           .output(dtype, stack ? Shape{5, total, 3, 7} : Shape{5, total * 3, 7})
                           .graph());
    }
    graphs.push_back(ExampleGraph(op)
                         .inputs("tensors", std::vector(2, std::pair(dtype, Shape{3, 5, 41})))
                         .attr("dim", integer(1))
                         .output(dtype, stack ? Shape{3, 2, 5, 41} : Shape{3, 10, 41})
                         .graph());
  }
  return graphs;
}

void concatenated(NodeTypes& t) {
  std::vector<Shape> shapes = t.shapes("tensors");
  // PyTorch passes over those of shape [0].
  std::erase_if(shapes, [](const Shape& s) { return s.size() == 1 && s[0] == Expr(0); });
  if (shapes.empty()) {
    t.want(!t.shapes("tensors").empty(), "wants tensors");
    return t.gives({0});
  }
  Shape sum = shapes[0];
  t.want(!sum.empty(), "a scalar has no dimensions");
  const size_t dim =
      static_cast<size_t>(t.wrap(t.integer("dim", 0), static_cast<int64_t>(sum.size())));
  for (size_t i = 1; i < shapes.size(); ++i) {
    t.want(shapes[i].size() == sum.size(), "tensors of different ranks");
    for (size_t d = 0; d < sum.size(); ++d) {
      if (d != dim) t.equal(shapes[i][d], sum[d], "a size of tensor " + std::to_string(i));
    }
    sum[dim] += shapes[i][dim];
  }
  t.gives(sum);
}

void stacked(NodeTypes& t) {
  const std::vector<Shape> shapes = t.shapes("tensors");
  t.want(!shapes.empty(), "wants tensors");
  for (const Shape& shape : shapes) t.equal(shape, shapes[0], "a tensor");
  Shape made = shapes[0];
  const int64_t dim = t.wrap(t.integer("dim", 0), static_cast<int64_t>(made.size()) + 1);
  made.insert(made.begin() + dim, Expr(static_cast<int64_t>(shapes.size())));
  t.gives(made);
}

Converter joiner(std::string op, bool stack) {
  return {.op = op,
          .convert = [stack](const NodeContext& c, Builder& b) { convert(c, b, stack); },
          .reads_views = {"*"},
          .epilogue = true,
          .moves = stack ? Moves::kStacks : Moves::kJoins,
          .types = TypeRule(stack ? stacked : concatenated),
          .examples = [op, stack] { return examples(op, stack); }};
}

const RegisterConverter joiners{joiner("aten::cat", false), joiner("aten::concat", false),
                                joiner("aten::stack", true)};

}  // namespace
}  // namespace tv
