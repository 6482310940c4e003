#include "csrc/passes/fuse/row_norm.h"

#include <limits>

#include "csrc/graph/strided.h"

namespace tv {
namespace {

bool only_widens(const PointwiseProgram& program) {
  return program.inputs.size() == 1 && is_float(program.inputs[0]) && program.instrs.size() == 1 &&
         program.instrs[0].function == "cast" && program.instrs[0].result == DType::kF32;
}

/// The dense vector of `k` elements that every row reads as `id`; kNoValue: it is none.
ValueId vector_of(const FusionGraph& graph, ValueId id, const Expr& k) {
  const Value& value = graph.value(id);
  const Value& base = graph.value(graph.base_of(id));
  if (!(product(base.shape) == k) || !is_float(base.dtype) || value.shape.empty()) return kNoValue;
  if (!(value.shape.back() == k)) return kNoValue;
  const bool lies =
      !value.view || (value.view->offset == Expr(0) && value.view->strides.back() == Expr(1));
  return lies ? graph.base_of(id) : kNoValue;
}

}  // namespace

std::optional<RowNorm> row_norm(const FusionGraph& graph, int32_t at) {
  const Node& node = graph.node(at);
  if (node.op != "aten::rms_norm") return std::nullopt;
  const bool rstd = node.outputs.size() > 1 && node.outputs[1] != kNoValue;
  if (node.has("weight") || rstd || node.exprs("normalized_shape").size() != 1) {
    return std::nullopt;
  }
  RowNorm norm{.node = at, .x = node.input("input")};
  if (node.prologue) {
    if (!only_widens(*node.prologue)) return std::nullopt;
    norm.x = node.prologue_inputs[0];
  }
  norm.eps = node.has("eps") ? node.number("eps") : std::numeric_limits<float>::epsilon();
  if (!node.epilogue) {
    norm.program = {.inputs = {DType::kF32}, .results = {0}};
    return norm;
  }
  norm.program = *node.epilogue;
  const Expr k = graph.value(node.outputs[0]).shape.back();
  for (const ValueId id : node.epilogue_inputs) {
    norm.vectors.push_back(vector_of(graph, id, k));
    if (norm.vectors.back() == kNoValue) return std::nullopt;
  }
  return norm;
}

}  // namespace tv
