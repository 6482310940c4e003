#include "converters/indexing/index_placement.h"

namespace tv {
namespace {

void broadcast(Shape& to, const Shape& shape) {
  if (shape.size() > to.size()) to.insert(to.begin(), shape.size() - to.size(), Expr(1));
  for (size_t i = 0; i < shape.size(); ++i) {
    Expr& d = to[to.size() - shape.size() + i];
    if (d == Expr(1)) d = shape[i];
  }
}

}  // namespace

IndexPlacement index_placement(const NodeContext& c) {
  IndexPlacement p;
  const std::vector<ValueId>& given = c.node.inputs("indices");
  for (int64_t d = 0; d < c.rank("self"); ++d) {
    if (d >= static_cast<int64_t>(given.size()) || given[d] == kNoValue) {
      p.sliced.push_back(d);
      continue;
    }
    p.indexed.push_back(d);
    p.indices.push_back(given[d]);
    broadcast(p.index_shape, c.graph.value(given[d]).shape);
  }
  // Indices side by side keep their place; else their dimensions come first.
  const int64_t span = p.indexed.back() - p.indexed.front() + 1;
  if (span == static_cast<int64_t>(p.indexed.size())) p.index_at = p.indexed.front();
  return p;
}

std::string indices_unsupported(const NodeContext& c) {
  bool any = false;
  for (const ValueId id : c.node.inputs("indices")) {
    if (id == kNoValue) continue;
    any = true;
    const DType dtype = c.graph.value(id).dtype;
    if (dtype == DType::kBool || dtype == DType::kU8) {
      return "[" + c.node.op + "] a mask names a number of elements that depends on data";
    }
  }
  return any ? "" : "[" + c.node.op + "] there is no index, which PyTorch refuses";
}

}  // namespace tv
