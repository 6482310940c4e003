#include "csrc/passes/write/move_windows.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "csrc/converter.h"
#include "csrc/graph/edit.h"
#include "csrc/passes/kit/makers.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/simplify/simplify.h"

namespace tv {
namespace {

/// A join that moves the window `input` by `places`.
struct Move {
  int32_t join = -1;
  ValueId input = kNoValue, fresh = kNoValue;
  int64_t dim = 0, places = 0;
  bool forward = true;  ///< what is new comes last
};

class WindowMover {
 public:
  WindowMover(Graph graph, const Settings& settings, const DeviceProfile& device)
      : graph_(std::move(graph)), settings_(settings), device_(device), makers_(graph_) {}

  Graph run() {
    std::vector<Move> found;
    Replacements copies;
    for (const GraphOutput& output : graph_.outputs) {
      if (output.over == kNoValue) continue;
      const ValueId value = uncopied(output.value);
      const std::optional<Move> move = move_of(value, output.over);
      if (!move || !rolls_in_place(*move)) continue;
      found.push_back(*move);
      if (value != output.value) copies.add(output.value, value);
    }
    if (found.empty()) return std::move(graph_);
    std::vector<Node> nodes = std::move(graph_.nodes);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto move = std::ranges::find(found, static_cast<int32_t>(i), &Move::join);
      if (move == found.end()) {
        graph_.nodes.push_back(std::move(nodes[i]));
      } else {
        emit(nodes[i], *move);
      }
    }
    copies.apply(graph_);
    make_names_unique(graph_);
    return simplify(std::move(graph_));  // the slices
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }

  ValueId uncopied(ValueId v) const {
    for (const Node* node = makers_.maker(v); node && moves(*node, {Moves::kCopies});
         node = makers_.maker(v)) {
      v = node->all_inputs().at(0);
    }
    return v;
  }

  std::optional<Move> move_of(ValueId value, ValueId input) const {
    const Node* join = makers_.maker(value, "aten::cat");
    if (!join || join->inputs("tensors").size() != 2) return std::nullopt;
    const Value &whole = graph_.value(value), &given = graph_.value(input);
    if (!(whole.shape == given.shape) || whole.dtype != given.dtype) return std::nullopt;
    const auto rank = static_cast<int64_t>(whole.shape.size());
    int64_t dim = join->integer("dim");
    if (dim < 0) dim += rank;
    for (const bool forward : {true, false}) {
      const ValueId kept = join->inputs("tensors")[forward ? 0 : 1];
      const ValueId fresh = join->inputs("tensors")[forward ? 1 : 0];
      const bool fits = shape(fresh).size() == whole.shape.size();
      const int64_t places =
          fits ? shape(fresh)[static_cast<size_t>(dim)].constant().value_or(0) : 0;
      const Node* slice = makers_.only(kept, "aten::slice.Tensor");
      if (places < 1 || graph_.value(fresh).dtype != given.dtype) continue;
      if (!slice || slice->input("self") != input || makers_.readers(input).size() != 1) continue;
      int64_t sliced = slice->integer("dim");
      if (sliced < 0) sliced += rank;
      // The sizes say how many positions are kept; so its start says which.
      const Expr start = slice->has("start") ? slice->expr("start") : Expr(0);
      if (sliced != dim || !is_one(*slice, "step")) continue;
      if (!(start == Expr(forward ? places : 0))) continue;
      return Move{
          static_cast<int32_t>(join - graph_.nodes.data()), input, fresh, dim, places, forward};
    }
    return std::nullopt;
  }

  static Node roll_node(const Node& join, const Move& move) {
    Node roll = node_for(join, "aten::roll", "_moved");
    const int64_t by = move.forward ? -move.places : move.places;
    roll.args = {tensor_arg("self", move.input), attr_arg("shifts", std::vector<Expr>{Expr(by)}),
                 attr_arg("dims", std::vector<Expr>{Expr(move.dim)})};
    return roll;
  }

  bool rolls_in_place(const Move& move) const {
    Node roll = roll_node(graph_.nodes[static_cast<size_t>(move.join)], move);
    roll.outputs = {move.input};
    const Converter* converter = Registry::instance().find("tv::in_place_roll");
    return converter && converter->unsupported({graph_, roll, device_, settings_}).empty();
  }

  void emit(const Node& join, const Move& move) {
    const Expr size = shape(move.input).at(static_cast<size_t>(move.dim)), places = move.places;
    const ValueId rolled = append(graph_, roll_node(join, move), graph_.value(move.input).dtype,
                                  Shape(shape(move.input)));
    Node put = node_for(join, "aten::slice_scatter", "");
    put.args = {tensor_arg("self", rolled),
                tensor_arg("src", move.fresh),
                attr_arg("dim", Expr(move.dim)),
                attr_arg("start", move.forward ? size - places : Expr(0)),
                attr_arg("end", move.forward ? size : places),
                attr_arg("step", Expr(1))};
    put.outputs = join.outputs;
    graph_.nodes.push_back(std::move(put));
  }

  Graph graph_;
  const Settings& settings_;
  const DeviceProfile& device_;
  const Makers makers_;
};

}  // namespace

Graph move_windows(Graph graph, const Settings& settings, const DeviceProfile& device) {
  return WindowMover(std::move(graph), settings, device).run();
}

}  // namespace tv
