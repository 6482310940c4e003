#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>

#include "csrc/graph/graph.h"
#include "csrc/passes/kit/moves.h"

namespace tv {

/// PyTorch's _safe_softmax: where(all(scores == -inf), 0, softmax(scores)), whose rows of hidden
/// keys alone are zeros.
struct SafeSoftmax {
  const Node* softmax = nullptr;  ///< null: it is something else
  size_t reads = 0;               ///< of the softmax's result; the scores have two readers
};

/// What `where`, which may be null, ends; `maker` gives the node of a value, or null.
SafeSoftmax safe_softmax(const Node* where, const std::invocable<ValueId> auto& maker) {
  const auto of = [&](const Node* node, const char* op) { return node && node->op == op; };
  if (!of(where, "aten::where.self")) return {};
  const ValueId result = where->input("other");
  const Node* softmax = maker(result);
  const Node* zeros = maker(where->input("self"));
  const Node* all = maker(where->input("condition"));
  if (!of(softmax, "aten::_softmax") || !of(all, "aten::all.dim")) return {};
  const ValueId scores = softmax->input("self");
  const Node* hidden = maker(all->input("self"));
  if (!of(hidden, "aten::eq.Scalar") || hidden->input("self") != scores) return {};
  if (hidden->number("other") != -HUGE_VAL || !all->flag("keepdim")) return {};
  if (all->integer("dim") != softmax->integer("dim")) return {};
  if (of(zeros, "aten::full") && zeros->number("fill_value") == 0.0) return {softmax, 1};
  if (!of(zeros, "aten::zeros_like")) return {};
  return {softmax, zeros->input("self") == result ? size_t{2} : size_t{1}};
}

}  // namespace tv
