#include "csrc/passes/recognise/recognise_rotary.h"

#include <algorithm>
#include <map>
#include <optional>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/makers.h"
#include "csrc/passes/simplify/simplify.h"

namespace tv {
namespace {

struct Rotary {
  ValueId x = kNoValue, cos = kNoValue, sin = kNoValue;
  Expr rotated = {};          ///< elements of a row
  ValueId result = kNoValue;  ///< of the last of the pieces
};

class RotaryRecogniser {
 public:
  explicit RotaryRecogniser(Graph graph) : graph_(std::move(graph)), makers_(graph_) {}

  Graph run() {
    std::map<int32_t, Rotary> found;
    for (const Node& node : graph_.nodes) {
      auto r = rotary(node);
      if (!r) continue;
      const Node* last = &node;
      if (const Node* cat = rest_joined(*r)) last = cat;
      r->result = last->outputs[0];
      found.emplace(static_cast<int32_t>(last - graph_.nodes.data()), *r);
    }
    if (found.empty()) return std::move(graph_);
    for (auto it = found.begin(); it != found.end(); ++it) {
      const auto next = std::next(it);
      if (next != found.end() && is_pair(*it, *next)) {
        join(it->first, it->second, next->first, next->second);
        it = next;
      } else {
        replace(graph_.nodes[static_cast<size_t>(it->first)], it->second);
      }
    }
    std::erase_if(graph_.nodes, [](const Node& node) { return node.op.empty(); });
    make_names_unique(graph_);
    return simplify(std::move(graph_));  // the pieces
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }

  std::optional<Rotary> rotary(const Node& sum) const {
    if (sum.op != "aten::add.Tensor" || !is_one(sum, "alpha")) return std::nullopt;
    const Node* a = makers_.only(sum.input("self"), "aten::mul.Tensor");
    const Node* b = makers_.only(sum.input("other"), "aten::mul.Tensor");
    if (!a || !b) return std::nullopt;
    auto found = rotary_of(sum, *a, *b);
    return found ? found : rotary_of(sum, *b, *a);
  }

  /// plain: x · cos; turned: cat(-x2, x1) · sin.
  std::optional<Rotary> rotary_of(const Node& sum, const Node& plain, const Node& turned) const {
    for (const bool swapped : {false, true}) {
      const ValueId cat = turned.input(swapped ? "other" : "self");
      const ValueId x = turned_half(cat);
      if (x == kNoValue) continue;
      Rotary r{.x = x, .sin = turned.input(swapped ? "self" : "other")};
      if (plain.input("self") == x) r.cos = plain.input("other");
      if (plain.input("other") == x) r.cos = plain.input("self");
      if (r.cos == kNoValue || r.sin == kNoValue || !fits(sum, r)) continue;
      r.rotated = shape(x).back();
      r.result = sum.outputs[0];
      return r;
    }
    return std::nullopt;
  }

  /// x of cat(-x[half:], x[:half]) along the last dimension.
  ValueId turned_half(ValueId v) const {
    const Node* cat = makers_.only(v, "aten::cat");
    if (!cat || !is_last(*cat, v)) return kNoValue;
    const std::vector<ValueId>& parts = cat->inputs("tensors");
    if (parts.size() != 2) return kNoValue;
    const Node* negated = makers_.only(parts[0], "aten::neg");
    const Node* second =
        negated ? makers_.maker(negated->input("self"), "aten::slice.Tensor") : nullptr;
    const Node* first = makers_.maker(parts[1], "aten::slice.Tensor");
    if (!first || !second || first->input("self") != second->input("self")) return kNoValue;
    const ValueId x = first->input("self");
    const auto size = shape(x).back().constant();
    if (!size || *size % 2 != 0) return kNoValue;
    const bool halves = is_slice(*first, x, 0, *size / 2) && is_slice(*second, x, *size / 2, *size);
    return halves && shape(v) == shape(x) ? x : kNoValue;
  }

  bool is_last(const Node& node, ValueId of) const {
    const auto rank = static_cast<int64_t>(shape(of).size());
    const int64_t dim = node.integer("dim");
    return dim == -1 || dim == rank - 1;
  }

  bool is_slice(const Node& slice, ValueId x, int64_t from, int64_t to) const {
    if (!is_last(slice, x)) return false;
    const auto number = [&](const char* name, int64_t absent) -> std::optional<int64_t> {
      return slice.has(name) ? slice.expr(name).constant() : absent;
    };
    const auto start = number("start", 0), step = number("step", 1);
    const Shape& part = shape(slice.outputs[0]);
    return start == from && step == 1 && part.back() == Expr(to - from);
  }

  bool fits(const Node& sum, const Rotary& r) const {
    const Value& x = graph_.value(r.x);
    const Value& out = graph_.value(sum.outputs[0]);
    if (!is_float(x.dtype) || x.dtype == DType::kF64) return false;
    if (!(out.shape == x.shape) || out.dtype != x.dtype) return false;
    for (const ValueId v : {r.cos, r.sin}) {
      const Value& by = graph_.value(v);
      if (by.dtype != x.dtype || by.shape.size() > x.shape.size()) return false;
    }
    return true;
  }

  /// The node that puts behind what is rotated the rest of its rows, which `r` then covers; null:
  /// the rows are rotated as a whole.
  const Node* rest_joined(Rotary& r) const {
    const Node* reader = makers_.only_reader(r.result);
    if (!reader) return nullptr;
    const Node& cat = *reader;
    if (cat.op != "aten::cat" || !is_last(cat, r.result)) return nullptr;
    const std::vector<ValueId>& parts = cat.inputs("tensors");
    if (parts.size() != 2 || parts[0] != r.result) return nullptr;
    // Rows of which nothing is left.
    if (shape(parts[1]).back() == Expr(0) && shape(cat.outputs[0]) == shape(r.x)) return &cat;
    const Node* slice = makers_.maker(r.x, "aten::slice.Tensor");
    const Node* rest = makers_.maker(parts[1], "aten::slice.Tensor");
    if (!slice || !rest) return nullptr;
    const ValueId x = slice->input("self");
    const auto size = shape(x).back().constant(), rotated = r.rotated.constant();
    if (!size || rest->input("self") != x || !(shape(cat.outputs[0]) == shape(x))) return nullptr;
    if (!is_slice(*slice, x, 0, *rotated) || !is_slice(*rest, x, *rotated, *size)) return nullptr;
    for (const ValueId by : {r.cos, r.sin}) {
      const Shape& sizes = shape(by);
      if (!sizes.empty() && !(sizes.back() == r.rotated) && !(sizes.back() == Expr(1))) {
        return nullptr;
      }
    }
    r.x = x;
    return &cat;
  }

  static Node made(const Node& last, const char* op, std::vector<Arg> args) {
    Node node = node_for(last, op, "");
    node.args = std::move(args);
    return node;
  }

  void replace(Node& sum, const Rotary& r) {
    Node node = made(sum, "tv::rotary",
                     {tensor_arg("x", r.x), tensor_arg("cos", r.cos), tensor_arg("sin", r.sin),
                      attr_arg("rotated", r.rotated)});
    node.outputs = sum.outputs;  // readers stay as they are
    sum = std::move(node);
  }

  /// Whether the first can be computed as late as the second.
  bool is_pair(const std::pair<const int32_t, Rotary>& a,
               const std::pair<const int32_t, Rotary>& b) const {
    const ValueId first = graph_.nodes[static_cast<size_t>(a.first)].outputs[0];
    const auto& readers = makers_.readers(first);
    const bool late = std::ranges::all_of(readers, [&](int32_t n) { return n > b.first; });
    return late && a.second.cos == b.second.cos && a.second.sin == b.second.sin &&
           shape(a.second.x).back() == shape(b.second.x).back() &&
           a.second.rotated == b.second.rotated &&
           graph_.value(a.second.x).dtype == graph_.value(b.second.x).dtype;
  }

  void join(int32_t first, const Rotary& a, int32_t second, const Rotary& b) {
    Node &one = graph_.nodes[static_cast<size_t>(first)],
         &two = graph_.nodes[static_cast<size_t>(second)];
    Node pair = made(two, "tv::rotary_pair",
                     {tensor_arg("x", a.x), tensor_arg("x2", b.x), tensor_arg("cos", a.cos),
                      tensor_arg("sin", a.sin), attr_arg("rotated", a.rotated)});
    pair.outputs = {one.outputs[0], two.outputs[0]};
    two = std::move(pair);
    one = Node{};
  }

  Graph graph_;
  const Makers makers_;
};

}  // namespace

Graph recognise_rotary(Graph graph) { return RotaryRecogniser(std::move(graph)).run(); }

}  // namespace tv
