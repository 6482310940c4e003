#include "converters/reduction/reduce_walk.h"

namespace tv {

ReduceWalk reduce_walk(const Source& source, const std::vector<int64_t>& dims) {
  std::vector<bool> reduced(source.shape.size(), false);
  for (const int64_t d : dims) reduced.at(d) = true;
  ReduceWalk walk;
  walk.kept.targets = walk.rows.targets = {{"x", {}}};
  for (size_t i = 0; i < reduced.size(); ++i) {
    Walk& part = reduced[i] ? walk.rows : walk.kept;
    part.sizes.push_back(source.shape[i]);
    part.targets[0].second.push_back(source.strides[i]);
  }
  walk.kept.collapse();
  walk.rows.collapse();
  if (!walk.rows.sizes.empty()) {
    walk.run = walk.rows.sizes.back();
    walk.run_stride = walk.rows.targets[0].second.back();
    walk.rows.sizes.pop_back();
    walk.rows.targets[0].second.pop_back();
  }
  return walk;
}

RowShape ReduceWalk::row_shape(const Graph& graph) const {
  return {.rows = typical(graph, outputs()),
          .length = typical(graph, length()),
          .longest = length().bounds(graph.symbols).second,
          .contiguous = run_stride == Expr(1) || outputs() == Expr(1)};
}

void ReduceWalk::add_to(Step& step, const Expr& counted) const {
  step.defines.emplace_back("SINGLE_RUN", rows.sizes.empty() ? "1" : "0");
  for (Param p : {param("outputs", outputs()), param("length", counted), param("run", run),
                  param("run_stride", run_stride)}) {
    step.params.push_back(std::move(p));
  }
  kept.add_to(step, "kept");
  rows.add_to(step, "rows");
}

}  // namespace tv
