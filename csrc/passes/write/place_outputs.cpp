#include "csrc/passes/write/place_outputs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "csrc/converter.h"
#include "csrc/graph/edit.h"
#include "csrc/graph/strided.h"
#include "csrc/lowering/tactics.h"
#include "csrc/passes/kit/moves.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

/// A value's new place: a view of another storage.
struct Placement {
  ValueId value = kNoValue;
  View view;
};

class OutputPlacer {
 public:
  OutputPlacer(Graph graph, const Settings& settings, const DeviceProfile& device)
      : graph_(std::move(graph)),
        settings_(settings),
        device_(device),
        constant_(constant_values(graph_)),
        producers_(producers(graph_)) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (ValueId input : graph_.nodes[i].all_inputs()) {
        readers_[base_of(input)].insert(static_cast<int32_t>(i));
      }
    }
    for (const GraphOutput& output : graph_.outputs) outputs_.insert(base_of(output.value));
  }

  Graph run() {
    drop_dead_views();
    std::vector<Node> nodes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!node.epilogue && !node.prologue) {
        current_ = static_cast<int32_t>(i);
        const bool gone = (node.op == "tv::copy" && place_copy(node)) ||
                          (moves(node, {Moves::kJoins}) && place_cat(node, nodes));
        if (gone) {
          for (auto& [base, readers] : readers_) readers.erase(current_);
          gone_.insert(current_);
          continue;
        }
      }
      nodes.push_back(node);
    }
    graph_.nodes = std::move(nodes);
    return std::move(graph_);
  }

 private:
  ValueId base_of(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.view ? value.view->base : id;
  }

  /// True if the storage may become part of another: one node makes all of it, each call anew.
  bool movable(ValueId base) const {
    const int32_t maker = producers_[static_cast<size_t>(base)];
    if (maker < 0 || outputs_.count(base) || constant_[static_cast<size_t>(base)]) return false;
    if (graph_.value(base).view) return false;
    const Node& node = graph_.nodes[static_cast<size_t>(maker)];
    const Converter* converter = Registry::instance().find(node.op);
    const bool stores_by_element = node.op == "tv::pointwise" || node.op == "tv::copy" ||
                                   (converter && converter->epilogue && node.outputs[0] == base);
    return stores_by_element;
  }

  /// out[i] = v[permuted i]: v's maker may store in out's order itself.
  bool place_copy(const Node& node) {
    const ValueId out = node.outputs[0], base = base_of(node.input("self"));
    if (!movable(base) || readers_[base].size() != 1 || graph_.value(out).view) return false;
    // Of a join that is gone several nodes make a part each, in places of its order.
    if (gone_.count(producers_[static_cast<size_t>(base)])) return false;
    if (graph_.value(base).dtype != graph_.value(out).dtype) return false;
    const View source = layout_of(graph_, node.input("self"));
    const auto strides = inverse_strides(graph_.value(base).shape, graph_.value(out).shape, source);
    if (!strides || !try_place({{base, View{out, Expr(0), *strides}}})) return false;
    drop_views_of(base);  // this copy alone read them
    return true;
  }

  void drop_views_of(ValueId base) {
    for (Value& value : graph_.values) {
      if (value.view && value.view->base == base) value.view.reset();
    }
  }

  /// Passes leave views behind that nothing reads.
  void drop_dead_views() {
    std::vector<bool> live(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      for (ValueId input : node.all_inputs()) live[static_cast<size_t>(input)] = true;
    }
    for (const GraphOutput& output : graph_.outputs) live[static_cast<size_t>(output.value)] = true;
    for (size_t v = 0; v < live.size(); ++v) {
      if (!live[v]) graph_.values[v].view.reset();
    }
  }

  /// Strides over a dense tensor of shape `to` for each dimension of a dense tensor of shape
  /// `from`, where `view` (of `from`, shaped `to`) only permutes dimensions; nothing if it does
  /// more.
  static std::optional<Shape> inverse_strides(const Shape& from, const Shape& to,
                                              const View& view) {
    if (!(view.offset == Expr(0)) || !(product(from) == product(to))) return std::nullopt;
    const Shape from_strides = contiguous_strides(from), to_strides = contiguous_strides(to);
    Shape result(from.size(), Expr(0));
    std::vector<bool> used(to.size(), false);
    for (size_t d = 0; d < from.size(); ++d) {
      if (from[d] == Expr(1)) continue;
      size_t k = 0;
      while (k < to.size() &&
             (used[k] || !(to[k] == from[d]) || !(view.strides[k] == from_strides[d]))) {
        ++k;
      }
      if (k == to.size()) return std::nullopt;
      used[k] = true;
      result[d] = to_strides[k];
    }
    return result;
  }

  /// Each input's maker writes its slice of the result; what can't is copied there.
  bool place_cat(const Node& node, std::vector<Node>& nodes) {
    const ValueId out = node.outputs[0];
    const Shape shape = graph_.value(out).shape;
    if (constant_[static_cast<size_t>(out)] || graph_.value(out).view) return false;
    // What is left over costs a launch each, where a GPU joins up to eight inputs in one.
    const auto& inputs = node.inputs("tensors");
    // What is of another type is converted on the way.
    const DType dtype = graph_.value(out).dtype;
    const auto converted = [&](ValueId id) { return graph_.value(id).dtype != dtype; };
    if (std::any_of(inputs.begin(), inputs.end(), converted)) return false;
    const auto left = std::count_if(inputs.begin(), inputs.end(),
                                    [&](ValueId id) { return !movable(base_of(id)); });
    if (!device_.is_cpu() && left > 1) return false;
    const NodeContext context{graph_, node, device_, settings_};
    const auto dim =
        static_cast<size_t>(context.wrap(node.integer("dim"), static_cast<int64_t>(shape.size())));
    const bool dense = product(std::span(shape).first(dim)) == Expr(1);
    const Shape strides = contiguous_strides(shape);

    std::vector<Placement> copied;
    std::vector<ValueId> sources;
    Expr offset = 0;
    bool any = false;
    for (ValueId input : inputs) {
      const Shape in_shape = graph_.value(input).shape;
      if (in_shape.size() != shape.size()) continue;  // torch's empty one-dimensional tensor
      const View slice{out, offset, strides};
      offset += in_shape[dim] * strides[dim];
      if (place_slice(input, slice, dense)) {
        any = true;
      } else {
        sources.push_back(input);
        copied.push_back({kNoValue, slice});
      }
    }
    if (!any) return false;
    for (size_t i = 0; i < copied.size(); ++i) add_copy(node, sources[i], copied[i].view, i, nodes);
    return true;
  }

  bool place_slice(ValueId input, const View& slice, bool dense) {
    const ValueId base = base_of(input);
    if (base == slice.base || !movable(base)) return false;  // there already: an input given twice
    const Shape shape = graph_.value(base).shape;
    const View own = layout_of(graph_, input);
    const bool whole = own.offset == Expr(0) && is_dense(graph_.value(input).shape, own.strides) &&
                       product(graph_.value(input).shape) == product(shape);
    if (!whole) return false;
    std::vector<Placement> moves;
    if (dense) {
      // Everything in the storage moves by the slice's offset.
      moves.push_back({base, View{slice.base, slice.offset, contiguous_strides(shape)}});
      for (size_t v = 0; v < graph_.values.size(); ++v) {
        const auto& view = graph_.values[v].view;
        if (!view || view->base != base) continue;
        moves.push_back({static_cast<ValueId>(v),
                         View{slice.base, view->offset + slice.offset, view->strides}});
      }
      return try_place(moves);
    }
    if (input != base || views_of(base) > 0) return false;
    for (int32_t reader : readers_[base]) {
      if (!reads_strided(graph_.nodes[static_cast<size_t>(reader)], base)) return false;
    }
    return try_place({{base, slice}});
  }

  int64_t views_of(ValueId base) const {
    return std::count_if(graph_.values.begin(), graph_.values.end(),
                         [&](const Value& v) { return v.view && v.view->base == base; });
  }

  static bool reads_strided(const Node& node, ValueId id) {
    if (node.op == "tv::pointwise" || node.op == "tv::copy" || moves(node, {Moves::kJoins}))
      return true;
    const Converter* converter = Registry::instance().find(node.op);
    for (const Arg& arg : node.args) {
      if (!arg.is_tensor || std::count(arg.values.begin(), arg.values.end(), id) == 0) continue;
      const auto& names = converter->reads_views;
      const bool any = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return name == "*" || name == arg.name;
      });
      if (!any) return false;
    }
    return true;
  }

  /// Moves the values where every node that touches them keeps its tactic.
  bool try_place(const std::vector<Placement>& moves) {
    std::set<int32_t> touched;
    for (const Placement& move : moves) {
      const auto value = static_cast<size_t>(move.value);
      if (value < producers_.size() && producers_[value] >= 0) touched.insert(producers_[value]);
      const auto& readers = readers_[base_of(move.value)];
      touched.insert(readers.begin(), readers.end());
    }
    touched.erase(current_);  // about to go
    for (int32_t gone : gone_) touched.erase(gone);
    std::vector<std::string> before;
    for (int32_t node : touched) before.push_back(tactic_of(node));
    std::vector<std::optional<View>> old;
    for (const Placement& move : moves) {
      old.push_back(graph_.value(move.value).view);
      graph_.value(move.value).view = move.view;
    }
    size_t i = 0;
    const bool kept = std::all_of(touched.begin(), touched.end(),
                                  [&](int32_t node) { return tactic_of(node) == before[i++]; });
    for (size_t m = 0; m < moves.size() && !kept; ++m) graph_.value(moves[m].value).view = old[m];
    if (!kept) return false;
    for (const Placement& move : moves) {
      auto& readers = readers_[move.view.base];
      const auto& moved = readers_[move.value];
      readers.insert(moved.begin(), moved.end());
    }
    return true;
  }

  std::string tactic_of(int32_t index) const {
    ValueTable table(graph_);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (constant_[v]) table.set_constant(static_cast<ValueId>(v), true);
    }
    const NodeTactics tactics =
        convert_node(graph_.nodes[static_cast<size_t>(index)], table, device_, settings_);
    return tactics.candidates[tactics.chosen].name;
  }

  void add_copy(const Node& cat, ValueId source, const View& slice, size_t number,
                std::vector<Node>& nodes) {
    Node node;
    node.op = "tv::copy";
    node.name = cat.name + "_part" + std::to_string(number);
    node.args = {tensor_arg("self", source)};
    node.source = cat.source;
    node.module_path = cat.module_path;
    node.fused_ops = {cat.op};
    const Value& value = graph_.value(source);
    const ValueId part = graph_.add_output(node, value.dtype, value.shape);
    graph_.value(part).view = slice;
    nodes.push_back(std::move(node));
  }

  Graph graph_;
  const Settings& settings_;
  const DeviceProfile& device_;
  std::vector<bool> constant_;
  std::vector<int32_t> producers_;
  std::map<ValueId, std::set<int32_t>> readers_;
  std::set<ValueId> outputs_;
  int32_t current_ = -1;    // the copy or concatenation being replaced
  std::set<int32_t> gone_;  // those that were
};

}  // namespace

Graph place_outputs(Graph graph, const Settings& settings, const DeviceProfile& device) {
  return OutputPlacer(std::move(graph), settings, device).run();
}

}  // namespace tv
