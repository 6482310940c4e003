// Whole slices chosen by a list of indices: embedding and index_select.

#include "converters/indexing/indexing_types.h"
#include "converters/indexing/select_rows.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

void emit(const NodeContext& c, Builder& b, const char* table, const char* indices,
          const DimSplit& split) {
  const Expr elements = product(c.output().shape);
  Step step{.kernel = "index_select",
            .operands = {src("x", c.node.input(table)), src("index", c.node.input(indices)),
                         dst("y", c.node.outputs[0])},
            .params = {param("elements", elements), param("inner", split.inner),
                       param("size", split.size), param("count", product(c.shape(indices)))},
            .grid = one_each(elements, 64),
            .looks_up = true};
  std::vector<Tactic> tactics;
  if (is_dense(c.shape(indices), b.strides_of(c.node.input(indices)))) {
    tactics.push_back(choose_rows(c, b,
                                  {.x = c.node.input(table),
                                   .index = c.node.input(indices),
                                   .y = c.node.outputs[0],
                                   .split = split,
                                   .entries = product(c.shape(indices)),
                                   .index_step = 1,
                                   .place = "tv_place"},
                                  "index_select"));
  }
  tactics.push_back({.name = "index_select", .steps = {std::move(step)}});
  b.emit(std::move(tactics));
}

void embedding(const NodeContext& c, Builder& b) {
  emit(c, b, "weight", "indices", split_at(c.shape("weight"), 0));
}

void index_select(const NodeContext& c, Builder& b) {
  const Shape& shape = c.shape("self");
  const auto rank = static_cast<int64_t>(shape.size());
  emit(c, b, "self", "index", split_at(shape, rank == 0 ? 0 : c.wrap(c.node.integer("dim"), rank)));
}

std::string empty_table(const NodeContext& c, const char* table) {
  const Expr elements = product(c.shape(table));
  if (elements.bounds(c.graph.symbols).first >= 1) return "";
  return "[" + c.node.op + "] an empty tensor has nothing to choose from";
}

std::vector<Graph> embedding_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const DType index : {DType::kI64, DType::kI32}) {
      graphs.push_back(ExampleGraph("aten::embedding")
                           .input("weight", dtype, {37, 11})
                           .input("indices", index, {3, 5})
                           .output(dtype, {3, 5, 11})
                           .graph());
    }
    graphs.push_back(ExampleGraph("aten::embedding")
                         .input("weight", dtype, {37, 41})
                         .input("indices", DType::kI64, {3, 5})
                         .output(dtype, {3, 5, 41})
                         .graph());
  }
  return graphs;
}

std::vector<Graph> select_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kI64, DType::kBool}) {
    graphs.push_back(ExampleGraph("aten::index_select")
                         .input("self", dtype, {5, 11, 7})
                         .attr("dim", integer(1))
                         .input("index", DType::kI64, {3})
                         .output(dtype, {5, 3, 7})
                         .graph());
    graphs.push_back(ExampleGraph("aten::index_select")
                         .input("self", dtype, {5, 11, 67})
                         .attr("dim", integer(1))
                         .input("index", DType::kI64, {3})
                         .output(dtype, {5, 3, 67})
                         .graph());
  }
  return graphs;
}

const RegisterConverter selects{
    {.op = "aten::embedding",
     .unsupported = [](const NodeContext& c) { return empty_table(c, "weight"); },
     .convert = embedding,
     .reads_views = {"*"},
     .epilogue = true,
     .types = "weight [. e], indices i[*s] -> [*s e]",
     .examples = embedding_examples,
     .notes = "an index out of range, where it is not checked, reads the nearest row"},
    {.op = "aten::index_select",
     .unsupported = [](const NodeContext& c) { return empty_table(c, "self"); },
     .convert = index_select,
     .reads_views = {"*"},
     .epilogue = true,
     .types = types::index_select,
     .examples = select_examples,
     .notes = "an index out of range, where it is not checked, reads the nearest element"},
};

}  // namespace
}  // namespace tv
