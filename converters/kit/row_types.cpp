#include "converters/kit/row_types.h"

namespace tv::types {
namespace {

/// The operand without the dimensions of "dim", or with 1 in their places.
void reduce(NodeTypes& t, bool none_is_all) {
  const Shape shape = t.shape("self");
  const std::vector<int64_t> dims = t.node().integers("dim");
  const bool all = !t.has("dim") || (dims.empty() && none_is_all);
  std::vector<bool> goes(shape.size(), all);
  for (const int64_t dim : dims) {
    const int64_t d = t.wrap(dim, static_cast<int64_t>(shape.size()));
    if (!shape.empty()) goes[static_cast<size_t>(d)] = true;
  }
  Shape made;
  const bool keep = t.node().flag("keepdim");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!goes[i]) {
      made.push_back(shape[i]);
    } else if (keep) {
      made.emplace_back(1);
    }
  }
  for (size_t i = 0; i < t.results(); ++i) t.gives(made, i);
}

/// At least one element along "dim" for each of "k".
Expr row_length(NodeTypes& t) {
  const Shape shape = t.shape("self");
  const int64_t dim = t.wrap(t.integer("dim", -1), static_cast<int64_t>(shape.size()));
  return shape.empty() ? Expr(1) : shape[static_cast<size_t>(dim)];
}

}  // namespace

void reduced(NodeTypes& t) { reduce(t, true); }

void reduced_of_some(NodeTypes& t) { reduce(t, false); }

void of_a_dim(NodeTypes& t) { row_length(t); }

TypeRule of_rows(const char* text) { return TypeRule(text) & of_a_dim; }

void picked_of_rows(NodeTypes& t) {
  t.at_least(row_length(t), 1, "the length of a row");
  // mode's "dim" has a default, which is not to reduce all.
  if (t.has("dim")) reduced(t);
}

void kth(NodeTypes& t) {
  const Expr k = t.node().expr("k");
  t.at_least(k, 1, "argument 'k'");
  t.at_least(row_length(t), k, "the length of a row");
  if (t.has("dim")) reduced(t);
}

void largest(NodeTypes& t) {
  Shape shape = t.shape("self");
  const Expr k = t.node().expr("k");
  t.at_least(k, 0, "argument 'k'");
  t.at_least(row_length(t), k, "the length of a row");
  const int64_t dim = t.wrap(t.integer("dim", -1), static_cast<int64_t>(shape.size()));
  if (!shape.empty()) shape[static_cast<size_t>(dim)] = k;
  for (size_t i = 0; i < t.results(); ++i) t.gives(shape, i);
}

}  // namespace tv::types
