// searchsorted and bucketize.

#include "converters/kit/steps.h"

namespace tv {
namespace {

struct Names {
  std::string values, boundaries;
  bool scalar = false;  // the value is a number
};

/// The type in which values and boundaries are compared.
DType compared(const NodeContext& c, const Names& names) {
  const DType b = c.dtype(names.boundaries);
  if (names.scalar) {
    const bool whole = std::holds_alternative<Expr>(c.node.arg(names.values).attr);
    return is_float(b) || whole ? b : DType::kF32;
  }
  const DType v = c.dtype(names.values);
  if (v == b || is_float(v) != is_float(b)) return is_float(v) ? v : b;
  if (is_float(v)) return DType::kF32;
  return v == DType::kI64 || b == DType::kI64 ? DType::kI64 : DType::kI32;
}

/// `text` as a KEY, rounded as torch does where it casts to `to`.
std::string as_key(const std::string& text, bool exact, DType to) {
  if (!exact && to == DType::kF16) return "tv_from_f16(tv_to_f16(float(" + text + ")))";
  if (!exact && to == DType::kBF16) return "tv_from_bf16(tv_to_bf16(float(" + text + ")))";
  return "KEY(" + text + ")";
}

void convert(const NodeContext& c, Builder& b, const Names& names) {
  const DType dtype = compared(c, names);
  const std::string key = key_type(dtype);
  const Shape& boundaries = c.shape(names.boundaries);
  const Expr values = product(c.output().shape);
  const bool right = c.node.flag("right") || (c.node.has("side") && c.node.text("side") == "right");
  const Expr lines = product_of(boundaries, 0, boundaries.size() - 1);
  const auto converted = [&](const std::string& arg) { return c.dtype(arg) == dtype; };
  Step step{
      .kernel = "searchsorted",
      .defines = {{"KEY", key},
                  {"FLOAT_KEY", key == "float" ? "1" : "0"},
                  {"B(v)", as_key("v", converted(names.boundaries), dtype)},
                  {"RIGHT", right ? "1" : "0"},
                  {"SORTER", c.node.has("sorter") ? "1" : "0"}},
      .operands = {src("boundaries", c.node.input(names.boundaries)), dst("y", c.node.outputs[0])},
      .params = {param("values", values), param("count", boundaries.back()),
                 param("line_values", max(floordiv(values, max(lines, 1)), 1))},
      .iterations = 33};
  if (names.scalar) {
    step.params.push_back(fill_param("value", c.node, names.values, dtype));
    step.defines.emplace_back("X(i)", as_key("value", false, dtype));
  } else {
    step.operands.push_back(src("x", c.node.input(names.values)));
    step.defines.emplace_back("X(i)", as_key("x_load(i)", converted(names.values), dtype));
  }
  if (c.node.has("sorter")) step.operands.push_back(src("sorter", c.node.input("sorter")));
  emit_flat(b, std::move(step), values);
}

std::string unsupported(const NodeContext& c, const Names& names) {
  if (c.shape(names.boundaries).empty()) return "[" + c.node.op + "] boundaries of rank 0";
  return names.scalar ? fill_unsupported(c.node, names.values, compared(c, names)) : "";
}

std::vector<Graph> examples(const std::string& op, const Names& names) {
  std::vector<Graph> graphs;
  using Pair = std::pair<DType, DType>;
  for (const auto& [v, bounds] : {Pair{DType::kF32, DType::kF32}, Pair{DType::kI64, DType::kI64},
                                  Pair{DType::kI32, DType::kF16}, Pair{DType::kF16, DType::kF16}}) {
    for (const bool right : {false, true}) {
      ExampleGraph g(op);
      if (names.scalar) {
        g.attr(names.values, 1.5);
      } else {
        g.input(names.values, v, {3, 5});
      }
      const bool lines = names.boundaries == "sorted_sequence" && !names.scalar;
      g.input(names.boundaries, bounds, lines ? Shape{3, 7} : Shape{7}).attr("right", right);
      if (lines && right) g.input("sorter", DType::kI64, {3, 7});
      graphs.push_back(g.output(DType::kI64, names.scalar ? Shape{} : Shape{3, 5}).graph());
    }
  }
  return graphs;
}

Converter search(std::string op, Names names) {
  return {.op = op,
          .unsupported = [names](const NodeContext& c) { return unsupported(c, names); },
          .convert = [names](const NodeContext& c, Builder& b) { convert(c, b, names); },
          .epilogue = true,
          .examples = [op, names] { return examples(op, names); }};
}

const RegisterConverter searches{
    typed(search("aten::searchsorted.Tensor", {"self", "sorted_sequence"}),
          "self [*b .], sorted_sequence [*b n], sorter [*b n] -> [*b .] | "
          "self [*s], sorted_sequence [n], sorter [n] -> [*s]"),
    typed(search("aten::searchsorted.Scalar", {"self", "sorted_sequence", true}),
          "sorted_sequence [n], sorter [n] -> []"),
    typed(search("aten::bucketize.Tensor", {"self", "boundaries"}),
          "self [*s], boundaries [.] -> [*s]"),
    typed(search("aten::bucketize.Scalar", {"self", "boundaries", true}), "boundaries [.] -> []"),
};

}  // namespace
}  // namespace tv
