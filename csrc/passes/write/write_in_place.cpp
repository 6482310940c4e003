#include "csrc/passes/write/write_in_place.h"

#include <algorithm>
#include <map>
#include <set>

#include "csrc/converter.h"
#include "csrc/graph/edit.h"
#include "csrc/graph/strided.h"

namespace tv {

namespace {

/// "aten::index_put" → "tv::in_place_index_put": the operator that changes its output's storage.
std::string in_place_name(const std::string& op) {
  return op.starts_with("aten::") ? "tv::in_place_" + op.substr(6) : "";
}

/// What makes a view of the part that a node replaces; "" for others.
std::string view_of_part(const std::string& op) {
  if (op == "aten::slice_scatter") return "aten::slice.Tensor";
  return op == "aten::select_scatter" ? "aten::select.int" : "";
}

/// How the value written over one input comes to lie there.
class WritePlan {
 public:
  WritePlan(const Graph& graph, const Settings& settings, const DeviceProfile& device,
            size_t output)
      : graph_(graph),
        settings_(settings),
        device_(device),
        target_(graph.outputs[output].over),
        value_(graph.outputs[output].value),
        producers_(producers(graph)),
        constant_(constant_values(graph)) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (ValueId input : graph.nodes[i].all_inputs()) {
        readers_[base_of(input)].insert(static_cast<int32_t>(i));
      }
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      if (i != output) returned_.insert(base_of(graph.outputs[i].value));
    }
  }

  /// False if the value has to be copied.
  bool make() {
    const View whole{target_, Expr(0), contiguous_strides(graph_.value(target_).shape)};
    return place(value_, whole, target_, kNoReader) && in_order();
  }

  /// Why, then: the first thing that was in the way.
  const std::string& reason() const { return reason_; }

  void apply(Graph& graph) const {
    std::vector<Node> nodes;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const auto found = steps_.find(static_cast<int32_t>(i));
      if (found == steps_.end()) {
        nodes.push_back(std::move(graph.nodes[i]));
      } else if (found->second.kind != Step::kGone) {
        nodes.push_back(node_of(std::move(graph.nodes[i]), found->second, graph));
      }
    }
    graph.nodes = std::move(nodes);
    // Behind the others, which a cached engine has in the order of its key.
    for (const Condition& condition : conditions_) graph.conditions.push_back(condition);
    for (Value& value : graph.values) {
      if (!value.view) continue;
      const auto moved = moved_.find(value.view->base);
      if (moved == moved_.end()) continue;
      value.view->base = target_;
      value.view->offset += moved->second.offset;
    }
    for (const auto& [value, view] : moved_) graph.value(value).view = view;
  }

 private:
  static constexpr int32_t kNoReader = -1;

  /// What becomes of a node.
  struct Step {
    enum Kind { kGone, kCopy, kInPlace, kStores } kind = kGone;
    View part = {};  ///< kCopy: where the part goes
  };

  ValueId base_of(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.view ? value.view->base : id;
  }
  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }

  /// Where a value lies in the target as planned so far; nothing for other storages.
  std::optional<View> place_of(ValueId id) const {
    View layout = layout_of(graph_, id);
    if (layout.base == target_) return layout;
    const auto moved = moved_.find(layout.base);
    if (moved == moved_.end()) return std::nullopt;
    // What has views lies as it would in a storage of its own.
    if (graph_.value(id).view) {
      return View{target_, layout.offset + moved->second.offset, layout.strides};
    }
    return moved->second;
  }
  bool in_target(ValueId id) const {
    return base_of(id) == target_ || moved_.count(base_of(id)) > 0;
  }

  /// Plans that `id` comes to lie at `where`, which holds that part of value `content` until then.
  /// In its own storage `reader` alone may read it where it is not dense there.
  bool place(ValueId id, const View& where, ValueId content, int32_t reader) {
    const Value& value = graph_.value(id);
    if (const auto there = place_of(id)) {
      const bool stays = base_of(id) == content && there->offset == where.offset &&
                         same_strides(value.shape, there->strides, where.strides);
      return stays || refuse("what lies in the input moves within it");
    }
    const bool dense = is_dense(value.shape, where.strides);
    if (value.view) {
      const ValueId base = value.view->base;
      const Shape shape = graph_.value(base).shape;
      const bool whole = value.view->offset == Expr(0) && dense &&
                         is_dense(value.shape, value.view->strides) &&
                         product(value.shape) == product(shape);
      if (!whole) return refuse("the value is a view of another one");
      return place(base, View{target_, where.offset, contiguous_strides(shape)}, content, reader);
    }
    const int32_t maker = producers_[static_cast<size_t>(id)];
    if (maker < 0) return refuse("the value is another input");
    if (returned_.count(id)) return refuse("the value is a result of its own, too");
    if (constant_[static_cast<size_t>(id)]) return refuse("the value depends on weights alone");
    if (value.dtype != graph_.value(target_).dtype) return refuse("the value has another dtype");
    if (steps_.count(maker)) return refuse(operator_of(maker) + " makes several of its parts");
    if (!dense && !read_by_alone(id, reader)) return refuse("a part of it is read elsewhere");
    if (!replaces_part(maker, where, content) && !stores(maker, where, content)) {
      return refuse(operator_of(maker) + (reads_target(maker) ? " reads the input where it writes"
                                                              : " makes a tensor of its own"));
    }
    moved_.emplace(id, where);
    return true;
  }

  /// Keeps the first reason; false.
  bool refuse(std::string reason) const {
    if (reason_.empty()) reason_ = std::move(reason);
    return false;
  }

  /// The model's name of what a node computes.
  std::string operator_of(int32_t n) const {
    const Node& found = node(n);
    const std::string& op = found.fused_ops.empty() ? found.op : found.fused_ops.back();
    return found.source.empty() ? op : op + " (" + found.source + ")";
  }

  bool reads_target(int32_t n) const {
    return std::ranges::any_of(node(n).all_inputs(), [&](ValueId id) { return in_target(id); });
  }

  bool read_by_alone(ValueId id, int32_t reader) const {
    const auto found = readers_.find(id);
    const bool viewed = std::ranges::any_of(
        graph_.values, [&](const Value& v) { return v.view && v.view->base == id; });
    return !viewed && found != readers_.end() && found->second == std::set<int32_t>{reader};
  }

  bool replaces_part(int32_t maker, const View& where, ValueId content) {
    const Node& n = node(maker);
    if (n.epilogue || n.prologue) return false;
    const std::string view_op = view_of_part(n.op);
    const Converter* in_place = Registry::instance().find(in_place_name(n.op));
    const NodeContext context{graph_, n, device_, settings_};
    const bool known =
        in_place && (!in_place->unsupported || in_place->unsupported(context).empty());
    if (view_op.empty() ? !known : !has_view(n, view_op)) return false;
    if (!view_op.empty() && graph_.value(n.input("src")).dtype != graph_.value(target_).dtype) {
      return false;
    }
    const auto before = std::pair(steps_, moved_);
    if (!place(n.input("self"), where, content, maker)) {
      std::tie(steps_, moved_) = before;
      return false;
    }
    if (view_op.empty()) {
      steps_[maker] = {Step::kInPlace};
      return true;
    }
    const View part = part_of(n, view_op, where);
    const ValueId src = n.input("src");
    if (!lies_inside(n, graph_.value(src).shape, part)) {
      std::tie(steps_, moved_) = before;
      return false;
    }
    steps_[maker] = {Step::kGone};
    if (is_part_of(src) && place(src, part, base_of(n.input("self")), maker)) return true;
    steps_[maker] = {Step::kCopy, part};
    return true;
  }

  /// Whether `id` is itself what a part of something was replaced in.
  bool is_part_of(ValueId id) const {
    const int32_t maker = producers_[static_cast<size_t>(base_of(id))];
    return maker >= 0 && (!view_of_part(node(maker).op).empty() ||
                          Registry::instance().find(in_place_name(node(maker).op)) != nullptr);
  }

  static Node view_node(const Node& n, const std::string& view_op) {
    Node view = n;
    view.op = view_op;
    view.outputs = {n.input("src")};
    return view;
  }

  bool has_view(const Node& n, const std::string& view_op) const {
    const Node view = view_node(n, view_op);
    const Converter* converter = Registry::instance().find(view_op);
    return converter->unsupported({graph_, view, device_, settings_}).empty();
  }

  View part_of(const Node& n, const std::string& view_op, const View& where) const {
    const Node view = view_node(n, view_op);
    const NodeContext context{graph_, view, device_, settings_};
    View part = Registry::instance().find(view_op)->view(context, where, 0).value();
    part.base = target_;
    return part;
  }

  /// Of symbolic sizes a condition says so, which a program that eager runs fulfils; a part without
  /// elements lies anywhere.
  bool lies_inside(const Node& n, const Shape& shape, const View& part) {
    const Expr room = product(graph_.value(target_).shape) - part.offset -
                      span_elements(shape, part.strides, graph_.symbols);
    Condition inside{Relation::kAtLeast, room, Expr(0), "[" + n.op + "]"};
    const std::optional<bool> decided = inside.decided(graph_.symbols);
    inside.left = min(product(shape), Expr(1)) * room;
    if (!decided) conditions_.push_back(std::move(inside));
    return decided.value_or(true);
  }

  /// Whether the node stores each element once, without reading what lies there.
  bool stores(int32_t maker, const View& where, ValueId content) {
    const Node& n = node(maker);
    const Converter* converter = Registry::instance().find(n.op);
    const bool whole =
        content == target_ && where.offset == Expr(0) &&
        is_dense(graph_.value(target_).shape, where.strides) &&
        product(graph_.value(target_).shape) == product(graph_.value(n.outputs[0]).shape);
    const bool by_element =
        n.op == "tv::pointwise" || n.op == "tv::copy" || (converter && converter->epilogue);
    const bool alone = n.outputs.size() == 1 || n.op == "tv::pointwise";
    if (!whole || !by_element || !alone) return false;
    steps_[maker] = {Step::kStores};
    return true;
  }

  /// Nobody reads what is written over before, and no node what it writes.
  bool in_order() const {
    std::set<int32_t> writes;
    for (const auto& [n, step] : steps_) {
      if (step.kind != Step::kGone) writes.insert(n);
    }
    for (const int32_t n : writes) {
      if (!reads_elsewhere(n)) return refuse(operator_of(n) + " reads the input where it writes");
    }
    const auto late = [&](ValueId storage, int32_t since) {
      const auto next = writes.upper_bound(since);
      const auto found = readers_.find(storage);
      if (next == writes.end() || found == readers_.end()) return false;
      const auto reader = std::ranges::find_if(
          found->second, [&](int32_t r) { return r > *next && !steps_.count(r); });
      if (reader == found->second.end()) return false;
      refuse(operator_of(*reader) + " reads the older contents behind the write");
      return true;
    };
    if (late(target_, -1)) return false;
    return std::ranges::none_of(moved_, [&](const auto& moved) {
      return late(moved.first, producers_[static_cast<size_t>(moved.first)]);
    });
  }

  bool reads_elsewhere(int32_t n) const {
    const bool replaces = steps_.at(n).kind != Step::kStores;
    // A counter's one element is read before it is stored.
    const bool one = product(graph_.value(target_).shape) == Expr(1);
    if (one && node(n).op == "tv::pointwise") return true;
    const auto& inputs = node(n).all_inputs();
    return std::ranges::none_of(inputs, [&](ValueId id) {
      return in_target(id) && !(replaces && id == node(n).input("self"));
    });
  }

  Node node_of(Node n, const Step& step, Graph& graph) const {
    if (step.kind == Step::kInPlace) n.op = in_place_name(n.op);
    if (step.kind != Step::kCopy) return n;
    const ValueId src = n.input("src");
    if (n.fused_ops.empty()) n.fused_ops = {n.op};
    n.op = "tv::copy";
    n.args = {tensor_arg("self", src)};
    n.outputs.clear();
    const ValueId part = graph.add_output(n, graph.value(src).dtype, graph.value(src).shape);
    graph.value(part).view = step.part;
    return n;
  }

  const Graph& graph_;
  const Settings& settings_;
  const DeviceProfile& device_;
  const ValueId target_, value_;
  const std::vector<int32_t> producers_;
  const std::vector<bool> constant_;
  std::map<ValueId, std::set<int32_t>> readers_;  // by storage
  std::set<ValueId> returned_;
  std::map<int32_t, Step> steps_;
  std::vector<Condition> conditions_;
  std::map<ValueId, View> moved_;  // storages that come to lie in the target
  mutable std::string reason_;
};

Node copy_node(const Graph& graph, ValueId value, const std::string& suffix) {
  Node node;
  node.op = "tv::copy";
  node.name = graph.value(value).name + suffix;
  node.args = {tensor_arg("self", value)};
  return node;
}

/// Values that show an input which is written over are kept before anything is written.
void save_overwritten(Graph& graph) {
  std::set<ValueId> written;
  for (const GraphOutput& output : graph.outputs) written.insert(output.over);
  std::vector<Node> saved;
  for (GraphOutput& output : graph.outputs) {
    if (output.over == kNoValue) continue;
    if (!written.count(layout_of(graph, output.value).base)) continue;
    Node node = copy_node(graph, output.value, "_saved");
    const Value value = graph.value(output.value);
    output.value = graph.add_output(node, value.dtype, value.shape);
    saved.push_back(std::move(node));
  }
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(saved.begin()),
                     std::make_move_iterator(saved.end()));
}

void append_copy(Graph& graph, GraphOutput& output) {
  Node node = copy_node(graph, output.value, "_written");
  const Value over = graph.value(output.over);
  output.value = graph.add_output(node, over.dtype, over.shape);
  graph.value(output.value).view = View{output.over, Expr(0), contiguous_strides(over.shape)};
  graph.nodes.push_back(std::move(node));
}

}  // namespace

Graph write_in_place(Graph graph, const Settings& settings, const DeviceProfile& device,
                     std::vector<WriteOutcome>* outcomes) {
  std::map<ValueId, size_t> outcome_of;  // by the input
  for (const GraphOutput& output : graph.outputs) {
    if (!outcomes || output.over == kNoValue) continue;
    outcome_of[output.over] = outcomes->size();
    outcomes->push_back({output.name, ""});
  }
  const auto stays = [](const GraphOutput& o) { return o.over != kNoValue && o.value == o.over; };
  std::erase_if(graph.outputs, stays);
  const auto is_over = [](const GraphOutput& o) { return o.over != kNoValue; };
  if (std::ranges::none_of(graph.outputs, is_over)) return graph;
  save_overwritten(graph);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (!is_over(graph.outputs[i])) continue;
    WritePlan plan(graph, settings, device, i);
    if (plan.make()) {
      plan.apply(graph);
    } else if (outcomes) {
      outcomes->at(outcome_of.at(graph.outputs[i].over)).reason = plan.reason();
    }
  }
  for (GraphOutput& output : graph.outputs) {
    if (is_over(output) && layout_of(graph, output.value).base != output.over) {
      append_copy(graph, output);
    }
  }
  make_names_unique(graph);
  return graph;
}

}  // namespace tv
