#include "csrc/passes/recognise/group_heads.h"

#include <optional>

#include "csrc/converter.h"
#include "csrc/graph/edit.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/simplify/simplify.h"

namespace tv {
namespace {

constexpr size_t kRank = 4, kHeads = 1;

bool groups_heads(const Node& node) {
  const Converter* converter = Registry::instance().find(node.op);
  return converter && converter->groups_heads;
}

class HeadGrouper {
 public:
  explicit HeadGrouper(Graph graph) : graph_(std::move(graph)), made_by_(producers(graph_)) {}

  Graph run() {
    nodes_ = std::move(graph_.nodes);
    bool any = false;
    for (Node node : nodes_) {
      if (groups_heads(node)) any |= group(node);
      graph_.nodes.push_back(std::move(node));
    }
    if (!any) return std::move(graph_);
    make_names_unique(graph_);
    return simplify(std::move(graph_));  // the copies
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }

  const Node* maker(ValueId v) const {
    const bool known = v != kNoValue && static_cast<size_t>(v) < made_by_.size();
    const int32_t at = known ? made_by_[static_cast<size_t>(v)] : -1;
    return at < 0 ? nullptr : &nodes_[static_cast<size_t>(at)];
  }

  /// True if the node reads fewer heads now.
  bool group(Node& node) {
    // By value: unrepeated appends to what shapes are part of.
    const size_t rank = shape(node.input("query")).size();
    const auto key = unrepeated(node, node.input("key"));
    const auto value = key ? unrepeated(node, node.input("value")) : std::nullopt;
    if (!value || rank != kRank) return false;
    if (!(shape(*key)[kHeads] == shape(*value)[kHeads])) return false;
    for (Arg& arg : node.args) {
      if (arg.name == "key") arg = tensor_arg("key", *key);
      if (arg.name == "value") arg = tensor_arg("value", *value);
    }
    return true;
  }

  /// What `v` repeats.
  std::optional<ValueId> unrepeated(const Node& reader, ValueId v) {
    if (shape(v).size() != kRank) return std::nullopt;
    const Node* node = through_copies(maker(v));
    if (!node) return std::nullopt;
    if (node->op == "aten::expand") return expanded_from_one(*node);
    node = moves(*node, {Moves::kReshapes}) ? through_copies(maker(node->input("self"))) : nullptr;
    if (!node || node->op != "aten::expand") return std::nullopt;
    return repeated(reader, *node, v);
  }

  /// The node behind copies that change no type.
  const Node* through_copies(const Node* node) const {
    while (node && moves(*node, {Moves::kCopies})) node = maker(node->input("self"));
    return node;
  }

  std::optional<ValueId> expanded_from_one(const Node& expand) const {
    const ValueId from = expand.input("self");
    const Shape &whole = shape(expand.outputs[0]), &some = shape(from);
    if (some.size() != kRank || !(some[kHeads] == Expr(1))) return std::nullopt;
    for (size_t i = 0; i < kRank; ++i) {
      if (i != kHeads && !(some[i] == whole[i])) return std::nullopt;
    }
    return from;
  }

  /// [b, h, n, d] of `expand` to [b, h, repeats, n, d], which `v` is as [b, h repeats, n, d].
  std::optional<ValueId> repeated(const Node& reader, const Node& expand, ValueId v) {
    const ValueId from = expand.input("self");
    const Shape &wide = shape(expand.outputs[0]), &some = shape(from), &whole = shape(v);
    if (wide.size() != kRank + 1 || some.size() != kRank + 1) return std::nullopt;
    const Expr heads = wide[kHeads], repeats = wide[kHeads + 1];
    const Shape few = {wide[0], heads, wide[3], wide[4]};
    const bool fits = some[kHeads + 1] == Expr(1) && whole[0] == few[0] &&
                      whole[kHeads] == heads * repeats && whole[2] == few[2] && whole[3] == few[3];
    for (size_t i = 0; i < wide.size(); ++i) {
      if (i != kHeads + 1 && !(some[i] == wide[i])) return std::nullopt;
    }
    if (!fits) return std::nullopt;
    if (const Node* node = maker(from); node && node->op == "aten::unsqueeze" &&
                                        shape(node->input("self")) == few &&
                                        (node->integer("dim") == 2 || node->integer("dim") == -3)) {
      return node->input("self");
    }
    Node back = node_for(reader, "aten::reshape", "_heads");
    back.args = {tensor_arg("self", from), attr_arg("shape", std::vector<Expr>(few))};
    return append(graph_, std::move(back), graph_.value(from).dtype, few);
  }

  Graph graph_;
  const std::vector<int32_t> made_by_;
  std::vector<Node> nodes_;
};

}  // namespace

Graph group_heads(Graph graph) { return HeadGrouper(std::move(graph)).run(); }

}  // namespace tv
