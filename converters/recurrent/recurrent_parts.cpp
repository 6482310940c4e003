#include "converters/recurrent/recurrent_parts.h"

#include <algorithm>
#include <iterator>

#include "converters/kit/steps.h"

namespace tv::rnn {
namespace {

constexpr Kind kKinds[] = {{"LSTM", "ifgo", 3},
                           {"GRU", "rzn", 2},
                           {"GRU_RESET_FIRST", "rzn", 3},
                           {"TANH", "h", 2},
                           {"RELU", "h", 2}};

}  // namespace

const Kind* kind_named(std::string_view name) {
  const auto* found = std::ranges::find(kKinds, name, &Kind::name);
  return found == std::end(kKinds) ? nullptr : found;
}

const Kind* kind_of(const Node& node) { return kind_named(node.text("kind")); }

bool is_lstm(const Kind& kind) { return std::string_view(kind.name) == "LSTM"; }

bool resets_first(const Kind& kind) { return std::string_view(kind.name) == "GRU_RESET_FIRST"; }

int64_t gates_of(const Kind& kind) {
  return static_cast<int64_t>(std::string_view(kind.gates).size());
}

std::string places(std::string_view gates, const std::string& order) {
  std::string text;
  for (const char gate : gates) {
    const size_t at = order.find(gate);
    if (at == std::string::npos) return "";
    text += (text.empty() ? "" : ", ") + std::to_string(at) + "u";
  }
  return text;
}

const Expr& batch_of(const NodeContext& c) { return c.shape("gates")[1]; }

int64_t hidden_size(const NodeContext& c) { return *c.shape("weight").back().constant(); }

const Expr& steps_of(const NodeContext& c) { return c.shape("gates")[0]; }

bool wanted(const NodeContext& c, size_t i) {
  return i < c.node.outputs.size() && c.node.outputs[i] != kNoValue &&
         is_used(c.graph, c.node.outputs[i]);
}

ValueId packed_weight(const NodeContext& c, Builder& b, const Packing& as, DType dtype,
                      std::vector<Step>& steps) {
  const ValueId weight = c.node.input("weight");
  const int64_t hidden = hidden_size(c), gates = static_cast<int64_t>(as.gates.size());
  const int64_t units = (hidden + as.width - 1) / as.width * as.width;
  const int64_t elements = as.k * gates * units;
  const ValueId packed = b.scratch("packed_" + std::string(as.gates), dtype, {Expr(elements)});
  const Shape strides = b.strides_of(weight);
  steps.push_back({.kernel = "recurrent_pack",
                   .defines = {{"H", text(hidden) + "u"},
                               {"K", text(as.k) + "u"},
                               {"GATES", text(gates) + "u"},
                               {"PLACES", places(as.gates, c.node.text("order"))},
                               {"FOURS", text(as.fours) + "u"},
                               {"WIDTH", text(as.width) + "u"}},
                   .operands = {src("w", weight), dst("y", packed)},
                   .params = {param("elements", elements), param("w_row", strides[0]),
                              param("w_k", strides[1])},
                   .grid = one_each(elements, 64)});
  return packed;
}

States states_between(const NodeContext& c, Builder& b, const Kind& kind, int64_t launches) {
  States states;
  const Shape shape = {batch_of(c), Expr(hidden_size(c))};
  for (int64_t turn = 0; turn < std::min<int64_t>(2, launches - 1); ++turn) {
    const std::string number = std::to_string(turn);
    states.hidden.push_back(b.scratch("hidden" + number, DType::kF32, shape));
    if (is_lstm(kind)) states.cell.push_back(b.scratch("cell" + number, DType::kF32, shape));
  }
  return states;
}

ValueId state_before(const NodeContext& c, const char* arg, const std::vector<ValueId>& turns,
                     int64_t i) {
  return i == 0 ? c.node.input(arg) : turns[static_cast<size_t>(i - 1) % 2];
}

ValueId state_after(const std::vector<ValueId>& turns, int64_t i) {
  return turns[static_cast<size_t>(i) % 2];
}

std::vector<std::pair<std::string, std::string>> kind_defines(const NodeContext& c,
                                                              const char* kind,
                                                              std::string_view gates) {
  return {{"KIND", kind},
          {"LSTM", "0"},
          {"GRU", "1"},
          {"GRU_RESET_FIRST", "2"},
          {"TANH", "3"},
          {"RELU", "4"},
          {"RESET", "5"},
          {"NEW", "6"},
          {"GATES", text(static_cast<int64_t>(gates.size())) + "u"},
          {"PLACES", places(gates, c.node.text("order"))},
          {"H", text(hidden_size(c)) + "u"},
          {"BIAS", flag(c.node.has("bias"))}};
}

}  // namespace tv::rnn
