#include <algorithm>
#include <map>

#include "csrc/partition/partition.h"
#include "csrc/partition/symbols.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

/// Copies a block's nodes and values; numbers values, weights and symbols by first use, so that the
/// result depends on the block alone.
class Extractor {
 public:
  Extractor(const Graph& graph, const std::vector<int32_t>& nodes, const Border& border)
      : graph_(graph),
        nodes_(nodes),
        border_(border),
        symbols_(border.symbols ? *border.symbols : graph.symbols),
        new_id_(graph.values.size(), kNoValue) {}

  Block run() {
    block_.graph.name = graph_.name;
    block_.graph.calibrated = graph_.calibrated;
    for (const ValueId v : border_.inputs) read(v);
    for (const int32_t n : nodes_) copy(graph_.nodes[n]);
    if (border_.binds_symbols) bind_symbols();
    for (const ValueId v : block_.inputs) block_.graph.inputs.push_back(new_id_[v]);
    for (const ValueId v : block_.weights) block_.graph.weights.push_back(new_id_[v]);
    add_outputs();
    renumber_symbols();
    check(block_.graph, "extract");
    return std::move(block_);
  }

 private:
  ValueId copy_value(ValueId v) {
    new_id_[v] = block_.graph.add_value(graph_.value(v));
    return new_id_[v];
  }

  /// A value that the block reads: its own, or one that becomes an input or weight.
  ValueId read(ValueId v) {
    if (v == kNoValue || new_id_[v] != kNoValue) return v == kNoValue ? v : new_id_[v];
    const bool weight = graph_.value(v).kind == ValueKind::kWeight;
    (weight ? block_.weights : block_.inputs).push_back(v);
    const ValueId id = copy_value(v);
    block_.graph.value(id).kind = weight ? ValueKind::kWeight : ValueKind::kInput;
    return id;
  }

  void copy(Node node) {
    for (Arg& a : node.args) {
      for (ValueId& v : a.values) v = read(v);
    }
    for (ValueId& v : node.epilogue_inputs) v = read(v);
    for (ValueId& v : node.prologue_inputs) v = read(v);
    for (ValueId& v : node.outputs) {
      if (v != kNoValue) v = copy_value(v);
    }
    node.origin.after.clear();
    node.origin.demands.clear();
    block_.graph.nodes.push_back(std::move(node));
  }

  /// Where a node's sizes come from: no kernel touches their elements.
  void bind_by_what_is_waited_for(std::set<int32_t>& wanted) {
    for (const int32_t n : nodes_) {
      for (const ValueId v : graph_.nodes[n].origin.after) {
        const size_t before = wanted.size();
        if (graph_.value(v).dtype != DType::kOther) drop_bound(wanted, graph_.value(v));
        if (wanted.size() != before) read(v);
      }
    }
  }

  void bind_symbols() {
    std::set<int32_t> wanted = used_symbols(graph_, nodes_);
    for (const ValueId v : block_.inputs) drop_bound(wanted, graph_.value(v));
    for (const ValueId v : inputs_that_bind(graph_, wanted)) {
      if (new_id_[v] == kNoValue) read(v);
    }
    bind_by_what_is_waited_for(wanted);
    if (wanted.empty()) return;
    throw Error(ErrorKind::kInternal, "[extract] no input of the block determines the symbol '" +
                                          symbols_.at(*wanted.begin()).name + "'");
  }

  void add_outputs() {
    if (border_.outputs) {
      for (GraphOutput output : *border_.outputs) {
        block_.outputs.push_back(output.value);
        output.value = new_id_[output.value];
        if (output.over != kNoValue) output.over = new_id_[output.over];
        block_.graph.outputs.push_back(std::move(output));
      }
      return;
    }
    std::vector<bool> inside(graph_.nodes.size(), false), wanted(graph_.values.size(), false);
    for (const int32_t n : nodes_) inside[n] = true;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (inside[n]) continue;
      for (const ValueId v : graph_.nodes[n].waits_for()) wanted[v] = true;
    }
    std::map<ValueId, Shape> strides;
    for (const GraphOutput& out : graph_.outputs) {
      wanted[out.value] = true;
      strides.emplace(out.value, out.strides);
    }
    for (const int32_t n : nodes_) {
      for (const ValueId v : graph_.nodes[n].outputs) {
        if (v == kNoValue || !wanted[v]) continue;
        block_.outputs.push_back(v);
        block_.graph.outputs.push_back({new_id_[v], graph_.value(v).name, strides[v]});
      }
    }
  }

  void renumber_symbols() {
    std::map<int32_t, int32_t> renamed;  // old → new, by first use in the block
    const auto number = [&](const Expr& e) {
      for (const int32_t id : e.symbols()) {
        if (renamed.emplace(id, static_cast<int32_t>(renamed.size())).second) {
          block_.graph.symbols.push_back(symbols_.at(id));
        }
      }
    };
    std::vector<Expr*> all;
    collect_exprs(all);
    for (const Expr* e : all) number(*e);
    std::vector<Expr> by(symbols_.size());
    for (const auto& [old, now] : renamed) by[old] = Expr::symbol(now);
    for (Expr* e : all) {
      if (!e->is_constant()) *e = e->substitute(by);
    }
    add_conditions(graph_.conditions, by, renamed);
    for (const int32_t n : nodes_) add_conditions(graph_.nodes[n].origin.demands, by, renamed);
  }

  /// Those whose symbols are all in the block; `by`: what symbols become, `renamed`: which.
  void add_conditions(std::vector<Condition> conditions, const std::vector<Expr>& by,
                      const std::map<int32_t, int32_t>& renamed) {
    for (Condition& condition : conditions) {
      const std::set<int32_t> ids = condition.symbols();
      const auto known = [&](int32_t id) { return renamed.contains(id); };
      if (!std::all_of(ids.begin(), ids.end(), known) ||
          condition.decided(symbols_).value_or(false)) {
        continue;
      }
      condition.left = condition.left.substitute(by);
      condition.right = condition.right.substitute(by);
      add_condition(block_.graph.conditions, std::move(condition));
    }
  }

  /// Every expression of the block, in an order that does not depend on symbol numbers.
  void collect_exprs(std::vector<Expr*>& out) {
    const auto add_shape = [&](Shape& shape) {
      for (Expr& e : shape) out.push_back(&e);
    };
    for (Value& value : block_.graph.values) {
      add_shape(value.shape);
      if (!value.view) continue;
      out.push_back(&value.view->offset);
      add_shape(value.view->strides);
    }
    for (Node& node : block_.graph.nodes) {
      for (Arg& a : node.args) {
        if (auto* e = std::get_if<Expr>(&a.attr)) out.push_back(e);
        if (auto* list = std::get_if<std::vector<Expr>>(&a.attr)) add_shape(*list);
      }
      add_shape(node.prologue_shape);
    }
    for (GraphOutput& o : block_.graph.outputs) add_shape(o.strides);
  }

  const Graph& graph_;
  const std::vector<int32_t>& nodes_;
  const Border& border_;
  const std::vector<Symbol>& symbols_;
  std::vector<ValueId> new_id_;
  Block block_;
};

}  // namespace

Block extract(const Graph& graph, const std::vector<int32_t>& nodes, const Border& border) {
  return Extractor(graph, nodes, border).run();
}

}  // namespace tv
