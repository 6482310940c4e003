#include "python/bindings/script/block.h"

#include <algorithm>
#include <map>

#include "runtime/base/error.h"

namespace tv::script {
namespace {

using torch::jit::Value;

/// Writes the sizes of a block, which are over the symbols of its region, over those of `sizes`.
class Restated {
 public:
  /// `block` has symbols of the region by their names.
  Restated(const Sizes& region, const Graph& block, Sizes& sizes)
      : sizes_(sizes), executions_(region.fitted()) {
    for (const Symbol& symbol : block.symbols) symbols_.push_back(region.numbers(symbol.name));
  }

  void apply(Graph& graph) {
    std::vector<bool> done(graph.values.size(), false);
    const auto value = [&](ValueId v) {
      if (v == kNoValue || done[v]) return;
      done[v] = true;
      for (Expr& dim : graph.value(v).shape) dim = restated(dim);
    };
    // In the order of their making: which expression a size gets depends on those before it.
    for (Node& node : graph.nodes) {
      for (Arg& arg : node.args) {
        for (const ValueId v : arg.values) value(v);
        if (auto* e = std::get_if<Expr>(&arg.attr)) *e = restated(*e);
        if (auto* list = std::get_if<std::vector<Expr>>(&arg.attr)) {
          for (Expr& e : *list) e = restated(e);
        }
      }
      for (const ValueId v : node.outputs) value(v);
    }
    graph.symbols = sizes_.symbols();
    graph.conditions.clear();
  }

 private:
  Expr restated(const Expr& e) {
    if (e.is_constant()) return e;
    Numbers numbers;
    for (size_t k = 0; k < executions_; ++k) {
      std::vector<int64_t> at;
      for (const Numbers& symbol : symbols_) at.push_back(symbol[k]);
      numbers.push_back(e.eval(at));
    }
    return expr_of(sizes_, numbers);
  }

  Sizes& sizes_;
  const size_t executions_;
  std::vector<Numbers> symbols_;
};

}  // namespace

EngineGraph engine_graph(const RegionPartition& parts, size_t block, const Excision& excision,
                         const ImportContext& context, Sizes& sizes) {
  const auto& ids_of = parts.imported.values;
  EngineGraph made;
  Border border{.outputs = std::vector<GraphOutput>{}, .binds_symbols = false};
  for (const Value* value : excision.outputs) {
    std::vector<int>& positions = made.outputs.emplace_back();
    const std::vector<ValueId>& ids = ids_of.at(value);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto found = std::ranges::find(*border.outputs, ids[i], &GraphOutput::value);
      positions.push_back(static_cast<int>(found - border.outputs->begin()));
      if (found != border.outputs->end()) continue;
      border.outputs->push_back({ids[i], value->debugName(), {}});
    }
  }
  Block cut_out = cut(parts.plan, block, border);
  made.graph = std::move(cut_out.graph);
  Restated(*context.sizes, made.graph, sizes).apply(made.graph);
  for (size_t o = 0; o < excision.outputs.size(); ++o) {
    for (size_t i = 0; i < made.outputs[o].size(); ++i) {
      Shape& promised = made.graph.outputs[made.outputs[o][i]].strides;
      if (!promised.empty()) continue;
      for (const Numbers& stride : context.runs.strides(excision.outputs[o], i)) {
        promised.push_back(expr_of(sizes, stride));
      }
    }
  }
  std::map<ValueId, Value*> given;
  for (Value* value : excision.inputs) {
    const auto ids = ids_of.find(value);  // there is none of what only other nodes read
    if (ids == ids_of.end() || ids->second.size() != 1) continue;
    const auto [first, fresh] = given.emplace(ids->second.front(), value);
    if (!fresh) made.aliases.emplace_back(value, first->second);
  }
  for (const ValueId id : cut_out.inputs) {
    const auto found = given.find(id);
    if (found == given.end()) {
      throw Error(ErrorKind::kUnsupported, "it takes a list of tensors that is made elsewhere");
    }
    made.inputs.push_back(found->second);
  }
  for (const ValueId id : cut_out.weights) made.weights.push_back(parts.imported.weights.at(id));
  return made;
}

}  // namespace tv::script
