// aten::_int_mm: products of matrices of 8-bit integers, with sums of 32 bits.

#include <string>
#include <vector>

#include "converters/kit/steps.h"

namespace tv {
namespace {

constexpr int64_t kQuad = 4;  // elements of k that one load takes

std::string unsupported(const NodeContext& c) {
  const DType a = c.dtype("self"), b = c.dtype("mat2");
  if ((a != DType::kI8 && a != DType::kU8) || b != DType::kI8) {
    return "got " + std::string(name(a)) + " and " + std::string(name(b)) +
           "; int8 or uint8 times int8 would work";
  }
  return loops_too_long(c, c.shape("mat2").at(0));
}

/// Rows of `count` x `steps` elements of an operand, k running along them.
struct Rows {
  Expr count, steps;
  Expr row_stride, k_stride;
};

/// A scratch with the rows one after the other and zeros behind each, up to a multiple of kQuad,
/// and the step that packs them.
ValueId packed(const std::string& name, ValueId value, DType dtype, const Rows& rows, Builder& b,
               std::vector<Step>& steps) {
  const Expr length = round_up(rows.steps, kQuad), elements = rows.count * length;
  const ValueId scratch = b.scratch(name, dtype, {rows.count, length});
  steps.push_back({.kernel = "int_mm_pack",
                   .operands = {src("x", value), dst("y", scratch)},
                   .params = {param("elements", elements), param("k_count", rows.steps),
                              param("length", length), param("row_stride", rows.row_stride),
                              param("k_stride", rows.k_stride)},
                   .grid = one_each(elements, 64)});
  return scratch;
}

/// Blocks of `height` x 4 results an invocation.
Tactic simt(const NodeContext& c, Builder& b, int64_t height) {
  const Shape &a = c.shape("self"), &mat2 = c.shape("mat2");
  const Shape a_strides = b.strides_of(c.node.input("self"));
  const Shape b_strides = b.strides_of(c.node.input("mat2"));
  Tactic tactic{.name = "int_mm_simt_" + text(height) + "x4"};
  ValueId a_rows = c.node.input("self");
  if (a_strides != contiguous_strides(a) || mod(a[1], kQuad) != Expr(0))
    a_rows = packed("a_packed", a_rows, c.dtype("self"), {a[0], a[1], a_strides[0], a_strides[1]},
                    b, tactic.steps);
  const ValueId b_rows = packed("b_packed", c.node.input("mat2"), c.dtype("mat2"),
                                {mat2[1], mat2[0], b_strides[1], b_strides[0]}, b, tactic.steps);
  const Expr quads = ceil_div(mat2[0], kQuad), across = ceil_div(mat2[1], 4);
  Operand a_operand = src("a", a_rows), b_operand = src("b", b_rows);
  a_operand.vec4 = b_operand.vec4 = true;
  tactic.steps.push_back({.kernel = "int_mm_simt",
                          .defines = {{"HEIGHT", text(height)}},
                          .operands = {a_operand, b_operand, dst("y", c.node.outputs[0])},
                          .params = {param("m_count", a[0]), param("n_count", mat2[1]),
                                     param("quads", quads), param("across", across)},
                          .grid = one_each(ceil_div(a[0], height) * across, 64),
                          .iterations = quads});
  return tactic;
}

Tactic reference(const NodeContext& c, Builder& b) {
  const Shape &a = c.shape("self"), &mat2 = c.shape("mat2");
  const Shape a_strides = b.strides_of(c.node.input("self"));
  const Shape b_strides = b.strides_of(c.node.input("mat2"));
  const Expr elements = a[0] * mat2[1];
  return {.name = "int_mm_reference",
          .steps = {{.kernel = "int_mm_reference",
                     .operands = {src("a", c.node.input("self")), src("b", c.node.input("mat2")),
                                  dst("y", c.node.outputs[0])},
                     .params = {param("elements", elements), param("n_count", mat2[1]),
                                param("k_count", mat2[0]), param("a_m", a_strides[0]),
                                param("a_k", a_strides[1]), param("b_k", b_strides[0]),
                                param("b_n", b_strides[1])},
                     .grid = one_each(elements, 64),
                     .iterations = mat2[0]}}};
}

void convert(const NodeContext& c, Builder& b) {
  std::vector<Tactic> tactics;
  const bool few_rows = typical(c.graph, c.shape("self")[0]) <= 2;
  for (const int64_t height : few_rows ? std::vector<int64_t>{1, 4} : std::vector<int64_t>{4, 1})
    tactics.push_back(simt(c, b, height));
  tactics.push_back(reference(c, b));
  b.emit(std::move(tactics));
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kI8, DType::kU8}) {
    for (const int64_t k : {11, 12}) {
      graphs.push_back(ExampleGraph("aten::_int_mm")
                           .input("self", dtype, {7, k})
                           .input("mat2", DType::kI8, {k, 5})
                           .output(DType::kI32, {7, 5})
                           .graph());
    }
  }
  return graphs;
}

const RegisterConverter int_mm{{.op = "aten::_int_mm",
                                .unsupported = unsupported,
                                .convert = convert,
                                .reads_views = {"self", "mat2"},
                                .epilogue = true,
                                .examples = examples}};

}  // namespace
}  // namespace tv
