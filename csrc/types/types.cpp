#include "csrc/types/types.h"

#include <algorithm>
#include <sstream>

#include "csrc/types/fail.h"
#include "runtime/base/error.h"

namespace tv {

NodeTypes::NodeTypes(const Graph& graph, const Node& node, std::vector<Condition>& demands)
    : graph_(graph), node_(node), demands_(demands) {
  if (!node.op.starts_with("complex::")) return;
  std::istringstream names(node.text("complex"));
  for (std::string name; names >> name;) complex_.push_back(name);
}

bool NodeTypes::is_complex(std::string_view arg) const {
  return std::ranges::find(complex_, arg) != complex_.end();
}

Shape NodeTypes::shape_of(ValueId value, bool complex) const {
  Shape shape = graph_.value(value).shape;
  if (!complex) return shape;
  want(!shape.empty() && shape.back() == Expr(2), "a complex value has no pairs");
  shape.pop_back();
  return shape;
}

Shape NodeTypes::shape(std::string_view arg) const {
  const ValueId value = node_.input(arg);
  if (value == kNoValue) node_fails(node_, "argument '" + std::string(arg) + "' is missing");
  return shape_of(value, is_complex(arg));
}

DType NodeTypes::dtype(std::string_view arg) const {
  const ValueId value = node_.input(arg);
  if (value == kNoValue) node_fails(node_, "argument '" + std::string(arg) + "' is missing");
  return graph_.value(value).dtype;
}

std::vector<Shape> NodeTypes::shapes(std::string_view arg) const {
  std::vector<Shape> made;
  const std::vector<ValueId>& values = node_.inputs(arg);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool complex = is_complex(arg) || is_complex(std::string(arg) + "." + std::to_string(i));
    if (values[i] != kNoValue) made.push_back(shape_of(values[i], complex));
  }
  return made;
}

bool NodeTypes::has_result(size_t i) const {
  return i < node_.outputs.size() && node_.outputs[i] != kNoValue;
}

Shape NodeTypes::result(size_t i) const {
  want(has_result(i), "result " + std::to_string(i) + " is missing");
  return shape_of(node_.outputs[i], is_complex("result"));
}

DType NodeTypes::result_dtype(size_t i) const {
  want(has_result(i), "result " + std::to_string(i) + " is missing");
  return graph_.value(node_.outputs[i]).dtype;
}

int64_t NodeTypes::wrap(int64_t dim, int64_t rank) const {
  const int64_t range = std::max<int64_t>(rank, 1);
  want(dim >= -range && dim < range,
       "dim " + std::to_string(dim) + " is out of range for rank " + std::to_string(rank));
  return dim < 0 ? dim + range : dim;
}

int64_t NodeTypes::integer(std::string_view arg, int64_t otherwise) const {
  const std::optional<int64_t> value = expr(arg, otherwise).constant();
  want(value.has_value(), "argument '" + std::string(arg) + "' depends on sizes");
  return *value;
}

Expr NodeTypes::expr(std::string_view arg, const Expr& otherwise) const {
  return node_.has(arg) ? node_.expr(arg) : otherwise;
}

std::vector<Expr> NodeTypes::list(std::string_view arg, size_t length) const {
  std::vector<Expr> items = node_.exprs(arg);
  if (items.size() == 1) items.resize(length, items[0]);
  want(items.size() == length, "argument '" + std::string(arg) + "' has " +
                                   std::to_string(items.size()) + " items, want " +
                                   std::to_string(length));
  return items;
}

void NodeTypes::want(bool holds, const std::string& what) const {
  if (!holds) node_fails(node_, what);
}

bool NodeTypes::demand(Relation relation, const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) {
    const int64_t left = a.constant().value(), right = b.constant().value();
    return relation == Relation::kEqual ? left == right : left >= right;
  }
  Condition condition{relation, a, b, "[" + node_.op + " \"" + node_.name + "\"]"};
  const std::optional<bool> decided = condition.decided(graph_.symbols);
  if (!decided) demands_.push_back(std::move(condition));
  return decided.value_or(true);
}

void NodeTypes::equal(const Expr& a, const Expr& b, const std::string& what) {
  if (a == b) return;
  want(demand(Relation::kEqual, a, b), what + " is " + a.str() + ", want " + b.str());
}

void NodeTypes::equal(const Shape& got, const Shape& wanted, const std::string& what) {
  want(got.size() == wanted.size(),
       what + " is of shape " + shape_text(got) + ", want " + shape_text(wanted));
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == wanted[i]) continue;
    want(demand(Relation::kEqual, got[i], wanted[i]),
         what + " is of shape " + shape_text(got) + ", want " + shape_text(wanted));
  }
}

void NodeTypes::at_least(const Expr& a, const Expr& b, const std::string& what) {
  want(demand(Relation::kAtLeast, a, b), what + " is " + a.str() + ", want at least " + b.str());
}

void NodeTypes::positive(const std::vector<Expr>& numbers, const std::string& what) {
  for (const Expr& number : numbers) at_least(number, 1, what);
}

Shape NodeTypes::broadcast(const Shape& a, const Shape& b, const std::string& what) const {
  Shape made = a.size() >= b.size() ? a : b;
  const Shape& other = a.size() >= b.size() ? b : a;
  for (size_t i = 1; i <= other.size(); ++i) {
    Expr& size = made[made.size() - i];
    const Expr& its = other[other.size() - i];
    if (its == Expr(1) || size == its) continue;
    want(size == Expr(1), what + " is " + its.str() + ", want " + size.str() + " or 1");
    size = its;
  }
  return made;
}

void NodeTypes::spreads(const Shape& shape, const Shape& to, const std::string& what) const {
  const std::string message =
      what + " of shape " + shape_text(shape) + " does not broadcast to " + shape_text(to);
  want(shape.size() <= to.size(), message);
  for (size_t i = 1; i <= shape.size(); ++i) {
    const Expr &size = shape[shape.size() - i], &its = to[to.size() - i];
    want(size == Expr(1) || size == its, message);
  }
}

void NodeTypes::gives(const Shape& shape, size_t i) {
  if (!has_result(i)) return;
  const std::string which = results() > 1 ? "result " + std::to_string(i) : "the result";
  equal(result(i), shape, which);
}

TypeRule operator&(TypeRule a, TypeRule b) {
  return [a = std::move(a), b = std::move(b)](NodeTypes& t) {
    a(t);
    b(t);
  };
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const Expr& size : shape) text += (text.size() > 1 ? ", " : "") + size.str();
  return text + "]";
}

}  // namespace tv
