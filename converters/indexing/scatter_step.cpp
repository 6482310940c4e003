#include "converters/indexing/scatter_step.h"

#include "converters/kit/scalar_dims.h"

namespace tv {

namespace {

constexpr int64_t kMostIndices = 4096;

}  // namespace

Step scatter_step(const NodeContext& c, const Builder& b, const std::string& kernel) {
  const Shape out = with_a_dim(c.output().shape);
  const auto rank = static_cast<int64_t>(out.size());
  const int64_t dim = c.wrap(c.node.integer("dim"), rank);
  const bool has_source = c.node.find("src") != nullptr;
  const ValueId index = c.node.input("index");
  const Shape reach = with_a_dim(c.shape("index"), out.size());
  const Shape index_strides = strides_with_a_dim(b.strides_of(index), out.size());
  const Shape source_strides =
      has_source ? strides_with_a_dim(b.strides_of(c.node.input("src")), out.size())
                 : Shape(rank, Expr(0));

  Step step{.kernel = kernel,
            .defines = {{"VALUE", has_source ? "0" : "1"},
                        {"BAD_INDEX", checks_indices(c) ? "tv_bad_index" : ""}},
            .operands = {src("x", c.node.input("self")), src("index", index),
                         dst("y", c.node.outputs[0])},
            .params = {param("elements", product(out)), param("depth", reach.at(dim)),
                       param("index_step", index_strides.at(dim)),
                       param("source_step", source_strides.at(dim))}};
  if (has_source) {
    step.operands.push_back(src("src", c.node.input("src")));
  } else {
    step.params.push_back(fill_param("fill", c.node, "value", c.output().dtype));
  }
  std::string axes;
  for (int64_t d = rank; d-- > 0;) {
    const std::string n = std::to_string(d);
    step.params.push_back(param("out_n" + n, out.at(d)));
    if (d == dim) {
      axes += "scattered_axis(element, out_n" + n + "); ";
      continue;
    }
    step.params.push_back(param("index_n" + n, reach.at(d)));
    step.params.push_back(param("index_s" + n, index_strides.at(d)));
    step.params.push_back(param("source_s" + n, source_strides.at(d)));
    axes +=
        "axis(element, out_n" + n + ", index_n" + n + ", index_s" + n + ", source_s" + n + "); ";
  }
  step.defines.emplace_back("SCATTER_AXES(element)", axes);
  step.iterations = reach.at(dim);
  return step;
}

std::string scatter_refusal(const NodeContext& c, const Expr& indices) {
  const int64_t count = typical(c.graph, indices);
  if (count <= kMostIndices) return "";
  return "[" + c.node.op + "] " + std::to_string(count) + " indices along the dimension; a " +
         "deterministic scatter looks through at most " + std::to_string(kMostIndices);
}

std::vector<Graph> scatter_examples(const std::string& op) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64}) {
    ExampleGraph g(op);
    g.input("self", dtype, {5, 11, 7})
        .attr("dim", integer(1))
        .input("index", DType::kI64, {5, 3, 7});
    if (op.ends_with(".value")) {
      g.attr("value", 1.5);
    } else {
      g.input("src", dtype, {5, 3, 7});
    }
    graphs.push_back(g.output(dtype, {5, 11, 7}).graph());
  }
  return graphs;
}

}  // namespace tv
