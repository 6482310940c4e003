#include "converters/reduction/reduce_loops.h"

namespace tv {

ReduceLoops reduce_loops(const Source& source, const std::vector<int64_t>& dims) {
  std::vector<bool> reduced(source.shape.size(), false);
  for (const int64_t d : dims) reduced.at(d) = true;
  ReduceLoops loops;
  loops.kept.targets = loops.rows.targets = {{"x", {}}};
  for (size_t i = 0; i < reduced.size(); ++i) {
    LoopNest& part = reduced[i] ? loops.rows : loops.kept;
    part.sizes.push_back(source.shape[i]);
    part.targets[0].second.push_back(source.strides[i]);
  }
  loops.kept.collapse();
  loops.rows.collapse();
  if (!loops.rows.sizes.empty()) {
    loops.run = loops.rows.sizes.back();
    loops.run_stride = loops.rows.targets[0].second.back();
    loops.rows.sizes.pop_back();
    loops.rows.targets[0].second.pop_back();
  }
  return loops;
}

RowShape ReduceLoops::row_shape(const Graph& graph) const {
  return {.rows = typical(graph, outputs()),
          .length = typical(graph, length()),
          .longest = length().bounds(graph.symbols).second,
          .contiguous = run_stride == Expr(1) || outputs() == Expr(1)};
}

void ReduceLoops::add_to(Step& step, const Expr& counted) const {
  step.defines.emplace_back("SINGLE_RUN", rows.sizes.empty() ? "1" : "0");
  for (Param p : {param("outputs", outputs()), param("length", counted), param("run", run),
                  param("run_stride", run_stride)}) {
    step.params.push_back(std::move(p));
  }
  kept.add_to(step, "kept");
  rows.add_to(step, "rows");
}

}  // namespace tv
