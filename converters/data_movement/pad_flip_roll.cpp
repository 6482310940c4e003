// Operators that move elements by a rule per dimension: pad, flip, roll, repeat.

#include <algorithm>

#include "converters/kit/steps.h"

namespace tv {
namespace {

/// `map` is the kernel's rule; one shift per dimension of the output.
struct AxisMap {
  std::string map;
  std::vector<Expr> shifts;
  bool constant = false;  ///< outside of the source the value is the argument `value`
};

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
    axes += (last ? "LAST_AXIS(" : "AXIS(out_n" + n + ", ") + "in_n" + n + ", shift" + n +
            ", stride" + n + ") ";
  }
  step.operands = {src("x", x.value), dst("y", c.node.outputs[0])};
  step.defines = {{"MAP", axes_map.map},
                  {"CONSTANT", axes_map.constant ? "1" : "0"},
                  {"AXES", axes},
                  x.accessor("x")};
  step.params.push_back(param("elements", product(out)));
  if (axes_map.constant)
    step.params.push_back(fill_param("fill", c.node, "value", c.dtype("self")));
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
  Step step{.kernel = "pad_flip_roll",
            .defines = {{"MAP", "WRAP"},
                        {"CONSTANT", "0"},
                        {"AXES", "LAST_AXIS(elements, shift, 1u)"},
                        {"x_element(i)", "x_load(i)"}},
            .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
            .params = {param("elements", elements),
                       {.name = "shift", .value = within(shift, elements), .number = DType::kI32}}};
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

Converter mover(std::string op, decltype(Converter::convert) convert,
                decltype(Converter::examples) examples,
                decltype(Converter::unsupported) refuse = {}) {
  return {.op = std::move(op),
          .unsupported = std::move(refuse),
          .convert = std::move(convert),
          .reads_views = {"self"},
          .epilogue = true,
          .examples = std::move(examples)};
}

Converter edge(const std::string& op, const std::string& map, int dims) {
  std::vector<int64_t> pads = {1, 2, 1, 1, 0, 0};
  pads.resize(2 * dims);
  const Shape in = dims == 3 ? Shape{1, 5, 3, 7} : Shape{5, 3, 7};
  Shape out = in;
  out.back() += 3;
  if (dims > 1) out[out.size() - 2] += 2;
  return mover(op, edge_pad(map), examples(op, out, {{"padding", ints(pads)}}, in));
}

const RegisterConverter movers{
    mover("aten::constant_pad_nd", constant_pad,
          examples("aten::constant_pad_nd", {5, 5, 10},
                   {{"pad", ints({1, 2, 1, 1})}, {"value", 1.5}}),
          [](const NodeContext& c) { return fill_unsupported(c.node, "value", c.dtype("self")); }),
    mover("aten::flip", flip, examples("aten::flip", {5, 3, 7}, {{"dims", ints({0, 2})}})),
    mover("aten::roll", roll,
          examples("aten::roll", {5, 3, 7}, {{"shifts", ints({2, -1})}, {"dims", ints({0, 2})}})),
    mover("aten::repeat", repeat, examples("aten::repeat", {2, 10, 3, 14}, {})),
    edge("aten::reflection_pad1d", "REFLECT", 1),
    edge("aten::reflection_pad2d", "REFLECT", 2),
    edge("aten::replication_pad1d", "CLAMP_PAD", 1),
    edge("aten::replication_pad2d", "CLAMP_PAD", 2),
    edge("aten::replication_pad3d", "CLAMP_PAD", 3),
};

}  // namespace
}  // namespace tv
