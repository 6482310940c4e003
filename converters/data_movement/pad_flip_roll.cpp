// Operators that move elements by a rule per dimension: pad, flip, roll, repeat.

#include <algorithm>
#include <iterator>
#include <utility>

#include "converters/data_movement/pad_types.h"
#include "converters/kit/shape_types.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

/// `map` is the kernel's rule; one shift per dimension of the output.
struct AxisMap {
  std::string map;
  std::vector<Expr> shifts;
  bool constant = false;  ///< outside of the source is the argument `value`, a number or a tensor
};

void add_fill(const NodeContext& c, Step& step) {
  const bool is_tensor = c.node.arg("value").is_tensor;
  step.defines.emplace_back("FILL", is_tensor ? "fill_load(0u)" : "fill");
  if (is_tensor) {
    step.operands.push_back(src("fill", c.node.input("value")));
  } else {
    step.params.push_back(fill_param("fill", c.node, "value", c.dtype("self")));
  }
}

void emit(const NodeContext& c, Builder& b, const AxisMap& axes_map) {
  const Shape& out = c.output().shape;
  const Source x = source_of(c, b, "self");
  const size_t lead = out.size() - x.shape.size();  // repeat may add dimensions
  Step step{.kernel = "pad_flip_roll"};
  std::string axes;
  for (size_t i = out.size(); i-- > lead;) {
    const std::string n = std::to_string(i);
    const bool last = i == 0;
    if (!last) step.params.push_back(param("out_n" + n, out[i]));
    step.params.push_back(param("in_n" + n, x.shape[i - lead]));
    step.params.push_back(param("stride" + n, x.strides[i - lead]));
    step.params.push_back(
        {.name = "shift" + n, .value = axes_map.shifts.at(i), .number = DType::kI32});
    axes += (last ? "last_axis(place, " : "axis(place, out_n" + n + ", ") + "in_n" + n + ", shift" +
            n + ", stride" + n + "); ";
  }
  step.operands = {src("x", x.value), dst("y", c.node.outputs[0])};
  step.defines = {{"MAP", axes_map.map},
                  {"CONSTANT", axes_map.constant ? "1" : "0"},
                  {"AXES(place)", axes},
                  x.accessor("x")};
  step.params.push_back(param("elements", product(out)));
  if (axes_map.constant) add_fill(c, step);
  emit_flat(b, std::move(step), product(out));
}

/// torch lists pads from the last dimension on: left, right, left, right, …
std::vector<Expr> pad_shifts(const NodeContext& c, const char* arg) {
  const size_t rank = c.output().shape.size();
  std::vector<Expr> shifts(rank, Expr(0));
  const std::vector<Expr> pads = c.node.exprs(arg);
  for (size_t i = 0; i + 1 < pads.size(); i += 2) shifts.at(rank - 1 - i / 2) = pads[i];
  return shifts;
}

void constant_pad(const NodeContext& c, Builder& b) {
  emit(c, b, {"SHIFT", pad_shifts(c, "pad"), true});
}

auto edge_pad(std::string map) {
  return [map](const NodeContext& c, Builder& b) { emit(c, b, {map, pad_shifts(c, "padding")}); };
}

void flip(const NodeContext& c, Builder& b) {
  const auto rank = static_cast<int64_t>(c.output().shape.size());
  std::vector<Expr> shifts(rank, Expr(0));
  for (const int64_t d : c.node.integers("dims")) {
    if (rank > 0) shifts.at(c.wrap(d, rank)) = 1;
  }
  emit(c, b, {"FLIP", shifts});
}

/// A shift by any number of places, as one that the kernel can count.
Expr within(const Expr& shift, const Expr& size) {
  return shift.constant() && holds(DType::kI32, *shift.constant()) ? shift
                                                                   : mod(shift, max(size, 1));
}

/// Without dimensions: in row-major order over the whole tensor.
void roll_flat(const NodeContext& c, Builder& b, const Expr& shift) {
  const Expr elements = product(c.output().shape);
  Step step{
      .kernel = "pad_flip_roll",
      .defines = {{"MAP", "WRAP"},
                  {"CONSTANT", "0"},
                  {"AXES(place)", "last_axis(place, elements, shift0, 1u);"},
                  {"x_element(i)", "x_load(i)"}},
      .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
      .params = {param("elements", elements),
                 {.name = "shift0", .value = within(shift, elements), .number = DType::kI32}}};
  emit_flat(b, std::move(step), elements);
}

void roll(const NodeContext& c, Builder& b) {
  const std::vector<int64_t> dims = c.node.integers("dims");
  const std::vector<Expr> by = c.node.exprs("shifts");
  if (dims.empty()) return roll_flat(c, b, by.at(0));
  const auto rank = static_cast<int64_t>(c.output().shape.size());
  std::vector<Expr> shifts(rank, Expr(0));
  for (size_t i = 0; i < dims.size(); ++i) shifts.at(c.wrap(dims[i], rank)) += by.at(i);
  for (size_t d = 0; d < shifts.size(); ++d) shifts[d] = within(shifts[d], c.output().shape[d]);
  emit(c, b, {"WRAP", shifts});
}

void repeat(const NodeContext& c, Builder& b) {
  emit(c, b, {"WRAP", std::vector<Expr>(c.output().shape.size(), Expr(0))});
}

const std::vector<DType> kTypes = {DType::kF32, DType::kF16, DType::kI64, DType::kBool};

decltype(Converter::examples) examples(const std::string& op, const Shape& out,
                                       std::vector<std::pair<std::string, Attr>> attrs,
                                       const Shape& in = {5, 3, 7}) {
  return [=] {
    std::vector<Graph> graphs;
    for (const DType dtype : kTypes) {
      ExampleGraph g(op);
      g.input("self", dtype, in).output(dtype, out);
      for (const auto& [name, value] : attrs) g.attr(name, value);
      graphs.push_back(g.graph());
    }
    return graphs;
  };
}

std::vector<Graph> tensor_pad_examples() {
  std::vector<Graph> graphs;
  for (const auto& [dtype, value] :
       {std::pair{DType::kF32, DType::kF32}, {DType::kU8, DType::kU8}, {DType::kI8, DType::kI64}}) {
    graphs.push_back(ExampleGraph("tv::constant_pad")
                         .input("self", dtype, {5, 3, 7})
                         .input("value", value, {1})
                         .attr("pad", ints({1, 2, 1, 1}))
                         .output(dtype, {5, 5, 10})
                         .graph());
  }
  return graphs;
}

std::string tensor_pad_refusal(const NodeContext& c) {
  const bool alike = is_float(c.dtype("self")) == is_float(c.dtype("value"));
  return alike && product(c.shape("value")) == Expr(1)
             ? ""
             : "[" + c.node.op + "] the value is not one number of the kind of the elements";
}

std::vector<Graph> roll_examples() {
  std::vector<Graph> graphs;
  for (const auto& [shifts, dims] :
       {std::pair{ints({2, -1}), ints({0, 2})}, {ints({8}), ints({})}}) {
    std::ranges::move(examples("aten::roll", {5, 3, 7}, {{"shifts", shifts}, {"dims", dims}})(),
                      std::back_inserter(graphs));
  }
  return graphs;
}

void repeated(NodeTypes& t) {
  Shape shape = t.shape("self");
  const std::vector<Expr> repeats = t.node().exprs("repeats");
  t.want(repeats.size() >= shape.size(), "has fewer repeats than dimensions");
  shape.insert(shape.begin(), repeats.size() - shape.size(), Expr(1));
  for (size_t i = 0; i < shape.size(); ++i) {
    t.at_least(repeats[i], 0, "a repeat");
    shape[i] *= repeats[i];
  }
  t.gives(shape);
}

void equal_counts(NodeTypes& t) {
  const size_t shifts = t.node().exprs("shifts").size(), dims = t.node().exprs("dims").size();
  t.want(shifts == dims || (dims == 0 && shifts == 1), "wants as many shifts as dims");
}

Converter mover(std::string op, Moves moves, decltype(Converter::convert) convert,
                decltype(Converter::examples) examples,
                decltype(Converter::unsupported) refuse = {}) {
  return {.op = std::move(op),
          .unsupported = std::move(refuse),
          .convert = std::move(convert),
          .reads_views = {"self"},
          .epilogue = true,
          .moves = moves,
          .examples = std::move(examples)};
}

Converter edge(const std::string& op, const std::string& map, int dims) {
  std::vector<int64_t> pads = {1, 2, 1, 1, 0, 0};
  pads.resize(2 * dims);
  const Shape in = dims == 3 ? Shape{1, 5, 3, 7} : Shape{5, 3, 7};
  Shape out = in;
  out.back() += 3;
  if (dims > 1) out[out.size() - 2] += 2;
  return typed(
      mover(op, Moves::kPicks, edge_pad(map), examples(op, out, {{"padding", ints(pads)}}, in)),
      types::edge_pad(static_cast<size_t>(dims), map == "REFLECT"));
}

const RegisterConverter movers{
    typed(mover("aten::constant_pad_nd", Moves::kPads, constant_pad,
                examples("aten::constant_pad_nd", {5, 5, 10},
                         {{"pad", ints({1, 2, 1, 1})}, {"value", 1.5}}),
                [](const NodeContext& c) {
                  return fill_unsupported(c.node, "value", c.dtype("self"));
                }),
          types::padded_constant),
    // constant_pad_nd(self, pad, value) whose value is a tensor of one element.
    described(typed(mover("tv::constant_pad", Moves::kPads, constant_pad, tensor_pad_examples,
                          tensor_pad_refusal),
                    types::padded_constant),
              "tv::constant_pad(Tensor self, SymInt[] pad, Tensor value) -> Tensor"),
    typed(mover("aten::flip", Moves::kPicks, flip,
                examples("aten::flip", {5, 3, 7}, {{"dims", ints({0, 2})}})),
          types::kSame),
    typed(mover("aten::roll", Moves::kPicks, roll, roll_examples),
          TypeRule(types::kSame) & equal_counts),
    typed(mover("aten::repeat", Moves::kSpreads, repeat,
                examples("aten::repeat", {2, 10, 3, 14}, {})),
          repeated),
    edge("aten::reflection_pad1d", "REFLECT", 1),
    edge("aten::reflection_pad2d", "REFLECT", 2),
    edge("aten::replication_pad1d", "CLAMP_PAD", 1),
    edge("aten::replication_pad2d", "CLAMP_PAD", 2),
    edge("aten::replication_pad3d", "CLAMP_PAD", 3),
};

}  // namespace
}  // namespace tv
