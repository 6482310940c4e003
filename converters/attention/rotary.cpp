// Rotary position embeddings, which recognise_rotary makes:
//   y = tv::rotary(x, cos, sin, rotated)
//   y, y2 = tv::rotary_pair(x, x2, cos, sin, rotated)
// and, of write_rotated, with the second result and v written to a position of caches:
//   y, keys, values = tv::rotary_write(x, x2, cos, sin, rotated, keys, values, v, at, dim)
// Of rows of x the first `rotated` elements are rotated. cos and sin are broadcast to x but for the
// last dimension, which is `rotated` or 1; those of x and x2 are constant. With eps, of
// fuse_rotary, rows of x and x2 are normalised first: the node's program makes an element of a
// normalised one and of those of x_vectors (x2_vectors).

#include <algorithm>
#include <bit>

#include "converters/kit/steps.h"
#include "csrc/codegen/pointwise_codegen.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

Shape lead(const Shape& shape) {
  return {shape.begin(), shape.empty() ? shape.end() : shape.end() - 1};
}

/// From one element of a row to the next; 0 where there is one for all.
Expr step_in_row(const Shape& shape, const Shape& strides) {
  return shape.empty() || shape.back() == Expr(1) ? Expr(0) : strides.back();
}

/// Loops over the rows of a value, with the offsets of others that are broadcast to them.
class Rows {
 public:
  Rows(const NodeContext& c, const Builder& b, const Shape& shape)
      : c_(c), b_(b), loops_{.sizes = lead(shape)} {}

  /// Its offsets as `name`_offset, and `name`_d of elements of a row.
  void add(const std::string& name, ValueId value, Step& step) {
    const Shape &shape = c_.graph.value(value).shape, strides = b_.strides_of(value);
    loops_.targets.emplace_back(name, broadcast_strides(lead(shape), lead(strides), loops_.sizes));
    const std::string d = name + "_d";
    const auto same = [&](const Param& p) { return p.name == d; };
    if (std::ranges::none_of(step.params, same)) {
      step.params.push_back(param(d, step_in_row(shape, strides)));
    }
  }
  /// As `name`_offset, `name`_step and `name`_d: where they go in a cache, at position 0 of `dim`.
  void add_cache(const std::string& name, ValueId cache, size_t dim, Step& step) {
    const Shape strides = b_.strides_of(cache);
    loops_.targets.emplace_back(name, lead(strides));
    step.params.push_back(param(name + "_step", strides[dim]));
    step.params.push_back(param(name + "_d", strides.back()));
  }
  void finish(const std::string& name, Step& step) {
    loops_.collapse();
    loops_.add_to(step, name);
  }

 private:
  const NodeContext& c_;
  const Builder& b_;
  LoopNest loops_;
};

std::string constant(const Expr& size) { return std::to_string(*size.constant()) + "u"; }

void add_x(const NodeContext& c, const std::string& name, Rows& rows, Step& step) {
  for (const std::string& arg : {name, std::string("cos"), std::string("sin")}) {
    rows.add(arg, c.node.input(arg), step);
  }
  step.operands.push_back(src(name, c.node.input(name)));
}

/// What y2 and y3 store into; the rest of it stays.
Operand changed(const std::string& name, ValueId cache) {
  return {.name = name, .value = cache, .write = true, .read_write = true};
}

/// The values: returns how many elements.
Expr add_write(const NodeContext& c, const Builder& b, Step& step) {
  const ValueId v = c.node.input("v");
  Rows rows(c, b, c.shape("v"));
  rows.add("v", v, step);
  rows.add_cache("y3", c.node.outputs[2], static_cast<size_t>(c.node.integer("dim")), step);
  rows.finish("row3", step);
  step.operands.push_back(src("v", v));
  step.operands.push_back(changed("y3", c.node.outputs[2]));
  step.operands.push_back(src("at", c.node.input("at")));
  step.params.push_back(
      param("positions", c.shape("keys").at(static_cast<size_t>(c.node.integer("dim")))));
  step.params.push_back(param("elements3", product(c.shape("v"))));
  step.defines.emplace_back("V_COLS", constant(c.shape("v").back()));
  step.defines.emplace_back("PLACE", place_function(c));
  step.defines.emplace_back("WRAPS", flag(index_wraps(c.node)));
  return product(c.shape("v"));
}

/// What the kernel calls for a normalised element of `name`, and its operands.
void add_vectors(const NodeContext& c, const std::string& name, Step& step) {
  std::string arguments;
  for (const ValueId vector : c.node.inputs(name + "_vectors")) {
    const std::string operand = name + "_norm" + std::to_string(step.operands.size());
    step.operands.push_back(src(operand, vector));
    arguments += ", " + operand + "_raw(d_)";
  }
  step.defines.emplace_back("NORMED_" + name + "(v_, d_, y_)", "normed(v_" + arguments + ", y_);");
}

void add_norms(const NodeContext& c, Step& step) {
  step.defines.insert(step.defines.end(),
                      {{"NORM_FUNCTION", pointwise_line(*c.node.program, "normed")},
                       {"PER_INVOCATION", "0"},
                       {"SUBGROUP", "0"},
                       {"HYBRID", "0"}});
  step.params.push_back(number("eps", c.node.number("eps")));
  add_vectors(c, "x", step);
  if (c.node.has("x2")) add_vectors(c, "x2", step);
}

/// A workgroup for each of the rows, whose sum it adds up.
void emit_rows(const NodeContext& c, Builder& b, Step step, const Expr& rows) {
  const int64_t columns = *c.shape("x").back().constant();
  const auto most = std::min(64U, std::bit_floor(c.device.max_workgroup_invocations));
  const uint32_t local =
      std::clamp(std::bit_ceil(static_cast<uint32_t>(columns + 1) / 2), 1U, most);
  step.local_size = {local, 1, 1};
  step.grid = Grid::flat_groups(rows);
  const int64_t longest = c.node.has("v") ? *c.shape("v").back().constant() : 0;
  step.iterations = Expr(std::max(2 * columns, longest) / local + 16);
  b.emit({{.name = "rotary_normed", .steps = {std::move(step)}}});
}

void convert(const NodeContext& c, Builder& b) {
  const bool pair = c.node.has("x2"), writes = c.node.has("v"), normed = c.node.has("eps");
  Step step{.kernel = "rotary",
            .defines = {{"PAIR", flag(pair)}, {"WRITE", flag(writes)}, {"NORM", flag(normed)}}};
  step.defines.emplace_back("COLS", constant(c.shape("x").back()));
  step.defines.emplace_back("ROTATED", constant(c.node.expr("rotated")));
  Rows rows(c, b, c.shape("x"));
  add_x(c, "x", rows, step);
  rows.finish("row", step);
  step.operands.push_back(src("cos", c.node.input("cos")));
  step.operands.push_back(src("sin", c.node.input("sin")));
  step.operands.push_back(dst("y", c.node.outputs[0]));
  Expr elements = product(c.shape("x"));
  Expr rows_of_all = product(lead(c.shape("x")));
  step.params.push_back(param("elements", elements));
  if (pair) {
    Rows rows2(c, b, c.shape("x2"));
    add_x(c, "x2", rows2, step);
    const ValueId y2 = c.node.outputs[1];
    if (writes) rows2.add_cache("y2", y2, static_cast<size_t>(c.node.integer("dim")), step);
    rows2.finish("row2", step);
    step.operands.push_back(writes ? changed("y2", y2) : dst("y2", y2));
    step.params.push_back(param("elements2", product(c.shape("x2"))));
    elements += product(c.shape("x2"));
    rows_of_all += product(lead(c.shape("x2")));
  }
  if (writes) elements += add_write(c, b, step);
  if (writes) rows_of_all += product(lead(c.shape("v")));
  if (!normed) return emit_flat(b, std::move(step), elements);
  add_norms(c, step);
  emit_rows(c, b, std::move(step), rows_of_all);
}

// --- registration ---

ExampleGraph example(const std::string& op, DType dtype, int64_t rotated) {
  ExampleGraph g(op);
  g.input("x", dtype, {2, 3, 1, 14});
  if (op != "tv::rotary") g.input("x2", dtype, {2, 2, 1, 14});
  g.input("cos", dtype, {2, 1, 1, rotated}).input("sin", dtype, {1, rotated});
  return g.attr("rotated", integer(rotated)).output(dtype, {2, 3, 1, 14});
}

/// The node with norms whose results are multiplied by a vector.
Graph with_norms(ExampleGraph g, DType dtype, bool pair) {
  g.input("x_vectors", dtype, {14});
  if (pair) g.input("x2_vectors", dtype, {14});
  Graph graph = g.graph();
  Node& node = graph.nodes[0];
  for (Arg& arg : node.args) {
    const std::string name = arg.name;
    if (name == "x_vectors" || name == "x2_vectors") {
      arg = tensor_list_arg(name, {node.input(name)});
    }
  }
  node.args.push_back(attr_arg("eps", 1e-5));
  PointwiseProgram program{.inputs = {DType::kF32, dtype}};
  program.instrs = {{.function = "mul", .operands = {0, 1}}};
  program.results = {2};
  node.program = std::make_shared<const PointwiseProgram>(std::move(program));
  return graph;
}

std::vector<Graph> examples(const std::string& op) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t rotated : {14, 6}) {
      ExampleGraph g = example(op, dtype, rotated);
      if (op != "tv::rotary") g.output(dtype, {2, 2, 1, 14});
      graphs.push_back(g.graph());
      graphs.push_back(with_norms(g, dtype, op != "tv::rotary"));
    }
  }
  return graphs;
}

std::vector<Graph> write_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Shape keys = {2, 2, 11, 14}, values = {2, 2, 11, 10};
    ExampleGraph g = example("tv::rotary_write", dtype, 14);
    g.input("keys", dtype, keys)
        .input("values", dtype, values)
        .input("v", dtype, {2, 2, 1, 10})
        .input("at", DType::kI64, {1})
        .attr("dim", integer(2))
        .output(dtype, keys)
        .output(dtype, values);
    graphs.push_back(g.graph());
    graphs.push_back(with_norms(g, dtype, true));
  }
  for (Graph& graph : graphs) {
    for (size_t k = 1; k < 3; ++k) {
      const ValueId cache = graph.nodes[0].input(k == 1 ? "keys" : "values");
      graph.outputs[k].over = cache;
      graph.value(graph.outputs[k].value).view =
          View{cache, Expr(0), contiguous_strides(graph.value(cache).shape)};
    }
  }
  return graphs;
}

Converter rotary(const std::string& op) {
  return {.op = op,
          .convert = convert,
          .reads_views = {"*"},
          .epilogue = op == "tv::rotary",
          .examples = [op] { return examples(op); }};
}

const RegisterConverter all{
    rotary("tv::rotary"),
    rotary("tv::rotary_pair"),
    {.op = "tv::rotary_write",
     .convert = convert,
     .reads_views = {"*"},
     .examples = write_examples,
     .notes = "rotated keys and values in the memory of the caches that they go to"}};

}  // namespace
}  // namespace tv
