// y, shifted? = tv::pack_four_bits(input, zero_point?): integers from -8 to 7 that int8 holds, as
// tv::dequantize reads them with bits 4: less -8, two a byte along the last dimension, whose size
// is even; zero points likewise, a byte each. There are at most half as many as elements. A tensor
// with elements beyond 4 bits is refused when it is packed.

#include "converters/kit/steps.h"
#include "csrc/converter.h"

namespace tv {
namespace {

void pack(const NodeContext& c, Builder& b) {
  const Expr total = product(c.output().shape);
  const ValueId zero = c.node.input("zero_point");
  Step step{.kernel = "pack_four_bits",
            .defines = {{"HAS_ZERO", flag(zero != kNoValue)}},
            .operands = {src("x", c.node.input("input")), dst("y", c.node.outputs[0])},
            .params = {param("total", total)}};
  if (zero != kNoValue) {
    step.operands.push_back(src("zero", zero));
    step.operands.push_back(dst("shifted", c.node.outputs[1]));
    step.params.push_back(param("zeros", product(c.shape("zero_point"))));
  }
  emit_flat(b, std::move(step), total);
}

std::vector<Graph> examples() {
  return {ExampleGraph("tv::pack_four_bits")
              .input("input", DType::kI8, {5, 24})
              .none("zero_point")
              .output(DType::kU8, {5, 12})
              .graph(),
          ExampleGraph("tv::pack_four_bits")
              .input("input", DType::kI8, {37, 62})
              .input("zero_point", DType::kI8, {37, 31})
              .output(DType::kU8, {37, 31})
              .output(DType::kU8, {37, 31})
              .graph()};
}

const RegisterConverter pack_four_bits{
    {.op = "tv::pack_four_bits", .convert = pack, .examples = examples}};

}  // namespace
}  // namespace tv
