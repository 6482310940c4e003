// scatter and scatter_add along one dimension.

#include "converters/indexing/indexing_types.h"
#include "converters/indexing/row_scatter.h"
#include "converters/indexing/scatter_step.h"
#include "converters/kit/scalar_dims.h"

namespace tv {
namespace {

/// The scatter of rows that this is, where one index holds for all elements of each; or nothing.
std::optional<RowScatter> as_rows(const NodeContext& c, const Builder& b, bool add) {
  const Shape& out = c.output().shape;
  const Shape& reach = c.shape("index");
  if (c.node.find("src") == nullptr || out.empty() || reach.size() != out.size()) return {};
  const auto dim =
      static_cast<size_t>(c.wrap(c.node.integer("dim"), static_cast<int64_t>(out.size())));
  const ValueId index = c.node.input("index"), source = c.node.input("src");
  const Shape strides = b.strides_of(index), of_source = b.strides_of(source);
  if (of_source.size() != out.size()) return {};
  RowScatter s{.base = c.node.input("self"), .values = source, .y = c.node.outputs[0]};
  s.out = s.rest = out;
  s.row_of.assign(out.size(), Expr(0));
  for (size_t d = 0; d < out.size(); ++d) {
    s.row_of[d] = Expr(d == dim ? 1 : 0);
    s.rest[d] = d == dim ? Expr(0) : of_source[d];
    if (d == dim) continue;
    if (reach[d] != out[d] || (strides[d] != Expr(0) && out[d] != Expr(1))) return {};
  }
  s.indices = {index};
  s.index_strides = {{strides[dim]}};
  s.row_shape = {out[dim]};
  s.index_shape = {reach[dim]};
  s.value_strides = {of_source[dim]};
  s.add = add;
  s.checked = checks_indices(c);
  s.wraps = false;
  return s;
}

void convert(const NodeContext& c, Builder& b, bool add) {
  std::vector<Tactic> tactics;
  if (const auto rows = as_rows(c, b, add)) tactics = sorted_scatter(c, b, *rows);
  Step step = scatter_step(c, b, "scatter_dim");
  step.defines.emplace_back("ADD", add ? "1" : "0");
  step.grid = one_each(product(with_a_dim(c.output().shape)), 64);
  tactics.push_back({.name = "scatter_dim", .steps = {std::move(step)}});
  b.emit(std::move(tactics));
}

std::string unsupported(const NodeContext& c) {
  const Shape& shape = c.shape("index");
  const std::string fill = fill_unsupported(c.node, "value", c.output().dtype);
  if (!fill.empty() || shape.empty()) return fill;
  const int64_t dim = c.wrap(c.node.integer("dim"), static_cast<int64_t>(shape.size()));
  return scatter_refusal(c, shape[dim]);
}

Converter scatter(std::string op, bool add) {
  return {.op = op,
          .unsupported = unsupported,
          .convert = [add](const NodeContext& c, Builder& b) { convert(c, b, add); },
          .reads_views = {"*"},
          .epilogue = true,
          .types = types::scatter,
          .examples = [op] { return scatter_examples(op); },
          .notes =
              "where indices collide the last wins; one out of range, where it is not checked, is "
              "ignored"};
}

const RegisterConverter scatters{in_float32(scatter("aten::scatter.src", false)),
                                 in_float32(scatter("aten::scatter.value", false)),
                                 in_float32(scatter("aten::scatter_add", true))};

}  // namespace
}  // namespace tv
