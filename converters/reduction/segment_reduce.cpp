// segment_reduce: reductions of neighbours along a dimension, by lengths or by where they begin,
// and its gradient.

#include <array>

#include "converters/kit/steps.h"

namespace tv {
namespace {

constexpr std::array kKinds = {"sum", "mean", "prod", "max", "min"};

int64_t kind_of(const Node& node) {
  for (size_t k = 0; k < kKinds.size(); ++k) {
    if (node.text("reduce") == kKinds[k]) return static_cast<int64_t>(k);
  }
  return -1;
}

void convert(const NodeContext& c, Builder& b) {
  const bool by_lengths = c.node.has("lengths");
  const Shape& out = c.output().shape;
  const int64_t axis = c.wrap(c.node.integer("axis"), c.rank("data"));
  const DimSplit from = split_at(c.shape("data"), axis), to = split_at(out, axis);
  const Expr elements = product(out);
  Step step{.kernel = "segment_reduce",
            .defines = {{"KIND", std::to_string(kind_of(c.node))},
                        {"LENGTHS", by_lengths ? "1" : "0"},
                        {"UNSAFE", c.node.flag("unsafe") ? "1" : "0"},
                        {"INITIAL", c.node.has("initial") ? "1" : "0"}},
            .operands = {src("x", c.node.input("data")),
                         src("bounds", c.node.input(by_lengths ? "lengths" : "offsets")),
                         dst("y", c.node.outputs[0])},
            .params = {param("elements", elements), param("segments", to.size),
                       param("count", from.size), param("inner", from.inner),
                       number("start", c.node.has("initial") ? c.node.number("initial") : 0)},
            .iterations = from.size + to.size};
  emit_flat(b, std::move(step), elements);
}

/// The gradient: of the last arguments, data is as long as the result.
void convert_backward(const NodeContext& c, Builder& b) {
  const bool by_lengths = c.node.has("lengths");
  const int64_t axis = c.wrap(c.node.integer("axis"), c.rank("data"));
  const DimSplit data = split_at(c.shape("data"), axis), segments = split_at(c.shape("grad"), axis);
  const Expr elements = product(c.shape("data"));
  const double start = c.node.has("initial") ? c.node.number("initial") : 1;
  Step step{
      .kernel = "segment_reduce_backward",
      .defines = {{"KIND", std::to_string(kind_of(c.node))}, {"LENGTHS", by_lengths ? "1" : "0"}},
      .operands = {src("g", c.node.input("grad")), src("r", c.node.input("output")),
                   src("x", c.node.input("data")),
                   src("bounds", c.node.input(by_lengths ? "lengths" : "offsets")),
                   dst("y", c.node.outputs[0])},
      .params = {param("elements", elements), param("segments", segments.size),
                 param("count", data.size), param("inner", data.inner), number("START", start)},
      .iterations = data.size + segments.size};
  emit_flat(b, std::move(step), elements);
}

std::string unsupported(const NodeContext& c) {
  if (kind_of(c.node) < 0) return "[" + c.node.op + "] unknown: " + c.node.text("reduce");
  if (c.node.find("indices") != nullptr && c.node.has("indices"))
    return "[" + c.node.op + "] segments by indices";
  if (c.node.has("lengths") == c.node.has("offsets")) {
    return "[" + c.node.op + "] needs either lengths or offsets";
  }
  const int64_t axis = c.wrap(c.node.integer("axis"), c.rank("data"));
  if (c.rank(c.node.has("lengths") ? "lengths" : "offsets") != axis + 1) {
    return "[" + c.node.op + "] segments of another rank than the dimensions up to the axis";
  }
  const std::string floats = floats_only(c, "data");
  return floats.empty() ? loops_too_long(c, c.shape("data").at(static_cast<size_t>(axis))) : floats;
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  for (const char* kind : kKinds) {
    for (const bool lengths : {false, true}) {
      ExampleGraph g("aten::segment_reduce");
      g.input("data", DType::kF32, {7, 3}).attr("reduce", std::string(kind));
      if (lengths) {
        g.input("lengths", DType::kI64, {3});
      } else {
        g.input("offsets", DType::kI64, {4}).attr("initial", 1.5);
      }
      graphs.push_back(g.attr("axis", integer(0)).output(DType::kF32, {3, 3}).graph());
    }
  }
  return graphs;
}

std::vector<Graph> backward_examples() {
  std::vector<Graph> graphs;
  for (const char* kind : kKinds) {
    for (const bool lengths : {false, true}) {
      ExampleGraph g("aten::_segment_reduce_backward");
      g.input("grad", DType::kF32, {3, 3}).input("output", DType::kF32, {3, 3});
      g.input("data", DType::kF32, {7, 3}).attr("reduce", std::string(kind));
      g.input(lengths ? "lengths" : "offsets", DType::kI64, {lengths ? 3 : 4});
      graphs.push_back(g.attr("axis", integer(0)).output(DType::kF32, {7, 3}).graph());
    }
  }
  return graphs;
}

/// Elements of one dimension, put together by segments.
void check_segments(NodeTypes& t, const Shape& data, const Shape& result) {
  t.want(!data.empty() && data.size() == result.size(), "data and result differ in rank");
  const auto axis =
      static_cast<size_t>(t.wrap(t.integer("axis", 0), static_cast<int64_t>(data.size())));
  for (size_t i = 0; i < data.size(); ++i) {
    if (i != axis) t.equal(result[i], data[i], "a size of the result");
  }
  for (const char* arg : {"lengths", "offsets"}) {
    if (!t.has(arg)) continue;
    const Shape shape = t.shape(arg);
    t.want(shape.size() == axis + 1, std::string(arg) + " is of another rank than axis + 1");
    for (size_t i = 0; i < axis; ++i) t.equal(shape[i], data[i], std::string("a size of ") + arg);
    t.equal(shape[axis] - (arg[0] == 'o' ? 1 : 0), result[axis], std::string("the end of ") + arg);
  }
}

void types(NodeTypes& t) {
  if (t.has_result(0)) check_segments(t, t.shape("data"), t.result());
}

void backward_types(NodeTypes& t) {
  check_segments(t, t.shape("data"), t.shape("output"));
  t.equal(t.shape("grad"), t.shape("output"), "argument 'grad'");
  t.gives(t.shape("data"));
}

const RegisterConverter gradients{{.op = "aten::_segment_reduce_backward",
                                   .unsupported = unsupported,
                                   .convert = convert_backward,
                                   .epilogue = true,
                                   .types = backward_types,
                                   .examples = backward_examples}};

const RegisterConverter segments{{.op = "aten::segment_reduce",
                                  .unsupported = unsupported,
                                  .convert = convert,
                                  .epilogue = true,
                                  .types = types,
                                  .examples = examples}};

}  // namespace
}  // namespace tv
