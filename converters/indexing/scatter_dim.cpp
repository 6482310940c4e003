// scatter and scatter_add along one dimension.

#include "converters/indexing/indexing_types.h"
#include "converters/indexing/scatter_step.h"
#include "converters/kit/scalar_dims.h"

namespace tv {
namespace {

void convert(const NodeContext& c, Builder& b, bool add) {
  Step step = scatter_step(c, b, "scatter_dim");
  step.defines.emplace_back("ADD", add ? "1" : "0");
  emit_flat(b, std::move(step), product(with_a_dim(c.output().shape)));
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
