#include "csrc/passes/recognise/recognise_mask.h"

#include <limits>
#include <map>
#include <optional>
#include <string_view>

#include "csrc/converter.h"
#include "csrc/graph/edit.h"
#include "csrc/passes/kit/makers.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/simplify/simplify.h"

namespace tv {
namespace {

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

/// Whether an attribute is this number; a symbol is none.
bool is_number(const Node& node, std::string_view name, double number) {
  const Arg& arg = node.arg(name);
  if (arg.is_tensor) return false;
  if (const auto* value = std::get_if<double>(&arg.attr)) return *value == number;
  if (const auto* flag = std::get_if<bool>(&arg.attr)) return (*flag ? 1 : 0) == number;
  const auto* value = std::get_if<Expr>(&arg.attr);
  return value && value->constant() && static_cast<double>(*value->constant()) == number;
}

constexpr int64_t kMostWindow = 1 << 29;  // kernels add it to places as ints

/// What a mask of [queries, keys] is made of.
struct Places {
  Expr queries, keys;
  ValueId first = kNoValue;
  ValueId rest = kNoValue;                            ///< what it hides besides
  ValueId numbers = kNoValue, of_queries = kNoValue;  ///< of keys from 0 on, and of queries
  bool causal = false;
  int64_t window = 0;
};

class MaskRecogniser {
 public:
  MaskRecogniser(Graph graph, const Settings& settings, const DeviceProfile& device)
      : graph_(std::move(graph)), makers_(graph_), settings_(settings), device_(device) {}

  Graph run() {
    bool any = false;
    std::vector<size_t> ends;  // of before_, by node
    for (Node& node : graph_.nodes) {
      any |= replace(node);
      ends.push_back(before_.size());
    }
    if (!any) return std::move(graph_);
    std::vector<Node> nodes;
    for (size_t i = 0, next = 0; i < graph_.nodes.size(); ++i) {
      for (; next < ends[i]; ++next) nodes.push_back(std::move(before_[next]));
      nodes.push_back(std::move(graph_.nodes[i]));
    }
    graph_.nodes = std::move(nodes);
    make_names_unique(graph_);
    return simplify(std::move(graph_));
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }

  bool replace(Node& node) {
    const Converter* converter = Registry::instance().find(node.op);
    if (!converter || !converter->sees_by_place || node.flag("is_causal")) return false;
    if (!node.has("attn_mask") || node.has("first")) return false;
    if (!converter->sees_by_place(NodeContext{graph_, node, device_, settings_})) return false;
    for (size_t i = 1; i < node.outputs.size(); ++i) {  // gradients would read the mask
      const ValueId v = node.outputs[i];
      if (v != kNoValue && (!makers_.readers(v).empty() || makers_.is_result(v))) return false;
    }
    bool least = false;  // what is hidden gets the least number added
    const ValueId mask = as_bools(node.input("attn_mask"), least);
    const Shape &query = shape(node.input("query")), &key = shape(node.input("key"));
    if (mask == kNoValue) return false;
    Places places{.queries = query[query.size() - 2], .keys = key[key.size() - 2]};
    if (!add(mask, places) || !places.causal) return false;
    // Of rows that see no key infinity makes numbers that are none, unless they are zeros.
    if (!least && node.has("rows") && node.text("rows") != "zeros") return false;
    if (least && !see_themselves(node, places)) return false;
    for (Arg& arg : node.args) {
      if (arg.name == "attn_mask") arg = tensor_arg("attn_mask", places.rest);
    }
    node.args.push_back(tensor_arg("first", places.first));
    node.args.push_back(attr_arg("window", Expr(places.window)));
    return true;
  }

  /// What broadcasts to `v`: before it was expanded and given dimensions in front.
  ValueId in_fewer_dimensions(ValueId v) const {
    while (const Node* node = makers_.maker(v)) {
      const auto rank = static_cast<double>(shape(v).size());
      const bool is_front = node->op == "aten::unsqueeze" &&
                            (is_number(*node, "dim", 0) || is_number(*node, "dim", -rank));
      if (!is_front && node->op != "aten::expand") break;
      v = node->input("self");
    }
    return v;
  }

  /// Rows that see no key take all alike where the least number was added to every score, which a
  /// place cannot say. So each query is to see its own key: its place is checked to be one of the
  /// keys', as that of an index is, and there must be no other mask.
  bool see_themselves(const Node& node, Places& p) {
    if (p.rest != kNoValue || !settings_.check_indices || p.of_queries == kNoValue) return false;
    if (!(shape(p.of_queries) == Shape{p.queries})) return false;
    ValueId& checked =
        checked_.try_emplace(std::pair(p.numbers, p.of_queries), kNoValue).first->second;
    if (checked == kNoValue) {
      checked = add_node(node, "aten::index_select", "places",
                         {tensor_arg("self", p.numbers), attr_arg("dim", Expr(0)),
                          tensor_arg("index", p.of_queries)},
                         {p.queries});
      if (!(p.queries == Expr(1))) {
        checked = add_node(
            node, "aten::slice.Tensor", "first",
            {tensor_arg("self", checked), attr_arg("dim", Expr(0)), attr_arg("start", Expr(0)),
             attr_arg("end", Expr(1)), attr_arg("step", Expr(1))},
            {Expr(1)});
      }
    }
    p.first = checked;
    return true;
  }

  /// A node in front of `node`, of the keys' type.
  ValueId add_node(const Node& node, const char* op, const char* suffix, std::vector<Arg> args,
                   Shape of) {
    Node made = node_for(node, op, suffix);
    const DType dtype = graph_.value(args[0].values[0]).dtype;
    made.args = std::move(args);
    made.outputs = {graph_.add_value({.name = made.name, .dtype = dtype, .shape = std::move(of)})};
    before_.push_back(std::move(made));
    return before_.back().outputs[0];
  }

  /// A mask, or of numbers that are added - 0 and -infinity, or the `least` of the type - where
  /// they are 0; kNoValue for others.
  ValueId as_bools(ValueId v, bool& least) const {
    if (graph_.value(v).dtype == DType::kBool) return v;
    v = in_fewer_dimensions(v);
    const Node* node = makers_.maker(v);
    if (!node || node->op != "aten::where.self") return kNoValue;
    const ValueId hidden = node->input("other");
    least = is_filled(hidden, least_of(graph_.value(v).dtype));
    const bool hides = is_filled(node->input("self"), 0) &&
                       (least || is_filled(hidden, -std::numeric_limits<double>::infinity()));
    // What broadcasts is the condition alone.
    const ValueId seen = node->input("condition");
    return hides && shape(seen) == shape(v) ? seen : kNoValue;
  }

  /// What torch.finfo(dtype).min is; not of float16, where scores may be as large.
  static double least_of(DType dtype) {
    if (dtype == DType::kF32) return -static_cast<double>(std::numeric_limits<float>::max());
    if (dtype == DType::kBF16) return -0x1.FEp127;
    return std::numeric_limits<double>::quiet_NaN();
  }

  bool is_filled(ValueId v, double number) const {
    const Node* node = makers_.maker(v);
    if (!node) return false;
    if (node->op == "aten::zeros") return number == 0;
    if (node->op == "aten::scalar_tensor") return is_number(*node, "s", number);
    return node->op == "aten::full" && is_number(*node, "fill_value", number);
  }

  /// Adds what `v`, broadcast over the scores, hides.
  bool add(ValueId v, Places& p) const {
    const ValueId mask = v;
    const Node* node = makers_.maker(in_fewer_dimensions(v));
    if (node && is_one_of(node->op, {"aten::bitwise_and.Tensor", "aten::logical_and",
                                     "aten::__and__.Tensor"})) {
      return add(node->input("self"), p) && add(node->input("other"), p);
    }
    if (is_true(node) || (node && add_comparison(*node, p))) return true;
    if (p.rest != kNoValue || graph_.value(mask).dtype != DType::kBool) return false;
    p.rest = mask;
    return true;
  }

  /// A node that hides nothing.
  static bool is_true(const Node* node) {
    return node && is_one_of(node->op, {"aten::full", "aten::ones", "aten::new_ones"}) &&
           (node->op != "aten::full" || is_number(*node, "fill_value", 1));
  }

  bool add_comparison(const Node& node, Places& p) const {
    const bool strict = is_one_of(node.op, {"aten::lt.Tensor", "aten::gt.Tensor"});
    if (!strict && !is_one_of(node.op, {"aten::le.Tensor", "aten::ge.Tensor"})) return false;
    const bool turned = is_one_of(node.op, {"aten::ge.Tensor", "aten::gt.Tensor"});
    const ValueId less = node.input(turned ? "other" : "self");
    const ValueId more = node.input(turned ? "self" : "other");
    if (!strict && are_keys(less, p)) return !p.causal && (p.causal = is_place(more, p));
    if (!strict || !are_keys(more, p) || p.window != 0 || !is_vector(less, 1, p.queries)) {
      return false;
    }
    const auto shifted = less_a_number(in_order(less));
    if (!shifted || shifted->second < 1 || shifted->second > kMostWindow) return false;
    if (!takes_first(first_of(in_order(shifted->first), p.queries), p)) return false;
    p.window = shifted->second;
    return true;
  }

  /// [.., 1, keys] with the number of each key.
  bool are_keys(ValueId v, Places& p) const {
    if (!is_vector(v, 0, p.keys) || !is_range(in_order(v), p.keys)) return false;
    p.numbers = in_order(v);
    return true;
  }

  /// [.., queries, 1] with consecutive numbers, the first of which is, or becomes, p.first.
  bool is_place(ValueId v, Places& p) const {
    p.of_queries = in_order(v);
    return is_vector(v, 1, p.queries) && takes_first(first_of(p.of_queries, p.queries), p);
  }

  static bool takes_first(ValueId first, Places& p) {
    if (first == kNoValue || (p.first != kNoValue && p.first != first)) return false;
    p.first = first;
    return true;
  }

  /// The value of one element that begins a range of numbers.
  ValueId first_of(ValueId v, const Expr& count) const {
    if (count == Expr(1)) return is_integer(v) ? v : kNoValue;
    const Node* sum = makers_.maker(v, "aten::add.Tensor");
    if (!sum || !is_one(*sum, "alpha")) return kNoValue;
    for (const bool swapped : {false, true}) {
      const ValueId range = sum->input(swapped ? "other" : "self");
      const ValueId first = sum->input(swapped ? "self" : "other");
      if (range == kNoValue || first == kNoValue || !is_integer(first)) continue;
      if (is_range(range, count) && product(shape(first)) == Expr(1)) return first;
    }
    return kNoValue;
  }

  bool is_integer(ValueId v) const {
    return graph_.value(v).dtype == DType::kI64 || graph_.value(v).dtype == DType::kI32;
  }

  /// x - n or x + -n of a tensor and a number: (x, n).
  std::optional<std::pair<ValueId, int64_t>> less_a_number(ValueId v) const {
    const Node* node = makers_.maker(v);
    if (!node || !is_integer(v)) return std::nullopt;
    const bool subtracts = is_one_of(node->op, {"aten::sub.Tensor", "aten::sub.Scalar"});
    if (!subtracts && !is_one_of(node->op, {"aten::add.Tensor", "aten::add.Scalar"})) {
      return std::nullopt;
    }
    const Arg& other = node->arg("other");
    const auto* number = other.is_tensor ? nullptr : std::get_if<Expr>(&other.attr);
    if (!number || !number->constant() || !is_one(*node, "alpha")) return std::nullopt;
    return std::pair{node->input("self"), subtracts ? *number->constant() : -*number->constant()};
  }

  /// Whether all dimensions but the one `from_last` have one element, and that has `count`.
  bool is_vector(ValueId v, size_t from_last, const Expr& count) const {
    const Shape& s = shape(v);
    if (s.size() <= from_last) return false;
    for (size_t i = 0; i < s.size(); ++i) {
      if (!(s[i] == (i + 1 + from_last == s.size() ? count : Expr(1)))) return false;
    }
    return true;
  }

  /// The value whose elements, in order, are those of `v`, of the same type.
  ValueId in_order(ValueId v) const {
    while (const Node* node = makers_.maker(v)) {
      if (!keeps_order(*node) && !moves(*node, {Moves::kSpreads})) break;
      const ValueId from = node->input("self");
      if (!(product(shape(from)) == product(shape(v)))) break;
      v = from;
    }
    return v;
  }

  /// 0, 1, … count - 1.
  bool is_range(ValueId v, const Expr& count) const {
    const Node* node = makers_.maker(v);
    const bool adds = node && is_one_of(node->op, {"aten::add.Tensor", "aten::add.Scalar"});
    if (adds && is_number(*node, "other", 0)) node = makers_.maker(node->input("self"));
    if (!node || !node->op.starts_with("aten::arange") || !is_integer(v)) return false;
    const auto is = [&](const char* name, double number) {
      return !node->has(name) || is_number(*node, name, number);
    };
    return shape(v) == Shape{count} && is("start", 0) && is("step", 1);
  }

  Graph graph_;
  std::vector<Node> before_;  ///< to come in front of those that they were made for
  std::map<std::pair<ValueId, ValueId>, ValueId> checked_;
  const Makers makers_;
  const Settings& settings_;
  const DeviceProfile& device_;
};

}  // namespace

Graph recognise_mask(Graph graph, const Settings& settings, const DeviceProfile& device) {
  return MaskRecogniser(std::move(graph), settings, device).run();
}

}  // namespace tv
