#include "converters/kit/steps.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tv {

int64_t typical(const Graph& graph, const Expr& expr) {
  if (const auto c = expr.constant()) return *c;
  std::vector<int64_t> values;
  for (const Symbol& s : graph.symbols) values.push_back(s.opt);
  return expr.eval(values);
}

Grid one_each(const Expr& count, uint32_t local_x) {
  return Grid::flat_groups(ceil_div(count, static_cast<int64_t>(local_x)));
}

void emit_flat(Builder& b, Step step, const Expr& count) {
  step.local_size = {64, 1, 1};
  step.grid = one_each(count, 64);
  const std::string name = step.kernel;
  b.emit({{.name = name, .steps = {std::move(step)}}});
}

Param param(std::string name, Expr value) {
  return {.name = std::move(name), .value = std::move(value)};
}

Param fixed(std::string name, Expr value) {
  return {.name = std::move(name), .value = std::move(value), .specialise = true};
}

Param number(std::string name, double value) {
  return {.name = std::move(name), .value = static_cast<float>(value)};
}

std::string text(int64_t value) { return std::to_string(value); }
std::string flag(bool value) { return value ? "1" : "0"; }

namespace {

/// The integer that an argument holds; nullopt if it is absent or no integer.
std::optional<Expr> integer_of(const Node& node, std::string_view arg) {
  if (!node.has(arg)) return std::nullopt;
  const auto* e = std::get_if<Expr>(&node.arg(arg).attr);
  return e == nullptr ? std::nullopt : std::optional(*e);
}

}  // namespace

Param fill_param(std::string name, const Node& node, std::string_view arg, DType dtype) {
  if (const auto e = integer_of(node, arg)) {
    return {.name = std::move(name), .value = *e, .number = dtype};
  }
  const double given = node.has(arg) ? node.number(arg) : 0.0;
  const double value = dtype == DType::kBool ? given != 0 : given;  // 0.5 is true
  if (is_float(dtype) || std::abs(value) >= 0x1p63) return number(std::move(name), value);
  return {.name = std::move(name), .value = Expr(static_cast<int64_t>(value)), .number = dtype};
}

std::string fill_unsupported(const Node& node, std::string_view arg, DType dtype) {
  const auto e = integer_of(node, arg);
  if (!e || !e->constant() || holds(dtype, *e->constant())) return "";
  return "[" + node.op + "] " + std::string(arg) + " must fit " + std::string(tv::name(dtype)) +
         "; got " + e->str();
}

Expr product_of(const Shape& shape, size_t first, size_t last) {
  return product(std::span<const Expr>(shape).subspan(first, last - first));
}

DimSplit split_at(const Shape& shape, int64_t dim) {
  if (shape.empty()) return {};
  const auto d = static_cast<size_t>(dim);
  return {product_of(shape, 0, d), shape[d], product_of(shape, d + 1, shape.size())};
}

std::pair<std::string, std::string> Source::accessor(const std::string& operand) const {
  return {operand + "_element(i)", operand + (raw ? "_raw(i)" : "_load(i)")};
}

Source source_of(const NodeContext& c, const Builder& builder, const std::string& arg) {
  Source s;
  s.value = c.node.input(arg);
  s.shape = c.shape(arg);
  s.raw = !(c.node.prologue && c.node.prologue_arg == arg);
  s.strides = s.raw ? builder.strides_of(s.value) : contiguous_strides(s.shape);
  return s;
}

void LoopNest::collapse() {
  LoopNest out;
  for (const auto& [name, strides] : targets) out.targets.emplace_back(name, Shape{});
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Expr(1)) continue;
    bool joins = !out.sizes.empty();
    for (size_t t = 0; joins && t < targets.size(); ++t) {
      joins = out.targets[t].second.back() == targets[t].second[i] * sizes[i];
    }
    if (joins) {
      out.sizes.back() *= sizes[i];
    } else {
      out.sizes.push_back(sizes[i]);
    }
    for (size_t t = 0; t < targets.size(); ++t) {
      Shape& strides = out.targets[t].second;
      if (joins) strides.pop_back();
      strides.push_back(targets[t].second[i]);
    }
  }
  *this = std::move(out);
}

void LoopNest::add_to(Step& step, const std::string& name) const {
  std::string text = "uint " + name + "_i = (i)";
  for (const auto& [target, strides] : targets) text += ", " + target + "_offset = 0u";
  text += ";";
  const std::string index = name + "_i";
  for (size_t i = sizes.size(); i-- > 0;) {
    const std::string n = name + "_n" + std::to_string(i);
    std::string coordinate = index;
    if (i > 0) {
      step.params.push_back(param(n, sizes[i]));
      text += " { uint q_ = " + index + " / " + n + "; uint c_ = " + index + " - q_ * " + n + "; " +
              index + " = q_;";
      coordinate = "c_";
    }
    for (const auto& [target, strides] : targets) {
      if (strides[i] == Expr(0)) continue;
      const std::string stride = name + "_" + target + std::to_string(i);
      step.params.push_back(param(stride, strides[i]));
      text += " " + target + "_offset += " + coordinate + " * " + stride + ";";
    }
    if (i > 0) text += " }";
  }
  step.defines.emplace_back(name + "_OFFSETS(i)", text);
}

std::string place_function(const NodeContext& c) {
  return checks_indices(c) ? "tv_place" : "tv_near";
}

Arg indices_from_front() { return attr_arg("wraps", false); }

bool index_wraps(const Node& node) { return !node.has("wraps") || node.flag("wraps"); }

bool checks_indices(const NodeContext& c) {
  return c.node.op.find("_unsafe_") == std::string::npos &&
         c.node.find("indices_of_nothing") == nullptr;
}

Arg indices_of_nothing() { return attr_arg("indices_of_nothing", true); }

bool is_used(const Graph& graph, ValueId value) {
  if (value == kNoValue) return false;
  // Views of a value are read in its place once layouts are chosen.
  const auto reads = [&](ValueId read) {
    const std::optional<View>& view = graph.value(read).view;
    return read == value || (view && view->base == value);
  };
  for (const GraphOutput& o : graph.outputs) {
    if (reads(o.value)) return true;
  }
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
    const std::vector<ValueId> inputs = n.all_inputs();
    return std::any_of(inputs.begin(), inputs.end(), reads);
  });
}

std::string loops_too_long(const NodeContext& c, const Expr& iterations) {
  const int64_t most = c.device.max_loop_iterations();
  if (iterations.bounds(c.graph.symbols).first <= most) return "";
  return "[" + c.node.op + "] " + iterations.str() + " loop iterations; " + c.device.name +
         " makes " + std::to_string(most);
}

std::string key_type(DType dtype) {
  return is_float(dtype) ? "float" : dtype == DType::kI64 ? "int64_t" : "int";
}

std::string floats_only(const NodeContext& c, const std::string& arg) {
  if (is_float(c.dtype(arg))) return "";
  return "[" + c.node.op + "] " + arg + " must be of a floating type; got " +
         std::string(name(c.dtype(arg)));
}

ValueId ExampleGraph::add_input(DType dtype, Shape shape) {
  Value v;
  v.name = "in" + std::to_string(graph_.inputs.size());
  v.dtype = dtype;
  v.shape = std::move(shape);
  v.kind = ValueKind::kInput;
  const ValueId id = graph_.add_value(std::move(v));
  graph_.inputs.push_back(id);
  return id;
}

ExampleGraph& ExampleGraph::input(std::string arg, DType dtype, Shape shape) {
  node_.args.push_back(tensor_arg(std::move(arg), add_input(dtype, std::move(shape))));
  return *this;
}

ExampleGraph& ExampleGraph::inputs(std::string arg, std::vector<std::pair<DType, Shape>> tensors) {
  std::vector<ValueId> ids;
  for (auto& [dtype, shape] : tensors) ids.push_back(add_input(dtype, std::move(shape)));
  node_.args.push_back(tensor_list_arg(std::move(arg), std::move(ids)));
  return *this;
}

ExampleGraph& ExampleGraph::attr(std::string arg, Attr value) {
  node_.args.push_back(attr_arg(std::move(arg), std::move(value)));
  return *this;
}

ExampleGraph& ExampleGraph::output(DType dtype, Shape shape) {
  const ValueId id = graph_.add_output(node_, dtype, std::move(shape));
  graph_.outputs.push_back(
      {.value = id, .name = "out" + std::to_string(graph_.outputs.size()), .strides = {}});
  return *this;
}

Graph ExampleGraph::graph() const {
  Graph g = graph_;
  g.name = node_.op;
  g.nodes.push_back(node_);
  return g;
}

Attr ints(std::vector<int64_t> values) { return std::vector<Expr>(values.begin(), values.end()); }
Attr integer(int64_t value) { return Expr(value); }

}  // namespace tv
