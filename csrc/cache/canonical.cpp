#include "csrc/cache/canonical.h"

#include <set>
#include <tuple>

#include "runtime/base/sha256.h"

namespace tv {
namespace {

std::string hash_of(const std::string& text) {
  const auto digest =
      Sha256().update({reinterpret_cast<const uint8_t*>(text.data()), text.size()}).finish();
  return {digest.begin(), digest.end()};
}

/// A node's values, in an order that depends on the node alone.
void for_each_value(Node& node, const auto& f) {
  for (Arg& arg : node.args) {
    for (ValueId& v : arg.values) f(v);
  }
  for (ValueId& v : node.epilogue_inputs) f(v);
  for (ValueId& v : node.prologue_inputs) f(v);
}

class Canonicaliser {
 public:
  explicit Canonicaliser(const Graph& graph)
      : graph_(graph), operands_(graph.nodes.size()), texts_(graph.nodes.size()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) read_node(n);
  }

  CanonicalGraph run() {
    hash_forward();
    hash_backward();
    place_nodes();
    result_.text = text();
    return std::move(result_);
  }

 private:
  /// The node's own text, its operands numbered from 0.
  void read_node(size_t n) {
    Node node = graph_.nodes[n];
    for_each_value(node, [&](ValueId& v) {
      if (v == kNoValue) return;
      operands_[n].push_back(v);
      v = static_cast<ValueId>(operands_[n].size() - 1);
    });
    texts_[n] = signature(node);
    for (const std::string& op : node.fused_ops) texts_[n] += " " + op;
    for (const ValueId v : node.outputs)
      texts_[n] += " -> " + (v == kNoValue ? "None" : type_text(graph_.value(v)));
  }

  /// What each value is computed from.
  void hash_forward() {
    computed_.resize(graph_.values.size());
    const auto leaf = [&](const std::vector<ValueId>& ids, const char* kind) {
      for (size_t i = 0; i < ids.size(); ++i) {
        computed_[ids[i]] =
            hash_of(kind + std::to_string(i) + " " + type_text(graph_.value(ids[i])));
      }
    };
    leaf(graph_.inputs, "input ");
    leaf(graph_.weights, "weight ");
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      std::string all = texts_[n];
      for (const ValueId v : operands_[n]) all += computed_[v];
      const auto& outputs = graph_.nodes[n].outputs;
      for (size_t k = 0; k < outputs.size(); ++k) {
        if (outputs[k] != kNoValue) computed_[outputs[k]] = hash_of(std::to_string(k) + " " + all);
      }
      node_hash_.push_back(hash_of(all));
    }
  }

  /// What each value is used for: tells equal nodes apart by their readers.
  void hash_backward() {
    std::vector<std::multiset<std::string>> uses(graph_.values.size());
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      uses[graph_.outputs[i].value].insert("output " + std::to_string(i));
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      std::string all = node_hash_[n];
      for (const ValueId v : graph_.nodes[n].outputs) {
        all += ";";
        if (v == kNoValue) continue;
        for (const std::string& use : uses[v]) all += use;
      }
      node_hash_[n] = hash_of(all);
      for (size_t k = 0; k < operands_[n].size(); ++k)
        uses[operands_[n][k]].insert(hash_of(node_hash_[n] + std::to_string(k)));
    }
  }

  /// Of the nodes whose operands are placed, the one with the least hash comes first; equal ones
  /// follow the numbers of their operands.
  void place_nodes() {
    result_.value_position.assign(graph_.values.size(), -1);
    result_.node_position.assign(graph_.nodes.size(), -1);
    for (const auto* leaves : {&graph_.inputs, &graph_.weights}) {
      for (const ValueId v : *leaves) result_.value_position[v] = next_value_++;
    }
    std::vector<std::vector<size_t>> readers(graph_.values.size());
    std::vector<size_t> waiting(graph_.nodes.size(), 0);
    const std::vector<int32_t> makers = producers(graph_);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const ValueId v : std::set<ValueId>(operands_[n].begin(), operands_[n].end())) {
        readers[v].push_back(n);
        waiting[n] += makers[v] >= 0;
      }
      if (waiting[n] == 0) ready_.insert(entry(n));
    }
    while (!ready_.empty()) {
      const size_t n = std::get<2>(ready_.extract(ready_.begin()).value());
      result_.node_position[n] = static_cast<int32_t>(order_.size());
      order_.push_back(n);
      for (const ValueId v : graph_.nodes[n].outputs) {
        if (v == kNoValue) continue;
        result_.value_position[v] = next_value_++;
        for (const size_t reader : readers[v]) {
          if (--waiting[reader] == 0) ready_.insert(entry(reader));
        }
      }
    }
  }

  using Entry = std::tuple<std::string, std::vector<int32_t>, size_t>;
  Entry entry(size_t n) const {
    std::vector<int32_t> numbers;
    for (const ValueId v : operands_[n]) numbers.push_back(result_.value_position[v]);
    return {node_hash_[n], numbers, n};
  }

  std::string text() const {
    std::string out;
    for (const Symbol& s : graph_.symbols) {
      out += "symbol " + std::to_string(s.min) + " " + std::to_string(s.opt) + " " +
             std::to_string(s.max) + "\n";
    }
    for (const Condition& c : graph_.conditions) out += "condition " + condition_text(c) + "\n";
    for (const ValueId v : graph_.inputs) out += "input " + type_of(v) + "\n";
    for (const ValueId v : graph_.weights) out += "weight " + type_of(v) + "\n";
    for (const size_t n : order_) {
      out += texts_[n] + " of";
      for (const ValueId v : operands_[n]) out += " " + number(v);
      out += "\n";
    }
    for (const GraphOutput& output : graph_.outputs) {
      out += "output " + number(output.value);
      if (!output.strides.empty()) out += " strides";
      for (const Expr& stride : output.strides) out += " " + stride.str();
      if (output.over != kNoValue) out += " over " + number(output.over);
      out += "\n";
    }
    return out;
  }

  std::string number(ValueId v) const {
    return v == kNoValue ? "None" : std::to_string(result_.value_position[v]);
  }
  std::string type_of(ValueId v) const { return type_text(graph_.value(v)); }

  const Graph& graph_;
  std::vector<std::vector<ValueId>> operands_;  // by node
  std::vector<std::string> texts_;
  std::vector<std::string> computed_;  // by value
  std::vector<std::string> node_hash_;
  std::set<Entry> ready_;
  std::vector<size_t> order_;
  int32_t next_value_ = 0;
  CanonicalGraph result_;
};

}  // namespace

CanonicalGraph canonical_form(const Graph& graph) { return Canonicaliser(graph).run(); }

}  // namespace tv
