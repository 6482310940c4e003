// roll along one dimension in the memory of the tensor that it changes: a window that moves on.
// write_in_place makes these nodes.

#include <cstdlib>
#include <optional>

#include "converters/kit/steps.h"

namespace tv {
namespace {

/// Positions that an invocation holds.
constexpr int64_t kHeld = 16;

/// Along which dimension, and by how many places at most; to higher positions if not `forward`.
struct Roll {
  int64_t dim = 0;
  int64_t places = 0;
  bool forward = true;
};

std::optional<Roll> roll_of(const NodeContext& c) {
  const Shape& shape = c.shape("self");
  std::vector<int64_t> dims = c.node.integers("dims");
  if (dims.empty() && shape.size() == 1) dims = {0};
  const std::vector<Expr> shifts = c.node.exprs("shifts");
  if (dims.size() != 1 || shape.empty() || !shifts.at(0).constant()) return std::nullopt;
  const int64_t by = *shifts[0].constant();
  if (by < -kHeld || by > kHeld) return std::nullopt;
  return Roll{c.wrap(dims[0], static_cast<int64_t>(shape.size())), std::abs(by), by < 0};
}

/// Rows of a workgroup, which wait for each other; a CPU driver's invocation moves whole lines.
uint32_t rows_of(const NodeContext& c, const Expr& size) {
  const bool few = size.bounds(c.graph.symbols).second <= kHeld;
  return few || c.device.is_cpu() ? 1 : 16;
}

Expr iterations(const NodeContext& c, const Roll& roll) {
  const Expr& size = c.shape("self").at(roll.dim);
  return ceil_div(size, kHeld * rows_of(c, size)) * (2 * kHeld + 1) + kHeld;
}

std::string roll_unsupported(const NodeContext& c) {
  const std::optional<Roll> roll = roll_of(c);
  if (!roll) {
    return "[" + c.node.op + "] wants one dimension, and a shift of up to " + text(kHeld) +
           " places";
  }
  return loops_too_long(c, iterations(c, *roll));
}

void roll(const NodeContext& c, Builder& b) {
  const Roll roll = roll_of(c).value();
  const ValueId y = c.node.outputs[0];
  Shape sizes = c.output().shape, strides = b.strides_of(y);
  const Expr size = sizes.at(roll.dim), step = strides.at(roll.dim);
  sizes.erase(sizes.begin() + roll.dim);
  strides.erase(strides.begin() + roll.dim);
  LoopNest lines{.sizes = sizes, .targets = {{"y", strides}}};
  lines.collapse();
  const uint32_t rows = rows_of(c, size), columns = rows == 1 ? 64 : 16;
  Step move{.kernel = "roll_in_place",
            .defines = {{"PER", text(kHeld)}, {"MIRRORED", flag(!roll.forward)}},
            .operands = {{.name = "y", .value = y, .write = true, .read_write = true}},
            .params = {param("size", size), param("lines", lines.count()), param("y_step", step),
                       param("shift", mod(Expr(roll.places), max(size, 1)))},
            .grid = one_each(lines.count(), columns),
            .local_size = {columns, rows, 1},
            .iterations = iterations(c, roll)};
  lines.add_to(move, "lines");
  b.emit({{.name = "roll_in_place", .steps = {std::move(move)}}});
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  const auto add = [&](DType dtype, Shape shape, int64_t dim, int64_t shift) {
    Graph graph = ExampleGraph("aten::roll")
                      .input("self", dtype, shape)
                      .attr("shifts", ints({shift}))
                      .attr("dims", ints({dim}))
                      .output(dtype, shape)
                      .graph();
    graph.outputs[0].over = graph.inputs[0];
    graphs.push_back(std::move(graph));
  };
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kBool}) {
    add(dtype, {2, 300, 7}, 1, -1);
    add(dtype, {2, 300, 7}, -2, 3);
    add(dtype, {3, 5}, 1, -16);
  }
  return graphs;
}

const RegisterConverter rolls{
    {.op = "tv::in_place_roll",
     .unsupported = roll_unsupported,
     .convert = roll,
     .reads_views = {"*"},
     .examples = examples,
     .notes = "roll along one dimension in the memory of the tensor that it changes"}};

}  // namespace
}  // namespace tv
