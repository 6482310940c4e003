// view(dtype): the bytes of a tensor as elements of another type.

#include "converters/kit/steps.h"
#include "converters/kit/view_types.h"

namespace tv {
namespace {

constexpr int64_t kLargestUnit = 4;  // bytes; two of them make an int64

std::string unsupported(const NodeContext& c) {
  if (c.output().dtype == DType::kBool && c.dtype("self") != DType::kBool) {
    return "the bytes of a bool are 0 and 1, those of other types are not";
  }
  return "";
}

void convert(const NodeContext& c, Builder& b) {
  const int64_t from = size_bytes(c.dtype("self")), to = size_bytes(c.output().dtype);
  const int64_t unit = std::min({from, to, kLargestUnit});
  const Expr units = product(c.output().shape) * (to / unit);
  Step step{.kernel = "bitcast",
            .defines = {{"UNIT", "tv_ref_u" + std::to_string(8 * unit)},
                        {"X_UNITS", std::to_string(from / unit) + "u"},
                        {"Y_UNITS", std::to_string(to / unit) + "u"}},
            .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
            .params = {param("units", units)}};
  emit_flat(b, std::move(step), units);
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  for (const DType from : {DType::kF32, DType::kI64, DType::kF16, DType::kU8}) {
    for (const DType to : {DType::kI32, DType::kI64, DType::kBF16, DType::kI8}) {
      graphs.push_back(ExampleGraph("aten::view.dtype")
                           .input("self", from, {3, 8 / size_bytes(from)})
                           .attr("dtype", to)
                           .output(to, {3, 8 / size_bytes(to)})
                           .graph());
    }
  }
  return graphs;
}

const RegisterConverter bitcast{{.op = "aten::view.dtype",
                                 .unsupported = unsupported,
                                 .convert = convert,
                                 .reads_views = {"self"},
                                 .keeps_float32 = true,
                                 .types = types::other_type,
                                 .examples = examples}};

}  // namespace
}  // namespace tv
