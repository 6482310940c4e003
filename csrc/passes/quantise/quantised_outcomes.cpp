#include "csrc/passes/quantise/quantised_outcomes.h"

#include <algorithm>
#include <set>

#include "csrc/graph/edit.h"
#include "csrc/graph/quantised.h"
#include "csrc/passes/kit/integer_operand.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/kit/product_operands.h"
#include "csrc/passes/kit/quantised_pieces.h"

namespace tv {
namespace {

class Outcomes {
 public:
  Outcomes(const Graph& after, const BeforeMultiply& before)
      : graph_(after), nodes_(before.nodes), constant_(before.constant), live_(live_values(after)) {
    for (const Node& node : before.nodes) {
      for (const ValueId out : node.outputs) made_by_[out] = &node;
    }
  }

  std::vector<QuantisedOutcome> all(const std::map<const Node*, PackedReads>& packed,
                                    IntegerReads integers) const {
    std::vector<QuantisedOutcome> outcomes;
    std::set<ValueId> scales;  // of others, which say what became of them
    for (const Node& node : nodes_) {
      if (node.op != "tv::dequantize") continue;
      ValueId scale = node.input("scale");
      for (; scale != kNoValue && maker(scale); scale = maker(scale)->input("self")) {
        scales.insert(scale);
        if (!swaps_dimensions(*maker(scale))) break;
      }
    }
    for (const Node& node : nodes_) {
      const auto counts = packed.find(&node);
      if (node.outputs[0] != kNoValue && scales.contains(node.outputs[0])) continue;
      if (node.op != "tv::dequantize" && counts == packed.end()) continue;
      // Codes without a scale of their own are told of with what scales them.
      const bool scaled_behind = node.has("format") && node.input("scale") == kNoValue;
      if (scaled_behind && counts == packed.end() && !live_.contains(node.outputs[0])) continue;
      PackedReads read = counts == packed.end() ? PackedReads{} : counts->second;
      if (node.op == "tv::dequantize") read.tensor = graph_.value(node.input("input")).name;
      std::string outcome;
      const auto add = [&](const std::string& part) {
        outcome += (outcome.empty() ? "" : "; ") + part;
      };
      if (const auto found = integers.reads.find(read.tensor); found != integers.reads.end()) {
        add(outcome_of_integers(found->second));
        integers.reads.erase(found);
      }
      if (read.products > 0) {
        add("read packed by " + some(read.products, "product") +
            (read.four_bits > 0 ? ", in 4 bits" : "") +
            (read.gathered > 0 ? " behind a gather of the input" : ""));
      }
      if (read.lookups > 0) add("read packed by " + some(read.lookups, "embedding"));
      std::set<std::string> ops = readers_of_floats(node.outputs[0]);
      const bool constant = constant_[static_cast<size_t>(node.outputs[0])];
      if (!constant && ops.erase("tv::quantize") > 0) add("quantised again by another scale");
      if (!constant && !ops.empty() && only_means(node.outputs[0])) {
        add("read as integers by " + listed(ops));
        ops.clear();
      }
      if (!ops.empty()) {
        add((constant ? "computed once for each set of weights and held as "
                      : "computed at each call as ") +
            type_text(graph_.value(node.outputs[0])) + ", for " + listed(ops));
        const auto refused = integers.refused.find(read.tensor);
        if (refused != integers.refused.end()) {
          add("not multiplied as integers: " + refused->second);
        }
      }
      outcomes.push_back(
          {read.tensor, node.source, node.module_path, outcome.empty() ? "unused" : outcome});
    }
    for (const auto& [tensor, readers] : integers.reads) {
      const IntegerRead& first = readers.front();
      outcomes.push_back({tensor, first.source, first.module_path, outcome_of_integers(readers)});
    }
    return outcomes;
  }

 private:
  const Node* maker(ValueId value) const {
    const auto found = made_by_.find(value);
    return found == made_by_.end() ? nullptr : found->second;
  }

  /// The operators that still read the floats, behind views and casts, and that something reads.
  std::set<std::string> readers_of_floats(ValueId value) const {
    std::set<std::string> found;
    const auto returned = [&](const GraphOutput& output) { return output.value == value; };
    if (std::ranges::any_of(graph_.outputs, returned)) found.insert("the caller");
    for (const Node& node : graph_.nodes) {
      if (std::ranges::none_of(node.outputs, [&](ValueId v) { return live_.contains(v); }))
        continue;
      const std::vector<ValueId> reads = node.all_inputs();
      if (std::ranges::find(reads, value) == reads.end()) continue;
      if (swaps_dimensions(node) || keeps_values(node)) {
        found.merge(readers_of_floats(node.outputs[0]));
      } else {
        found.insert(node.op);
      }
    }
    return found;
  }

  /// Whether windows of elements are averaged, and nothing else: such kernels dequantise what they
  /// load (Converter::prologue_arg).
  bool only_means(ValueId value) const {
    size_t means = 0, others = static_cast<size_t>(std::ranges::count_if(
                          graph_.outputs, [&](const GraphOutput& o) { return o.value == value; }));
    for (const Node& node : nodes_) {
      const std::vector<ValueId> reads = node.all_inputs();
      if (std::ranges::find(reads, value) == reads.end()) continue;
      ++(moves(node, {Moves::kMeans}) ? means : others);
    }
    return means > 0 && others == 0;
  }

  static std::string some(size_t n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  }

  static std::string listed(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  /// What reads a tensor of integers as such: "multiplied as integers by 2 products", "moved as
  /// integers by aten::cat".
  static std::string outcome_of_integers(const std::vector<IntegerRead>& readers) {
    std::set<std::string> movers;
    size_t convolutions = 0, products = 0;
    for (const auto& [op, source, module_path] : readers) {
      if (moves_of(op) != Moves::kNothing && moves_of(op) != Moves::kMeans) {
        movers.insert(op);
      } else {
        ++(op.find("conv") != op.npos ? convolutions : products);
      }
    }
    std::string text;
    if (products > 0) text = some(products, "product");
    if (convolutions > 0) text += (text.empty() ? "" : " and ") + some(convolutions, "convolution");
    if (!text.empty()) text = "multiplied as integers by " + text;
    if (movers.empty()) return text;
    return text + (text.empty() ? "" : "; ") + "moved as integers by " + listed(movers);
  }

  const Graph& graph_;
  const std::vector<Node>& nodes_;
  const std::vector<bool>& constant_;
  const std::set<ValueId> live_;
  std::map<ValueId, const Node*> made_by_;
};

}  // namespace

std::vector<QuantisedOutcome> outcomes_of_quantised(
    const Graph& after, const BeforeMultiply& before,
    const std::map<const Node*, PackedReads>& packed, IntegerReads integers) {
  return Outcomes(after, before).all(packed, std::move(integers));
}

}  // namespace tv
