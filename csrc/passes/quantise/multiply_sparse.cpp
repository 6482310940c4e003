#include "csrc/passes/quantise/multiply_sparse.h"

#include <algorithm>
#include <optional>
#include <set>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/integer_operand.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/kit/product_operands.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

/// Up to so many rows a product waits for its weight: what fewer bytes save is more than what it
/// takes to put the zeros back. Beyond, matrix units multiply the dense weight faster: 4 rows took
/// 1.8 and 3.6 times as long on an H100 (benchmarks/quantised.py, 4096x14336 and 14336x4096).
constexpr int64_t kMostRows = 1;
constexpr int64_t kMultiple = 8;  // of k: a byte of the index

/// A product of floats with a constant matrix.
struct Found {
  ProductOperands product;
  size_t along = 0;  ///< the dimension of the matrix that is summed
  int64_t k = 0;
};

std::optional<Found> found_of(const Graph& graph, const std::vector<bool>& constant,
                              const Node& node) {
  const auto product = product_of(node);
  if (!product || product->a == kNoValue || product->b == kNoValue) return std::nullopt;
  const Value &a = graph.value(product->a), &b = graph.value(product->b);
  const bool floats = is_float(b.dtype) && b.dtype != DType::kF64 && a.dtype == b.dtype;
  if (!floats || b.shape.size() != 2 || a.shape.empty()) return std::nullopt;
  if (constant[static_cast<size_t>(product->a)] || !constant[static_cast<size_t>(product->b)]) {
    return std::nullopt;
  }
  const size_t along = product->b_by_steps ? 0 : 1;
  const auto k = b.shape[along].constant();
  if (!k || !b.shape[1 - along].constant()) return std::nullopt;
  return Found{*product, along, *k};
}

/// Rows of a product at usual sizes.
int64_t rows_of(const Graph& graph, ValueId a) {
  const Shape& shape = graph.value(a).shape;
  std::vector<int64_t> usual;
  for (const Symbol& symbol : graph.symbols) usual.push_back(symbol.opt);
  return product(std::span(shape).first(shape.size() - 1)).eval(usual);
}

/// The weights of the graph that a value is made of.
void add_leaves(const Graph& graph, const std::vector<int32_t>& made_by, ValueId value,
                std::set<ValueId>& leaves) {
  const int32_t maker = made_by[static_cast<size_t>(value)];
  if (maker < 0) {
    leaves.insert(value);
    return;
  }
  for (const ValueId read : graph.nodes[static_cast<size_t>(maker)].all_inputs()) {
    add_leaves(graph, made_by, read, leaves);
  }
}

class Chooser {
 public:
  Chooser(const Graph& graph, const DeviceProfile& device, const GraphUs& us)
      : graph_(graph),
        device_(device),
        us_(us),
        constant_(constant_values(graph)),
        made_by_(producers(graph)) {}

  void look_at(const Node& node) {
    const auto found = found_of(graph_, constant_, node);
    if (!found) return;
    std::set<ValueId> leaves;
    add_leaves(graph_, made_by_, found->product.b, leaves);
    const std::string reason = why_dense(node, *found);
    if (!reason.empty()) dense_.insert(leaves.begin(), leaves.end());
    products_.push_back({&node, std::move(leaves), reason});
  }

  /// Weights that are to be dense. A weight that one product reads so is dense for all.
  const std::set<ValueId>& dense() const { return dense_; }

  std::vector<SparseOutcome> outcomes() const {
    std::vector<SparseOutcome> outcomes;
    for (const auto& [node, leaves, reason] : products_) {
      std::string outcome = reason.empty() ? "read as 2:4 sparse" : "read dense: " + reason;
      const bool shared =
          std::ranges::any_of(leaves, [&](ValueId v) { return dense_.contains(v); });
      if (reason.empty() && shared) outcome = "read dense: another product reads the weight so";
      const ValueId first = leaves.empty() ? kNoValue : *leaves.begin();
      outcomes.push_back({first == kNoValue ? "" : graph_.value(first).name, node->source,
                          node->module_path, std::move(outcome)});
    }
    return outcomes;
  }

 private:
  struct Looked {
    const Node* node;
    std::set<ValueId> leaves;
    std::string reason;
  };

  std::string why_dense(const Node& node, const Found& found) const {
    if (found.k % kMultiple != 0) {
      return "rows of " + std::to_string(found.k) + " elements; want a multiple of 8";
    }
    if (!is_two_four(graph_, made_by_, found.product.b, found.along)) {
      return "of four neighbours in a row more than two are not zero";
    }
    if (!device_.storage8) return "the device has no 8-bit storage";
    if (device_.is_cpu()) return "CPU drivers multiply dense weights faster";
    return us_ ? by_time(node, found) : by_rule(found);
  }

  std::string by_rule(const Found& found) const {
    const int64_t rows = rows_of(graph_, found.product.a);
    if (rows <= kMostRows) return "";
    return std::to_string(rows) + " rows are multiplied by it; by rule only one gains";
  }

  /// The node as a product with the matrix as it lies, where it reads it transposed.
  Node of_stored(const Node& node, const Found& found) const {
    const ProductOperands& p = found.product;
    const int32_t maker = made_by_[static_cast<size_t>(p.b)];
    const bool row = p.bias == kNoValue || graph_.rank(p.bias) == 1;
    const Node* swap = maker < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(maker)];
    if (found.along == 1 || !row || !swap || !swaps_dimensions(*swap)) return node;
    Node linear = node;
    linear.op = "aten::linear";
    linear.args = {tensor_arg("input", p.a), tensor_arg("weight", swap->input("self")),
                   tensor_arg("bias", p.bias)};
    return linear;
  }

  std::string by_time(const Node& node, const Found& found) const {
    Graph dense = node_alone(graph_, constant_, of_stored(node, found));
    const auto alone = found_of(dense, constant_values(dense), dense.nodes[0]);
    if (!alone) return by_rule(found);
    for (const ValueId weight : dense.weights) dense.value(weight).two_four = 0;
    Graph sparse = dense;
    sparse.value(alone->product.b).two_four = static_cast<uint8_t>(1U << alone->along);
    const std::optional<double> sparse_us = us_(std::move(sparse));
    const std::optional<double> dense_us = sparse_us ? us_(std::move(dense)) : std::nullopt;
    if (!dense_us) return by_rule(found);
    return *sparse_us < *dense_us ? "" : "measured to be faster";
  }

  const Graph& graph_;
  const DeviceProfile& device_;
  const GraphUs& us_;
  const std::vector<bool> constant_;
  const std::vector<int32_t> made_by_;
  std::vector<Looked> products_;
  std::set<ValueId> dense_;
};

bool has_marks(const Graph& graph) {
  return std::ranges::any_of(graph.weights,
                             [&](ValueId v) { return graph.value(v).two_four != 0; });
}

/// The product as nodes.
ValueId multiplied(Rewriter& rw, const Found& found, DType dtype) {
  const ProductOperands& product = found.product;
  const Value weight = rw.graph().value(product.b);
  const Shape given = rw.graph().value(product.a).shape;
  const ValueId b = found.along == 1 ? product.b : rw.permute(product.b, {1, 0});
  const Expr n = weight.shape[1 - found.along], k = found.k;
  const std::vector<ValueId> packed =
      rw.add_multi("tv::pack_two_four", {tensor_arg("b", b)},
                   {{weight.dtype, {n, floordiv(k, 2)}}, {DType::kU8, {n, floordiv(k, 8)}}});
  const Expr rows = tv::product(std::span(given).first(given.size() - 1));
  // 16-bit sums are rounded once, behind the bias.
  const DType sums = product.bias == kNoValue ? dtype : DType::kF32;
  ValueId out = rw.add("tv::matmul_sparse",
                       {tensor_arg("a", rw.reshape(product.a, {rows, k})),
                        tensor_arg("values", packed[0]), tensor_arg("index", packed[1])},
                       sums, {rows, n});
  if (product.bias != kNoValue) out = rw.pointwise("add", {out, product.bias}, sums);
  return rw.cast(out, dtype);
}

}  // namespace

bool is_two_four(const Graph& graph, const std::vector<int32_t>& made_by, ValueId value,
                 size_t dim) {
  const Value& v = graph.value(value);
  if (v.shape.size() != 2 || !is_float(v.dtype)) return false;
  const int32_t maker = made_by[static_cast<size_t>(value)];
  if (maker < 0) return v.kind == ValueKind::kWeight && (v.two_four >> dim & 1) != 0;
  const Node& node = graph.nodes[static_cast<size_t>(maker)];
  const auto is_so = [&](ValueId part, size_t along) {
    return is_two_four(graph, made_by, part, along);
  };
  if (swaps_dimensions(node)) return is_so(node.input("self"), 1 - dim);
  if (keeps_values(node)) return is_so(node.all_inputs().at(0), dim);
  if (node.op != "aten::cat") return false;
  const int64_t joined = node.integer("dim");
  if (static_cast<size_t>(joined < 0 ? joined + 2 : joined) == dim) return false;
  return std::ranges::all_of(node.inputs("tensors"), [&](ValueId v) { return is_so(v, dim); });
}

std::vector<SparseCandidate> candidates_of(const Graph& graph) {
  const std::vector<bool> constant = constant_values(graph);
  const std::vector<int32_t> made_by = producers(graph);
  std::vector<SparseCandidate> candidates;
  for (const Node& node : graph.nodes) {
    const auto found = found_of(graph, constant, node);
    if (!found || found->k % kMultiple != 0) continue;
    SparseCandidate candidate{found->product.b, found->along};
    int32_t maker = made_by[static_cast<size_t>(candidate.weight)];
    while (maker >= 0) {
      const Node& from = graph.nodes[static_cast<size_t>(maker)];
      const bool swaps = swaps_dimensions(from);
      if (!swaps && !keeps_values(from)) break;
      if (swaps) candidate.along = 1 - candidate.along;
      candidate.weight = from.all_inputs().at(0);
      maker = made_by[static_cast<size_t>(candidate.weight)];
    }
    const bool known = std::ranges::any_of(
        candidates, [&](const SparseCandidate& c) { return c.weight == candidate.weight; });
    if (maker < 0 && !known) candidates.push_back(candidate);
  }
  return candidates;
}

Graph choose_sparse(Graph graph, const DeviceProfile& device, const GraphUs& us,
                    std::vector<SparseOutcome>* outcomes) {
  if (!outcomes && !has_marks(graph)) return graph;
  Chooser chooser(graph, device, us);
  for (const Node& node : graph.nodes) chooser.look_at(node);
  if (outcomes) *outcomes = chooser.outcomes();
  const std::set<ValueId> dense = chooser.dense();
  for (const ValueId weight : dense) graph.value(weight).two_four = 0;
  return graph;
}

Graph multiply_sparse(Graph graph) {
  if (!has_marks(graph)) return graph;
  const std::vector<bool> constant = constant_values(graph);
  const std::vector<int32_t> made_by = producers(graph);
  const std::vector<Node> nodes = graph.nodes;
  const Graph before = graph;
  std::vector<Node> out;
  Replacements replaced;
  for (const Node& node : nodes) {
    const auto found = found_of(before, constant, node);
    if (!found || found->k % kMultiple != 0 ||
        !is_two_four(before, made_by, found->product.b, found->along)) {
      out.push_back(node);
      continue;
    }
    Rewriter rw(graph, node, out);
    const Value result = before.value(node.outputs[0]);
    const ValueId made = multiplied(rw, *found, result.dtype);
    replaced.add(node.outputs[0], rw.reshape(made, result.shape));
  }
  graph.nodes = std::move(out);
  replaced.apply(graph);
  make_names_unique(graph);
  return graph;
}

}  // namespace tv
