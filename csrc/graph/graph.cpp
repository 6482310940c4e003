#include "csrc/graph/graph.h"

#include "runtime/base/error.h"

namespace tv {
namespace {

std::string describe(const Node& node, std::string_view arg_name) {
  return "[" + node.op + "] argument '" + std::string(arg_name) + "' of node '" + node.name + "'";
}

[[noreturn]] void wrong_kind(const Node& node, std::string_view arg_name, const char* want) {
  throw Error(ErrorKind::kInternal, describe(node, arg_name) + " has the wrong kind; want " + want);
}

int64_t constant_of(const Node& node, std::string_view arg_name, const Expr& e) {
  const std::optional<int64_t> value = e.constant();
  if (!value) {
    throw Error(
        ErrorKind::kUnsupported,
        describe(node, arg_name) + " must be known when the engine is built; got " + e.str());
  }
  return *value;
}

}  // namespace

const Arg* Node::find(std::string_view arg_name) const {
  for (const Arg& a : args) {
    if (a.name == arg_name) return &a;
  }
  return nullptr;
}

const Arg& Node::arg(std::string_view arg_name) const {
  const Arg* found = find(arg_name);
  if (!found) throw Error(ErrorKind::kInternal, describe(*this, arg_name) + " is missing");
  return *found;
}

bool Node::has(std::string_view arg_name) const {
  const Arg* a = find(arg_name);
  if (!a) return false;
  if (a->is_tensor) return a->is_list || (!a->values.empty() && a->values.front() != kNoValue);
  return !std::holds_alternative<std::monostate>(a->attr);
}

ValueId Node::input(std::string_view arg_name) const {
  const Arg* a = find(arg_name);
  if (!a) return kNoValue;
  if (!a->is_tensor) {
    if (std::holds_alternative<std::monostate>(a->attr)) return kNoValue;
    wrong_kind(*this, arg_name, "a tensor");
  }
  return a->values.empty() ? kNoValue : a->values.front();
}

const std::vector<ValueId>& Node::inputs(std::string_view arg_name) const {
  static const std::vector<ValueId> none;
  const Arg* a = find(arg_name);
  return a ? a->values : none;
}

Expr Node::expr(std::string_view arg_name) const {
  const Attr& attr = arg(arg_name).attr;
  if (const auto* e = std::get_if<Expr>(&attr)) return *e;
  if (const auto* b = std::get_if<bool>(&attr)) return Expr(*b ? 1 : 0);
  wrong_kind(*this, arg_name, "an integer");
}

int64_t Node::integer(std::string_view arg_name) const {
  return constant_of(*this, arg_name, expr(arg_name));
}

double Node::number(std::string_view arg_name) const {
  const Attr& attr = arg(arg_name).attr;
  if (const auto* d = std::get_if<double>(&attr)) return *d;
  return static_cast<double>(integer(arg_name));
}

bool Node::flag(std::string_view arg_name) const {
  if (!has(arg_name)) return false;
  return integer(arg_name) != 0;
}

std::string Node::text(std::string_view arg_name) const {
  const auto* s = std::get_if<std::string>(&arg(arg_name).attr);
  if (!s) wrong_kind(*this, arg_name, "text");
  return *s;
}

std::vector<Expr> Node::exprs(std::string_view arg_name) const {
  if (!has(arg_name)) return {};
  const Attr& attr = arg(arg_name).attr;
  if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) return *list;
  if (const auto* flags = std::get_if<std::vector<bool>>(&attr)) {
    std::vector<Expr> out;
    for (const bool b : *flags) out.emplace_back(b ? 1 : 0);
    return out;
  }
  // An empty list says nothing about the type of its elements.
  const auto* numbers = std::get_if<std::vector<double>>(&attr);
  if (numbers && numbers->empty()) return {};
  return {expr(arg_name)};
}

std::vector<int64_t> Node::integers(std::string_view arg_name) const {
  std::vector<int64_t> out;
  for (const Expr& e : exprs(arg_name)) out.push_back(constant_of(*this, arg_name, e));
  return out;
}

std::vector<ValueId> Node::all_inputs() const {
  std::vector<ValueId> out;
  const auto add = [&](const std::vector<ValueId>& values) {
    for (const ValueId v : values) {
      if (v != kNoValue) out.push_back(v);
    }
  };
  for (const Arg& a : args) {
    // A fused prologue replaces the value of the argument that it computes.
    if (a.is_tensor && !(prologue && a.name == prologue_arg)) add(a.values);
  }
  add(epilogue_inputs);
  add(prologue_inputs);
  return out;
}

std::vector<ValueId> Node::waits_for() const {
  std::vector<ValueId> out = all_inputs();
  out.insert(out.end(), origin.after.begin(), origin.after.end());
  return out;
}

ValueId Graph::add_value(Value v) {
  values.push_back(std::move(v));
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_output(Node& node, DType dtype, Shape shape) {
  std::string value_name = node.name;
  if (!node.outputs.empty()) value_name += "." + std::to_string(node.outputs.size());
  const ValueId id = add_value({.name = std::move(value_name),
                                .dtype = dtype,
                                .shape = std::move(shape),
                                .kind = ValueKind::kNode,
                                .view = std::nullopt});
  node.outputs.push_back(id);
  return id;
}

std::vector<int32_t> producers(const Graph& graph) {
  std::vector<int32_t> out(graph.values.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId v : graph.nodes[n].outputs) {
      if (v != kNoValue) out.at(v) = static_cast<int32_t>(n);
    }
  }
  return out;
}

std::vector<std::vector<int32_t>> consumers(const Graph& graph) {
  std::vector<std::vector<int32_t>> out(graph.values.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId v : graph.nodes[n].all_inputs()) {
      std::vector<int32_t>& readers = out.at(v);
      if (readers.empty() || readers.back() != static_cast<int32_t>(n)) {
        readers.push_back(static_cast<int32_t>(n));
      }
    }
  }
  return out;
}

Arg tensor_arg(std::string name, ValueId value) {
  return {
      .name = std::move(name), .is_tensor = true, .is_list = false, .values = {value}, .attr = {}};
}

Arg tensor_list_arg(std::string name, std::vector<ValueId> values) {
  return {.name = std::move(name),
          .is_tensor = true,
          .is_list = true,
          .values = std::move(values),
          .attr = {}};
}

Arg attr_arg(std::string name, Attr attr) {
  return {.name = std::move(name),
          .is_tensor = false,
          .is_list = false,
          .values = {},
          .attr = std::move(attr)};
}

}  // namespace tv
