// scatter_reduce in every mode, scatter with a `reduce` argument, and index_reduce. As in
// scatter_dim.cpp each element of the result looks through the indices that could name it.

#include "converters/indexing/indexing_types.h"
#include "converters/indexing/scatter_step.h"
#include "converters/kit/scalar_dims.h"

namespace tv {
namespace {

/// The kernel's JOIN; "" for a mode that torch does not have.
std::string join_of(const std::string& mode) {
  if (mode == "sum" || mode == "mean" || mode == "add") return "((a) + (b))";
  if (mode == "prod" || mode == "multiply") return "((a) * (b))";
  if (mode == "amax") return "largest(a, b)";
  return mode == "amin" ? "smallest(a, b)" : "";
}

void convert(const NodeContext& c, Builder& b) {
  const std::string mode = c.node.text("reduce");
  const bool self = c.node.find("include_self") == nullptr || c.node.flag("include_self");
  Step step = scatter_step(c, b, "scatter_reduce");
  step.defines.insert(step.defines.end(), {{"JOIN(a, b)", join_of(mode)},
                                           {"SELF", self ? "1u" : "0u"},
                                           {"MEAN", mode == "mean" ? "1" : "0"},
                                           {"FLOATS", is_float(c.output().dtype) ? "1" : "0"}});
  emit_flat(b, std::move(step), product(with_a_dim(c.output().shape)));
}

std::string refusal(const NodeContext& c, const Expr& indices, const std::string& mode) {
  if (c.output().dtype == DType::kBool) return "[" + c.node.op + "] is not defined for bool";
  if (join_of(mode).empty()) return "[" + c.node.op + "] has no mode " + mode;
  return scatter_refusal(c, indices);
}

std::string unsupported(const NodeContext& c) {
  const Shape shape = with_a_dim(c.shape("index"));
  const int64_t dim = c.wrap(c.node.integer("dim"), static_cast<int64_t>(shape.size()));
  const std::string fill = fill_unsupported(c.node, "value", c.output().dtype);
  return fill.empty() ? refusal(c, shape.at(dim), c.node.text("reduce")) : fill;
}

std::string index_unsupported(const NodeContext& c) {
  const std::string mode = c.node.text("reduce");
  return refusal(c, product(c.shape("index")), mode);
}

/// index_reduce: the list of indices, for every element of a slice.
void expand_index_reduce(const NodeContext& c, Rewriter& r) {
  const Shape shape = c.shape("source");
  const ValueId self = c.node.input("self"), source = c.node.input("source");
  ValueId index = c.node.input("index");
  const DType index_type = c.dtype("index");
  if (!shape.empty()) {
    const int64_t dim = c.wrap(c.node.integer("dim"), static_cast<int64_t>(shape.size()));
    Shape wide(shape.size(), Expr(1));
    wide.at(dim) = shape.at(dim);
    index =
        r.add("aten::expand", {tensor_arg("self", r.reshape(index, wide)), attr_arg("size", shape)},
              index_type, shape);
  }
  r.replace(0, r.add("aten::scatter_reduce.two",
                     {tensor_arg("self", self), attr_arg("dim", c.node.arg("dim").attr),
                      tensor_arg("index", index), tensor_arg("src", source),
                      attr_arg("reduce", c.node.arg("reduce").attr),
                      attr_arg("include_self", c.node.arg("include_self").attr)},
                     c.output().dtype, c.output().shape));
}

std::vector<Graph> examples(const std::string& op) {
  std::vector<Graph> graphs;
  const bool two = op == "aten::scatter_reduce.two";
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kI32}) {
    for (const char* mode : {"sum", "prod", "mean", "amax", "amin"}) {
      const std::string given = two ? mode : std::string(mode) == "prod" ? "multiply" : "add";
      ExampleGraph g(op);
      g.input("self", dtype, {5, 11, 7})
          .attr("dim", integer(1))
          .input("index", DType::kI64, {5, 3, 7});
      g.attr("reduce", given);
      if (op == "aten::scatter.value_reduce") {
        g.attr("value", 1.5);
      } else {
        g.input("src", dtype, {5, 3, 7});
      }
      if (two) g.attr("include_self", dtype == DType::kF32);
      graphs.push_back(g.output(dtype, {5, 11, 7}).graph());
    }
  }
  return graphs;
}

Converter scatter(std::string op) {
  return {.op = op,
          .unsupported = unsupported,
          .convert = convert,
          .reads_views = {"*"},
          .epilogue = true,
          .types = types::scatter,
          .examples = [op] { return examples(op); },
          .notes =
              "in ascending order of the sources; an index out of range, where it is not checked, "
              "is ignored"};
}

const RegisterConverter scatters{
    scatter("aten::scatter_reduce.two"),
    in_float32(scatter("aten::scatter.reduce")),
    in_float32(scatter("aten::scatter.value_reduce")),
    {.op = "aten::index_reduce",
     .unsupported = index_unsupported,
     .expand = expand_index_reduce,
     .types = types::index_reduce},
};

}  // namespace
}  // namespace tv
