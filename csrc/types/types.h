#pragma once
// What operators want of the shapes and dtypes of their operands and results.

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// The types of one node, for its rule. Sizes of complex values are those that torch sees, without
/// the pair. What is wrong is an Error(kUser) that names the node; what depends on symbols becomes
/// a demand.
class NodeTypes {
 public:
  NodeTypes(const Graph& graph, const Node& node, std::vector<Condition>& demands);

  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }

  bool has(std::string_view arg) const { return node_.has(arg); }
  bool is_complex(std::string_view arg) const;  ///< or "result"
  Shape shape_of(ValueId value, bool complex) const;
  Shape shape(std::string_view arg) const;  ///< of a tensor argument, which must be there
  DType dtype(std::string_view arg) const;
  std::vector<Shape> shapes(std::string_view arg) const;  ///< of a list, without None
  size_t results() const { return node_.outputs.size(); }
  bool has_result(size_t i) const;
  Shape result(size_t i = 0) const;  ///< must be there
  DType result_dtype(size_t i = 0) const;

  int64_t rank(std::string_view arg) const { return static_cast<int64_t>(shape(arg).size()); }
  /// In [0, rank); of a scalar 0.
  int64_t wrap(int64_t dim, int64_t rank) const;
  /// Argument `arg`, or `otherwise` where it is None or absent.
  int64_t integer(std::string_view arg, int64_t otherwise) const;
  Expr expr(std::string_view arg, const Expr& otherwise) const;
  /// A list of `length` items, of which there may be one for all.
  std::vector<Expr> list(std::string_view arg, size_t length) const;

  void want(bool holds, const std::string& what) const;
  void equal(const Expr& a, const Expr& b, const std::string& what);
  void equal(const Shape& got, const Shape& want, const std::string& what);
  void at_least(const Expr& a, const Expr& b, const std::string& what);
  void positive(const std::vector<Expr>& numbers, const std::string& what);
  /// As torch broadcasts. Sizes that depend on symbols have to be the same expression here: nothing
  /// says which of them is 1 otherwise (broadcast_strides).
  Shape broadcast(const Shape& a, const Shape& b, const std::string& what) const;
  /// That `shape` broadcasts to `to`.
  void spreads(const Shape& shape, const Shape& to, const std::string& what) const;
  /// That a result that somebody reads has this shape.
  void gives(const Shape& shape, size_t result = 0);

 private:
  bool demand(Relation relation, const Expr& a, const Expr& b);

  const Graph& graph_;
  const Node& node_;
  std::vector<Condition>& demands_;
  std::vector<std::string> complex_;
};

/// What an operator wants, as a function or as text. Empty: nothing is said.
///
/// As text: "self T[m k], mat2 T[k n], bias ~[m n] -> T[m n]". Equal names stand for equal
/// sizes, and equal capitals before a bracket for equal dtypes; a lower-case letter is a kind of
/// dtype (f: floats, i: integers, b: bool). "." is any size, "*" any number of sizes, "*s" a named
/// list of sizes, "*s{1,2}" of one or two; "~" means that it broadcasts to what follows. Operands
/// that are None, and results that nobody reads, are passed over; of a list each tensor counts.
/// Alternatives are separated by "|". The text is read when a node is first checked by it.
class TypeRule {
 public:
  TypeRule() = default;
  TypeRule(std::string text);  // NOLINT: `.types = "…"`
  TypeRule(const char* text) : TypeRule(std::string(text)) {}
  template <std::invocable<NodeTypes&> Rule>
    requires(!std::same_as<Rule, TypeRule>)
  TypeRule(Rule rule) : rule_(std::move(rule)) {}

  explicit operator bool() const { return static_cast<bool>(rule_); }
  void operator()(NodeTypes& types) const { rule_(types); }

 private:
  std::function<void(NodeTypes&)> rule_;
};

/// Both.
TypeRule operator&(TypeRule a, TypeRule b);

std::string shape_text(const Shape& shape);

}  // namespace tv
