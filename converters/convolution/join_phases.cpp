// tv::join_phases: the phases of a transposed convolution, which convolutions of its input have
// computed, as rows of its result (convolution_phases.cpp). On CPU drivers.

#include "converters/convolution/join_phases.h"

#include "converters/kit/row_tiles.h"

namespace tv {
namespace {

constexpr const char* kOp = "tv::join_phases";

/// One of height and width; what there is none of has one phase and one row.
struct Phased {
  int64_t stride = 1, start = 0, split = 1;
  Expr rows = 1, out = 1;
};

struct Problem {
  Phased h, w;
  Expr planes, oc;
};

Problem problem_of(const NodeContext& c) {
  const Shape& y = c.output().shape;
  const auto stride = c.node.integers("stride"), start = c.node.integers("start"),
             split = c.node.integers("split");
  const std::vector<Expr> rows = c.node.exprs("rows");
  Problem p{.planes = y[0] * y[1], .oc = floordiv(y[1], c.node.expr("groups"))};
  for (size_t i = 0; i < stride.size(); ++i) {
    Phased& d = i + 1 == stride.size() ? p.w : p.h;
    d = {stride[i], start[i], split[i], rows[i], y[2 + i]};
  }
  return p;
}

/// What both kernels read. Operands t0 … t3 are by height and width.
Step join_step(const NodeContext& c, const Problem& p, std::string kernel) {
  Step step{.kernel = std::move(kernel),
            .params = {param("oc", p.oc), param("rows_h", p.h.rows), param("rows_w", p.w.rows),
                       param("start_h", p.h.start), fixed("stride_h", p.h.stride),
                       fixed("split_h", p.h.split)}};
  const std::vector<ValueId>& tensors = c.node.inputs("tensors");
  const size_t across = p.w.split < p.w.stride ? 2 : 1;
  for (size_t i = 0; i < 4; ++i) {
    const size_t number = i / 2 * across + i % 2;
    const bool is_there = i % 2 < across && number < tensors.size();
    step.operands.push_back(src("t" + std::to_string(i), tensors[is_there ? number : 0]));
  }
  step.operands.push_back(dst("y", c.node.outputs[0]));
  return step;
}

Tactic simd_tactic(const NodeContext& c, const Problem& p) {
  Tactic tactic{.name = "join_phases_simd"};
  const RowTiles tiles{.planes = p.planes,
                       .lines = p.h.out,
                       .width = p.w.out,
                       .in_width = p.w.rows,
                       .moves_back = mod(p.w.out, p.w.stride) == Expr(0)};
  tactic.refusal = row_tiles_refusal(c, tiles);
  if (!tactic.refusal.empty()) return tactic;
  if (c.device.subgroup_size % p.w.stride != 0) {
    tactic.refusal = "tiles do not begin at multiples of the stride";
  } else if (c.output().dtype != DType::kF32) {
    tactic.refusal = "not float32";
  }
  if (!tactic.refusal.empty()) return tactic;
  Step step = join_step(c, p, "join_phases_simd");
  step.defines = {{"STRIDE_W", text(p.w.stride) + "u"},
                  {"START_W", text(p.w.start) + "u"},
                  {"SPLIT_W", text(p.w.split) + "u"}};
  add_row_tiles(c, tiles, step);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

void convert(const NodeContext& c, Builder& b) {
  const Problem p = problem_of(c);
  const Expr outputs = product(c.output().shape);
  Step step = join_step(c, p, "join_phases");
  step.params.insert(
      step.params.end(),
      {param("outputs", outputs), param("out_h", p.h.out), param("out_w", p.w.out),
       param("start_w", p.w.start), fixed("stride_w", p.w.stride), fixed("split_w", p.w.split)});
  step.grid = one_each(outputs, 64);
  b.emit({simd_tactic(c, p), {.name = "join_phases", .steps = {std::move(step)}}});
}

/// Of windows of 3, 4 and 5 with stride 2, and of 7 with 4, in two images.
Graph example(DType dtype, std::vector<int64_t> stride, std::vector<int64_t> split, Shape out) {
  const size_t rank = stride.size();
  std::vector<std::pair<DType, Shape>> tensors = {{dtype, {2, 3}}};
  Shape rows;
  std::vector<int64_t> start;
  for (size_t i = 0; i < rank; ++i) {
    start.push_back(static_cast<int64_t>(i + 1) % 2);
    rows.push_back(floordiv(out[i] + start[i] + stride[i] - 1, stride[i]));
    std::vector<std::pair<DType, Shape>> both;
    for (const auto& [type, shape] : tensors) {
      for (const int64_t part : {0, 1}) {
        const int64_t phases = part == 0 ? split[i] : stride[i] - split[i];
        if (phases == 0) continue;
        both.emplace_back(type, shape);
        both.back().second[1] *= phases;
        both.back().second.push_back(rows[i] + part);
      }
    }
    tensors = std::move(both);
  }
  Shape y{2, 3};
  y.insert(y.end(), out.begin(), out.end());
  return ExampleGraph(kOp)
      .inputs("tensors", tensors)
      .attr("stride", ints(stride))
      .attr("start", ints(start))
      .attr("split", ints(split))
      .attr("rows", std::vector<Expr>(rows))
      .attr("groups", integer(1))
      .output(dtype, y)
      .graph();
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    graphs.push_back(example(dtype, {2, 2}, {2, 2}, {7, 46}));
    graphs.push_back(example(dtype, {2, 2}, {1, 1}, {6, 37}));
    graphs.push_back(example(dtype, {1, 2}, {1, 1}, {3, 5}));
    graphs.push_back(example(dtype, {4}, {3}, {72}));
    graphs.push_back(example(dtype, {2, 3}, {2, 3}, {4, 33}));
  }
  return graphs;
}

const RegisterConverter join{{.op = kOp,
                              .convert = convert,
                              .epilogue = true,
                              .is_compute = false,
                              .examples = examples,
                              .notes = "made of transposed convolutions"}};

}  // namespace

ValueId join_phases(Rewriter& rw, const JoinedPhases& j, DType dtype, Shape shape) {
  return rw.add(kOp,
                {tensor_list_arg("tensors", j.tensors), attr_arg("stride", ints(j.stride)),
                 attr_arg("start", ints(j.start)), attr_arg("split", ints(j.split)),
                 attr_arg("rows", j.rows), attr_arg("groups", j.groups)},
                dtype, std::move(shape));
}

}  // namespace tv
