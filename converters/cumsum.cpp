// Cumulative sums along one dimension.

#include "converters/rows.h"

namespace tv {
namespace {

constexpr int64_t kUnroll = 8;  // elements an iteration

void convert(const NodeContext& c, Builder& b) {
  const Shape& shape = c.shape("self");
  const auto rank = static_cast<int64_t>(shape.size());
  const DimSplit split = split_at(shape, rank == 0 ? 0 : c.wrap(c.node.integer("dim"), rank));
  const DType dtype = c.node.epilogue ? c.node.anchor_dtype : c.output().dtype;
  const Expr rows = split.outer * split.inner;
  const std::string acc = is_float(dtype) ? "float" : dtype == DType::kI64 ? "int64_t" : "int";
  Step step{
      .kernel = "cumsum",
      .defines = {{"ACC", acc},
                  {"FLOAT_ACC", is_float(dtype) ? "1" : "0"},
                  {"UNROLL", std::to_string(kUnroll)}},
      .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
      .params = {param("rows", rows), param("count", split.size), param("inner", split.inner)},
      .iterations = ceil_div(split.size, kUnroll)};
  emit_flat(b, std::move(step), rows);
}

std::string unsupported(const NodeContext& c) {
  const int64_t rank = c.rank("self");
  if (rank == 0) return "";
  const Expr& length = c.shape("self").at(c.wrap(c.node.integer("dim"), rank));
  const int64_t most = c.device.max_loop_iterations();
  if (length.bounds(c.graph.symbols).first / kUnroll < most) return "";
  return "[aten::cumsum] lines of " + length.str() + " elements; this device takes " +
         std::to_string(most * kUnroll);
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  using Pair = std::pair<DType, DType>;
  for (const auto& [in, out] : {Pair{DType::kF32, DType::kF32}, Pair{DType::kF16, DType::kF16},
                                Pair{DType::kBool, DType::kI64}, Pair{DType::kI32, DType::kI64},
                                Pair{DType::kI32, DType::kI32}}) {
    graphs.push_back(ExampleGraph("aten::cumsum")
                         .input("self", in, {5, 11, 7})
                         .attr("dim", integer(1))
                         .output(out, {5, 11, 7})
                         .graph());
  }
  return graphs;
}

const RegisterConverter cumsum{{.op = "aten::cumsum",
                                .unsupported = unsupported,
                                .convert = convert,
                                .prologue_arg = "self",
                                .epilogue = true,
                                .examples = examples}};

}  // namespace
}  // namespace tv
