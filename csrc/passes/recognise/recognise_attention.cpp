#include "csrc/passes/recognise/recognise_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "csrc/graph/edit.h"
#include "csrc/graph/provenance.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/kit/safe_softmax.h"
#include "csrc/passes/simplify/simplify.h"

namespace tv {
namespace {

/// What the pieces say, from the last product to the first.
struct Attention {
  ValueId query = kNoValue, key_transposed = kNoValue, value = kNoValue, mask = kNoValue;
  const Node* first = nullptr;  ///< the product of queries and keys
  std::vector<ValueId> factors, divisors;
  double scale = 1;
  double softcap = 0;            ///< c of c · tanh(scores / c); 0: not capped
  std::string rows = "softmax";  ///< what rows of hidden keys alone give
  size_t reads_of_scores = 1;
};

class AttentionRecogniser {
 public:
  AttentionRecogniser(Graph graph, const std::function<bool(const Node&)>& is_apart)
      : graph_(std::move(graph)),
        is_apart_(is_apart),
        constant_(constant_values(graph_)),
        made_by_(producers(graph_)),
        read_by_(consumers(graph_)) {}

  Graph run() {
    nodes_ = std::move(graph_.nodes);
    bool any = false;
    for (const Node& node : nodes_) {
      const bool can_be_last = is_product(node) && !is_apart(node);
      const auto found = can_be_last ? attention(node) : std::nullopt;
      if (found) {
        emit(node, *found);
        any = true;
      } else {
        graph_.nodes.push_back(node);
      }
    }
    if (!any) return std::move(graph_);
    make_names_unique(graph_);
    return simplify(std::move(graph_));  // the pieces
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }
  DType dtype(ValueId v) const { return graph_.value(v).dtype; }
  bool is_apart(const Node& node) const { return is_apart_ && is_apart_(node); }

  /// Whether the graph came with it: the tables know nothing of values that are appended.
  bool is_given(ValueId v) const {
    return v != kNoValue && static_cast<size_t>(v) < made_by_.size();
  }

  const Node* maker(ValueId v) const {
    const int32_t at = is_given(v) ? made_by_[static_cast<size_t>(v)] : -1;
    const Node* node = at < 0 ? nullptr : &nodes_[static_cast<size_t>(at)];
    return node && !is_apart(*node) ? node : nullptr;
  }

  /// Whether nothing but `readers` nodes needs the value.
  bool only_for(ValueId v, size_t readers) const {
    const bool output = std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                                    [&](const GraphOutput& o) { return o.value == v; });
    return !output && is_given(v) && read_by_[static_cast<size_t>(v)].size() == readers;
  }

  /// An attribute that no size decides.
  static std::optional<double> number(const Node& node, const char* name) {
    const auto* size = std::get_if<Expr>(&node.arg(name).attr);
    if (size && !size->is_constant()) return std::nullopt;
    return node.number(name);
  }

  static bool is_product(const Node& node) {
    return node.op == "aten::matmul" || node.op == "aten::bmm";
  }
  static ValueId right(const Node& product) {
    return product.input(product.op == "aten::bmm" ? "mat2" : "other");
  }

  /// Through changes between floating dtypes.
  ValueId uncast(ValueId v) const {
    for (const Node* node = maker(v); node && node->op == "aten::_to_copy"; node = maker(v)) {
      const ValueId from = node->input("self");
      if (!is_float(dtype(from)) || !only_for(v, 1)) return v;
      v = from;
    }
    return v;
  }

  // The last product, the softmax and what lies between.

  std::optional<Attention> attention(const Node& last) const {
    Attention a{.value = right(last)};
    const ValueId weights = last.input("self");
    const size_t rank = shape(weights).size();
    if (rank < 3 || rank > 4 || shape(a.value).size() != rank) return std::nullopt;
    const auto scores = scores_of(weights, a);
    if (!scores || !only_for(*scores, a.reads_of_scores) || !product_of(*scores, a)) {
      return std::nullopt;
    }
    return fits(a, last.outputs[0]) ? std::optional(std::move(a)) : std::nullopt;
  }

  /// What the softmax is of, where `weights` is one along the last dimension.
  std::optional<ValueId> scores_of(ValueId weights, Attention& a) const {
    if (!only_for(weights, 1)) return std::nullopt;
    ValueId v = uncast(weights);
    const Node* node = maker(v);
    size_t reads = 1;
    if (const auto kept = number_or_zero(node)) {
      a.rows = "nan_is_zero";
      v = *kept;
      node = maker(v);
      reads = 2;
    } else if (const SafeSoftmax safe =
                   safe_softmax(node, [&](ValueId made) { return maker(made); });
               safe.softmax) {
      a.rows = "zeros";
      node = safe.softmax;
      v = node->outputs[0];
      reads = safe.reads;
      a.reads_of_scores = 2;
    }
    if (!node || node->op != "aten::_softmax") return std::nullopt;
    const auto rank = static_cast<int64_t>(shape(v).size()), dim = node->integer("dim");
    if (dim != -1 && dim != rank - 1) return std::nullopt;
    return only_for(v, reads) ? std::optional(node->input("self")) : std::nullopt;
  }

  /// p of where(isnan(p), 0, p).
  std::optional<ValueId> number_or_zero(const Node* node) const {
    if (!node || node->op != "aten::where.self") return std::nullopt;
    const ValueId p = node->input("other");
    const Node* test = maker(node->input("condition"));
    const bool of_p = test && test->op == "aten::isnan" && test->input("self") == p &&
                      only_for(node->input("condition"), 1);
    return of_p && is_filled(node->input("self"), 0) ? std::optional(p) : std::nullopt;
  }

  bool is_filled(ValueId v, double with) const {
    const Node* node = maker(v);
    return node && node->op == "aten::full" && number(*node, "fill_value") == with;
  }

  // From the scores to the first product: a mask is added, or not, to what is scaled.

  bool product_of(ValueId scores, Attention& a) const {
    ValueId v = scores;
    bool scaled = false;
    for (;;) {
      if (v != scores && !only_for(v, 1)) return false;
      v = uncast(v);
      const Node* node = maker(v);
      if (!node) return false;
      if (is_product(*node)) return operands_of(*node, a);
      if (const auto whole = unscaled(v, a)) {
        v = *whole;
        scaled = true;
        continue;
      }
      if (node->op == "aten::tanh" && caps(a)) {
        a.softcap = std::exchange(a.scale, 1);
        v = node->input("self");
        scaled = true;
        continue;
      }
      if (scaled || a.mask != kNoValue || node->op != "aten::add.Tensor") return false;
      return masked(*node, a);
    }
  }

  /// Whether what was multiplied with so far is the number that caps.
  static bool caps(const Attention& a) {
    return a.softcap == 0 && a.scale > 0 && a.factors.empty() && a.divisors.empty();
  }

  bool masked(const Node& sum, Attention& a) const {
    if (sum.has("alpha") && number(sum, "alpha") != 1.0) return false;
    const ValueId self = sum.input("self"), other = sum.input("other");
    if (self == kNoValue || other == kNoValue || self == other) return false;
    for (const bool swapped : {false, true}) {
      Attention tried = a;
      const ValueId scores = swapped ? other : self;
      tried.mask = swapped ? self : other;
      const bool same = shape(scores) == shape(sum.outputs[0]) && is_float(dtype(tried.mask));
      if (!same || !product_of(scores, tried)) continue;
      a = std::move(tried);
      return true;
    }
    return false;
  }

  bool operands_of(const Node& first, Attention& a) const {
    a.first = &first;
    a.query = without_scale(first.input("self"), a);
    a.key_transposed = without_scale(right(first), a);
    return true;
  }

  ValueId without_scale(ValueId v, Attention& a) const {
    for (auto whole = unscaled(v, a); whole; whole = unscaled(v, a)) v = *whole;
    return v;
  }

  /// What `v` is a multiple of, by a number or one constant element, which `a` then has.
  std::optional<ValueId> unscaled(ValueId v, Attention& a) const {
    const Node* node = maker(v);
    if (!node) return std::nullopt;
    const bool times = node->op == "aten::mul.Tensor" || node->op == "aten::mul.Scalar";
    const bool over = node->op == "aten::div.Tensor" || node->op == "aten::div.Scalar";
    if (!times && !over) return std::nullopt;
    ValueId whole = node->input("self");
    if (!node->arg("other").is_tensor) {
      const auto by = number(*node, "other");
      if (!by || !std::isfinite(*by) || *by == 0) return std::nullopt;
      const auto same = same_type(whole, v);
      if (same) a.scale = times ? a.scale * *by : a.scale / *by;
      return same;
    }
    ValueId by = node->input("other");
    if (times && is_one_constant(whole, v)) std::swap(whole, by);
    if (!is_one_constant(by, v) || !same_type(whole, v)) return std::nullopt;
    (times ? a.factors : a.divisors).push_back(by);
    return whole;
  }

  bool is_one_constant(ValueId v, ValueId of) const {
    return is_given(v) && constant_[static_cast<size_t>(v)] && is_float(dtype(v)) &&
           shape(v).size() <= shape(of).size() &&
           std::all_of(shape(v).begin(), shape(v).end(),
                       [](const Expr& size) { return size == Expr(1); });
  }

  std::optional<ValueId> same_type(ValueId whole, ValueId v) const {
    const bool same = dtype(whole) == dtype(v) && shape(whole) == shape(v);
    return same ? std::optional(whole) : std::nullopt;
  }

  /// Whether shapes and dtypes are those of heads that attend.
  bool fits(const Attention& a, ValueId out) const {
    const Shape &q = shape(a.query), &k = shape(a.key_transposed), &v = shape(a.value);
    const size_t rank = q.size();
    if (k.size() != rank || v.size() != rank || shape(out).size() != rank) return false;
    const DType type = dtype(a.query);
    const bool types = is_float(type) && type != DType::kF64 && dtype(a.key_transposed) == type &&
                       dtype(a.value) == type && dtype(out) == type;
    if (!types || !(k[rank - 2] == q[rank - 1]) || !(v[rank - 2] == k[rank - 1])) return false;
    for (size_t i = 0; i + 2 < rank; ++i) {
      const auto fits = [&](const Expr& n) { return n == q[i] || n == Expr(1); };
      if (!(shape(out)[i] == q[i]) || !fits(k[i]) || !fits(v[i])) return false;
    }
    // Heads that share keys share values, too.
    if (!(k[rank - 3] == v[rank - 3])) return false;
    // A size that may be 1 and is broadcast must not be one that is taken for equal.
    return a.mask == kNoValue || fits_scores(shape(a.mask), q, k[rank - 1]);
  }

  static bool fits_scores(const Shape& mask, Shape scores, const Expr& keys) {
    scores.back() = keys;
    if (mask.size() > scores.size()) return false;
    for (size_t i = 1; i <= mask.size(); ++i) {
      const Expr& size = mask[mask.size() - i];
      if (!(size == Expr(1)) && !(size == scores[scores.size() - i])) return false;
    }
    return true;
  }

  // The other way round.

  void emit(const Node& last, const Attention& a) {
    Attention whole = a;
    const ValueId key = without_scale(key_of(last, whole.key_transposed), whole);
    const bool causal = is_causal(a.mask);
    const ValueId factor = factor_of(last, whole);
    Node node = node_for(last, "tv::softmax_attention", "");
    node.module_path = common_module(a.first->module_path, last.module_path);
    const auto optional = [](const char* name, ValueId v) {
      return v == kNoValue ? attr_arg(name, std::monostate{}) : tensor_arg(name, v);
    };
    node.args = {tensor_arg("query", a.query),  tensor_arg("key", key),
                 tensor_arg("value", a.value),  optional("attn_mask", causal ? kNoValue : a.mask),
                 optional("factor", factor),    attr_arg("scale", whole.scale),
                 attr_arg("is_causal", causal), attr_arg("rows", a.rows),
                 attr_arg("softcap", a.softcap)};
    node.outputs = last.outputs;  // readers stay as they are
    graph_.nodes.push_back(std::move(node));
  }

  /// The keys as rows: what was transposed, or a transposed view.
  ValueId key_of(const Node& reader, ValueId v) {
    if (const auto rows = untransposed(v)) return *rows;
    if (const auto rows = untransposed_as_matrices(v)) return *rows;
    Shape rows = shape(v);
    std::vector<Expr> dims;
    for (size_t i = 0; i < rows.size(); ++i) dims.emplace_back(static_cast<int64_t>(i));
    std::swap(rows[rows.size() - 1], rows[rows.size() - 2]);
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    Node node = node_for(reader, "aten::permute", "_keys");
    node.args = {tensor_arg("self", v), attr_arg("dims", std::move(dims))};
    return append(graph_, std::move(node), dtype(v), std::move(rows));
  }

  /// What `v` is with its last two dimensions exchanged.
  std::optional<ValueId> untransposed(ValueId v) const {
    const Node* node = maker(v);
    const auto dims = node ? permutation(graph_, *node) : std::nullopt;
    if (!dims) return std::nullopt;
    std::vector<int64_t> want(dims->size());
    std::iota(want.begin(), want.end(), 0);
    if (want.size() >= 2) std::swap(want[want.size() - 1], want[want.size() - 2]);
    return *dims == want ? std::optional(node->input("self")) : std::nullopt;
  }

  /// The same where heads and batch are one dimension meanwhile, between two reshapes.
  std::optional<ValueId> untransposed_as_matrices(ValueId v) const {
    const auto reshaped = [&](ValueId made) {
      const Node* node = maker(made);
      return node && moves(*node, {Moves::kReshapes}) ? node->input("self") : kNoValue;
    };
    const ValueId flat = reshaped(v);
    const auto rows = flat == kNoValue ? std::nullopt : untransposed(flat);
    const ValueId whole = rows ? reshaped(*rows) : kNoValue;
    if (whole == kNoValue) return std::nullopt;
    Shape want = shape(v);
    std::swap(want[want.size() - 1], want[want.size() - 2]);
    const Shape &matrices = shape(*rows), &given = shape(whole);
    const bool kept = given == want && matrices.size() >= 2 &&
                      matrices[matrices.size() - 1] == want[want.size() - 1] &&
                      matrices[matrices.size() - 2] == want[want.size() - 2];
    return kept ? std::optional(whole) : std::nullopt;
  }

  /// triu(full(-inf), 1), as any number of views.
  bool is_causal(ValueId mask) const {
    const Node* node = maker(mask);
    const auto is_view = [](const Node& n) {
      return n.op == "aten::reshape" || n.op == "aten::unsqueeze" || n.op == "aten::expand";
    };
    const auto square = [&](ValueId v) {  // the same last two dimensions
      const Shape &a = shape(v), &b = shape(mask);
      return a.size() >= 2 && b.size() >= 2 && a[a.size() - 1] == b[b.size() - 1] &&
             a[a.size() - 2] == b[b.size() - 2];
    };
    while (node && is_view(*node) && square(node->input("self"))) node = maker(node->input("self"));
    return node && node->op == "aten::triu" && node->integer("diagonal") == 1 &&
           is_filled(node->input("self"), -HUGE_VAL);
  }

  /// All that scales, as one element; kNoValue: nothing but numbers does.
  ValueId factor_of(const Node& reader, const Attention& a) {
    ValueId factor = kNoValue;
    const auto combine = [&](const char* op, ValueId by) {
      if (factor == kNoValue && op == std::string("aten::mul.Tensor")) {
        factor = by;
        return;
      }
      Node node = node_for(reader, factor == kNoValue ? "aten::reciprocal" : op, "_factor");
      node.args = {tensor_arg("self", factor == kNoValue ? by : factor)};
      if (factor != kNoValue) node.args.push_back(tensor_arg("other", by));
      const Shape& a_shape = factor == kNoValue ? shape(by) : shape(factor);
      factor = append(graph_, std::move(node), dtype(by),
                      Shape(a_shape.size() > shape(by).size() ? a_shape : shape(by)));
    };
    for (const ValueId by : a.factors) combine("aten::mul.Tensor", by);
    for (const ValueId by : a.divisors) combine("aten::div.Tensor", by);
    return factor;
  }

  Graph graph_;
  const std::function<bool(const Node&)>& is_apart_;
  std::vector<bool> constant_;
  std::vector<int32_t> made_by_;
  std::vector<std::vector<int32_t>> read_by_;
  std::vector<Node> nodes_;
};

}  // namespace

Graph recognise_attention(Graph graph, const std::function<bool(const Node&)>& is_apart) {
  return AttentionRecogniser(std::move(graph), is_apart).run();
}

}  // namespace tv
