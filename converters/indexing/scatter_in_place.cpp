// index_put and scatter that change the storage of their result, which holds `self` already: the
// work depends on what is written and not on what it is written into. write_in_place makes these
// nodes.

#include "converters/indexing/index_placement.h"
#include "converters/indexing/scatter_step.h"
#include "converters/kit/scalar_dims.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

Operand changed(const NodeContext& c) {
  return {.name = "y", .value = c.node.outputs[0], .write = true, .read_write = true};
}

// --- index_put ---

/// How many rows the indices choose among.
Expr rows_of(const NodeContext& c, const IndexPlacement& p) {
  Expr rows = 1;
  for (const int64_t d : p.indexed) rows *= c.shape("self").at(d);
  return rows;
}

/// The operands, parameters and defines that find the row of an entry, or of the only one.
void add_picks(const NodeContext& c, const IndexPlacement& p, bool only, Step& step) {
  std::string picks;
  for (size_t k = 0; k < p.indices.size(); ++k) {
    const std::string n = std::to_string(k);
    step.operands.push_back(src("i" + n, p.indices[k]));
    step.params.push_back(param("size" + n, c.shape("self").at(p.indexed[k])));
    const std::string at = only ? "0u" : "i" + n + "_offset";
    picks += "pick(row, int64_t(i" + n + "_raw(" + at + ")), size" + n + "); ";
  }
  step.defines.emplace_back("INDEX_PICKS(row)", picks);
  step.defines.emplace_back("PLACE", place_function(c));
  step.defines.emplace_back("WRAPS", flag(index_wraps(c.node)));
}

Step keys_step(const NodeContext& c, const Builder& b, const IndexPlacement& p, ValueId key) {
  Step step{.kernel = "scatter_keys"};
  LoopNest loops{.sizes = p.index_shape};
  for (size_t k = 0; k < p.indices.size(); ++k) {
    const ValueId id = p.indices[k];
    loops.targets.emplace_back(
        "i" + std::to_string(k),
        broadcast_strides(c.graph.value(id).shape, b.strides_of(id), p.index_shape));
  }
  add_picks(c, p, false, step);
  const Expr entries = product(p.index_shape);
  step.operands.push_back(dst("key", key));
  step.params.push_back(param("entries", entries));
  step.params.push_back(param("rows", rows_of(c, p)));
  step.params.push_back({.name = "dropped", .value = Expr(-1), .number = DType::kI32});
  loops.collapse();
  loops.add_to(step, "entry");
  step.grid = one_each(entries, 64);
  return step;
}

/// Where the values of an index_put come from and go to: loops over the elements of an entry, and
/// over the rows that the indices name.
struct Places {
  LoopNest rest{.targets = {{"place", {}}, {"rest", {}}}}, row{.targets = {{"row", {}}}};
  Shape from;  ///< strides of the values over the broadcast indices
};

Places places_of(const NodeContext& c, const Builder& b, const IndexPlacement& p,
                 const std::string& self, const std::string& values, ValueId output) {
  const Shape& shape = c.shape(self);
  // values broadcasts to the shape that x[indices] has.
  Shape target(p.result_rank(), Expr(1));
  std::copy(p.index_shape.begin(), p.index_shape.end(), target.begin() + p.index_at);
  for (size_t k = 0; k < p.sliced.size(); ++k) target[p.position(k)] = shape[p.sliced[k]];
  const ValueId given = c.node.input(values);
  const Shape from = broadcast_strides(c.graph.value(given).shape, b.strides_of(given), target);
  const Shape to = b.strides_of(output);
  Places places;
  for (size_t k = 0; k < p.sliced.size(); ++k) {
    places.rest.sizes.push_back(shape[p.sliced[k]]);
    places.rest.targets[0].second.push_back(to[p.sliced[k]]);
    places.rest.targets[1].second.push_back(from[p.position(k)]);
  }
  for (const int64_t d : p.indexed) {
    places.row.sizes.push_back(shape[d]);
    places.row.targets[0].second.push_back(to[d]);
  }
  places.rest.collapse();
  places.row.collapse();
  places.from.assign(from.begin() + p.index_at, from.begin() + p.index_at + p.index_shape.size());
  return places;
}

/// One entry, as of a cache that is given one position, or two of two tensors at the same indices:
/// one launch.
void put_entry(const NodeContext& c, Builder& b, const IndexPlacement& p) {
  const bool pair = c.node.has("self2");
  const Places places = places_of(c, b, p, "self", "values", c.node.outputs[0]);
  Expr elements = places.rest.count();
  Step step{.kernel = "scatter_entry_in_place",
            .defines = {{"ADD", flag(c.node.flag("accumulate"))}, {"PAIR", flag(pair)}},
            .operands = {src("v", c.node.input("values")), changed(c)},
            .params = {param("elements", elements)}};
  add_picks(c, p, true, step);
  places.rest.add_to(step, "rest");
  places.row.add_to(step, "row");
  if (pair) {
    const Places second = places_of(c, b, p, "self2", "values2", c.node.outputs[1]);
    Operand y2 = changed(c);
    y2.name = "y2";
    y2.value = c.node.outputs[1];
    step.operands.push_back(src("v2", c.node.input("values2")));
    step.operands.push_back(y2);
    step.params.push_back(param("elements2", second.rest.count()));
    elements += second.rest.count();
    second.rest.add_to(step, "rest2");
    second.row.add_to(step, "row2");
    std::string picks;
    for (size_t k = 0; k < p.indices.size(); ++k) {
      const std::string n = std::to_string(k);
      step.params.push_back(param("width" + n, c.shape("self2").at(p.indexed[k])));
      picks += "pick(row, int64_t(i" + n + "_raw(0u)), width" + n + "); ";
    }
    step.defines.emplace_back("INDEX_PICKS2(row)", picks);
  }
  step.grid = one_each(elements, 64);
  b.emit({{.name = "scatter_entry_in_place", .steps = {std::move(step)}}});
}

/// Each entry is compared with those before it and those behind it.
Expr link_iterations(const Expr& entries) { return entries * 2; }

std::string put_unsupported(const NodeContext& c) {
  const Expr entries = product(index_placement(c).index_shape);
  const int64_t least = link_iterations(entries).bounds(c.graph.symbols).first;
  if (least <= c.device.max_loop_iterations()) return "";
  return "[" + c.node.op + "] " + entries.str() + " entries, more than this device links";
}

void index_put(const NodeContext& c, Builder& b) {
  const IndexPlacement p = index_placement(c);
  const Expr entries = product(p.index_shape);
  if (entries == Expr(1)) {
    put_entry(c, b, p);
    return;
  }
  const ValueId values = c.node.input("values");
  const ValueId key = b.scratch("key", DType::kI32, {entries});
  const ValueId next = b.scratch("next", DType::kI32, {entries});
  const ValueId first = b.scratch("first", DType::kI32, {entries});
  Tactic tactic{.name = "scatter_rows_in_place", .steps = {keys_step(c, b, p, key)}};
  tactic.steps.push_back({.kernel = "scatter_links",
                          .operands = {src("key", key), dst("next", next), dst("first", first)},
                          .params = {param("entries", entries)},
                          .grid = one_each(entries, 64),
                          .iterations = link_iterations(entries)});
  const Places places = places_of(c, b, p, "self", "values", c.node.outputs[0]);
  const Expr rests = places.rest.count();
  Step apply{.kernel = "scatter_rows_in_place",
             .defines = {{"ADD", c.node.flag("accumulate") ? "1" : "0"}},
             .operands = {src("key", key), src("next", next), src("first", first), src("v", values),
                          changed(c)},
             .params = {param("elements", entries * rests), param("entries", entries),
                        param("rests", rests), param("rows", rows_of(c, p))},
             .grid = one_each(entries * rests, 64),
             .iterations = entries};
  places.rest.add_to(apply, "rest");
  places.row.add_to(apply, "row");
  LoopNest value{.sizes = p.index_shape, .targets = {{"v", places.from}}};
  value.collapse();
  value.add_to(apply, "value");
  tactic.steps.push_back(std::move(apply));
  b.emit({std::move(tactic)});
}

// --- scatter ---

void scatter(const NodeContext& c, Builder& b, bool add) {
  const Shape out = with_a_dim(c.output().shape);
  const int64_t dim = c.wrap(c.node.integer("dim"), static_cast<int64_t>(out.size()));
  const bool has_source = c.node.find("src") != nullptr;
  const ValueId index = c.node.input("index");
  const Shape reach = with_a_dim(c.shape("index"), out.size());
  const Shape of_index = strides_with_a_dim(b.strides_of(index), out.size());
  const Shape of_src = has_source
                           ? strides_with_a_dim(b.strides_of(c.node.input("src")), out.size())
                           : Shape(out.size(), Expr(0));
  const Shape of_y = strides_with_a_dim(b.strides_of(c.node.outputs[0]), out.size());
  // Lines along `dim`, and on them the entry `k`.
  const auto line = [&](Shape strides) {
    strides[dim] = Expr(0);
    return strides;
  };
  Shape own(out.size(), Expr(0));
  own[dim] = Expr(1);
  LoopNest loops{
      .sizes = reach,
      .targets = {{"index", line(of_index)}, {"src", line(of_src)}, {"y", line(of_y)}, {"k", own}}};
  loops.collapse();
  Step step{.kernel = "scatter_dim_in_place",
            .defines = {{"ADD", add ? "1" : "0"},
                        {"VALUE", has_source ? "0" : "1"},
                        {"BAD_INDEX", checks_indices(c) ? "tv_bad_index" : ""}},
            .operands = {src("index", index), changed(c)},
            .params = {param("elements", product(reach)), param("depth", reach.at(dim)),
                       param("size", out.at(dim)), param("index_step", of_index.at(dim)),
                       param("src_step", of_src.at(dim)), param("y_step", of_y.at(dim))},
            .iterations = reach.at(dim) * 2};
  if (has_source) {
    step.operands.push_back(src("src", c.node.input("src")));
  } else {
    step.params.push_back(fill_param("fill", c.node, "value", c.output().dtype));
  }
  loops.add_to(step, "entry");
  emit_flat(b, std::move(step), product(reach));
}

// --- registration ---

/// The graphs, whose results are written over their first arguments.
std::vector<Graph> written(std::vector<Graph> graphs) {
  for (Graph& graph : graphs) graph.outputs[0].over = graph.inputs[0];
  return graphs;
}

std::vector<Graph> put_examples(const std::string& op) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kBool}) {
    for (const bool add : {false, true}) {
      if (add && dtype == DType::kBool) continue;
      graphs.push_back(ExampleGraph(op)
                           .input("self", dtype, {5, 11, 7})
                           .inputs("indices", {{DType::kI64, {}}, {DType::kI64, {1}}})
                           .input("values", dtype, {7})
                           .attr("accumulate", add)
                           .output(dtype, {5, 11, 7})
                           .graph());
      graphs.push_back(ExampleGraph(op)
                           .input("self", dtype, {5, 11, 7})
                           .inputs("indices", {{DType::kI64, {3, 1}}, {DType::kI64, {4}}})
                           .input("values", dtype, {7})
                           .attr("accumulate", add)
                           .output(dtype, {5, 11, 7})
                           .graph());
    }
  }
  return written(std::move(graphs));
}

Converter put(const std::string& name) {
  return {.op = "tv::in_place_" + name,
          .unsupported = put_unsupported,
          .convert = index_put,
          .reads_views = {"*"},
          .examples = [name] { return put_examples("aten::" + name); },
          .notes = "index_put in the memory of the tensor that it changes"};
}

Converter scatter_of(const std::string& name, bool add) {
  return {.op = "tv::in_place_" + name,
          .convert = [add](const NodeContext& c, Builder& b) { scatter(c, b, add); },
          .reads_views = {"*"},
          .examples = [name] { return written(scatter_examples("aten::" + name)); },
          .notes = "scatter in the memory of the tensor that it changes"};
}

std::vector<Graph> pair_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Graph graph = ExampleGraph("tv::in_place_index_put_pair")
                      .input("self", dtype, {2, 11, 7})
                      .input("self2", dtype, {2, 11, 5})
                      .inputs("indices", {{DType::kI64, {}}, {DType::kI64, {1}}})
                      .input("values", dtype, {7})
                      .input("values2", dtype, {5})
                      .attr("accumulate", false)
                      .output(dtype, {2, 11, 7})
                      .output(dtype, {2, 11, 5})
                      .graph();
    for (size_t k = 0; k < 2; ++k) {
      graph.outputs[k].over = graph.inputs[k];
      graph.value(graph.outputs[k].value).view =
          View{graph.inputs[k], Expr(0), contiguous_strides(graph.value(graph.inputs[k]).shape)};
    }
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

const RegisterConverter in_place{
    {.op = "tv::in_place_index_put_pair",
     .convert = index_put,
     .reads_views = {"*"},
     .examples = pair_examples,
     .notes = "two index_puts in the memory of the tensors that they change"},

    put("index_put"),
    put("_unsafe_index_put"),
    scatter_of("scatter.src", false),
    scatter_of("scatter.value", false),
    scatter_of("scatter_add", true)};

}  // namespace
}  // namespace tv
