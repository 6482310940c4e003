// LSTM, GRU and RNN as PyTorch calls them, of several layers and both directions: a product of all
// inputs and tv::recurrent or tv::lstm for each. TorchScript has ATen's operators;
// kept_composites.py keeps those of torch_vulkan whole.

#include "converters/kit/matmul_nodes.h"
#include "converters/kit/steps.h"
#include "converters/recurrent/recurrent.h"

namespace tv {
namespace {

struct Network {
  const char* kind;   // of tv::recurrent
  const char* order;  // its gates
};

bool is_lstm(const Network& network) { return std::string_view(network.kind) == "LSTM"; }

int64_t directions(const Node& node) { return node.flag("bidirectional") ? 2 : 1; }

size_t weights_of_each(const Node& node) { return node.flag("has_biases") ? 4 : 2; }

std::string refusal(const NodeContext& c, const Network& network) {
  const std::string at = "[" + c.node.op + "] ";
  if (!c.node.has("input") || c.rank("input") != 3) return at + "inputs that are not of rank 3";
  if (std::string reason = floats_only(c, "input"); !reason.empty()) return reason;
  if (c.node.has("dropout") && c.node.number("dropout") > 0 && c.node.flag("train")) {
    return at + "dropout while training";
  }
  const auto& params = c.node.inputs("params");
  const auto count = static_cast<size_t>(c.node.integer("num_layers") * directions(c.node));
  if (count == 0 || params.size() != count * weights_of_each(c.node)) {
    return at + "weights of another number: projections are not supported";
  }
  const Expr size = c.graph.value(params[1]).shape.back();
  if (std::string reason = recurrent_refusal(c, network.kind, size); !reason.empty()) return reason;
  const Expr steps = c.shape("input")[c.node.flag("batch_first") ? 1 : 0];
  return slow_loop_refusal(c, network.kind, size, steps);
}

/// Writes the nodes that replace one.
class Expansion {
 public:
  Expansion(const NodeContext& c, Rewriter& rw, const Network& network)
      : c_(c), rw_(rw), network_(network), dtype_(c.dtype("input")) {}

  void write() {
    const bool batch_first = c_.node.flag("batch_first");
    ValueId x = c_.node.input("input");
    bool by_steps = !batch_first;
    std::vector<ValueId> hidden, cell;
    const int64_t layers = c_.node.integer("num_layers"), each = directions(c_.node);
    for (int64_t layer = 0; layer < layers; ++layer) {
      std::vector<ValueId> all;
      for (int64_t d = 0; d < each; ++d) {
        const auto states = direction(x, by_steps, layer * each + d, d == 1);
        all.push_back(states[0]);
        hidden.push_back(states[1]);
        if (is_lstm(network_)) cell.push_back(states[2]);
      }
      x = joined(all, 2);
      by_steps = true;
    }
    put(0, batch_first ? rw_.permute(x, {1, 0, 2}) : x);
    put(1, stacked(hidden));
    if (is_lstm(network_)) put(2, stacked(cell));
  }

 private:
  const Shape& shape(ValueId value) { return rw_.graph().value(value).shape; }

  void put(size_t output, ValueId value) {
    if (is_used(c_.graph, c_.node.outputs.at(output))) rw_.replace(output, value);
  }

  ValueId joined(const std::vector<ValueId>& parts, int64_t dim) {
    if (parts.size() == 1) return parts[0];
    Shape whole = shape(parts[0]);
    whole[static_cast<size_t>(dim)] *= static_cast<int64_t>(parts.size());
    return rw_.add("aten::cat", {tensor_list_arg("tensors", parts), attr_arg("dim", integer(dim))},
                   dtype_, whole);
  }

  ValueId stacked(const std::vector<ValueId>& states) {
    std::vector<ValueId> parts;
    for (const ValueId state : states) {
      Shape one = shape(state);
      one.insert(one.begin(), Expr(1));
      parts.push_back(rw_.reshape(state, one));
    }
    return joined(parts, 0);
  }

  /// The initial state `number` of those in `value`.
  ValueId state(ValueId value, int64_t number) {
    const Shape& all = shape(value);
    return rw_.add("aten::select.int",
                   {tensor_arg("self", value), attr_arg("dim", integer(0)),
                    attr_arg("index", integer(number))},
                   rw_.graph().value(value).dtype, Shape(all.begin() + 1, all.end()));
  }

  /// x Wᵀ + b of all steps, [steps, batch, gates].
  ValueId gates(ValueId x, bool by_steps, ValueId weight, ValueId bias) {
    const Shape from = shape(x);
    const Expr rows = shape(weight)[0];
    const DType sums = sum_dtype(dtype_);
    ValueId y =
        matmul_of(rw_, rw_.reshape(x, {from[0] * from[1], from[2]}), transposed(rw_, weight), sums);
    if (bias != kNoValue) y = rw_.pointwise("add", {y, rw_.cast(bias, sums)}, sums);
    y = rw_.reshape(y, {from[0], from[1], rows});
    return by_steps ? y : rw_.permute(y, {1, 0, 2});
  }

  /// All states, the last one and the last cell.
  std::vector<ValueId> direction(ValueId x, bool by_steps, int64_t number, bool reverse) {
    const size_t each = weights_of_each(c_.node), first = static_cast<size_t>(number) * each;
    const auto& params = c_.node.inputs("params");
    const bool biases = each == 4;
    const ValueId in =
        gates(x, by_steps, params.at(first), biases ? params.at(first + 2) : kNoValue);
    const auto& given = c_.node.inputs("hx");
    const Shape& all = shape(in);
    const Expr steps = all[0], batch = all[1], size = shape(params.at(first + 1)).back();
    std::vector<std::pair<DType, Shape>> results = {{dtype_, {steps, batch, size}},
                                                    {dtype_, {batch, size}}};
    if (is_lstm(network_)) results.push_back({dtype_, {batch, size}});
    std::vector<Arg> args = {tensor_arg("gates", in), tensor_arg("weight", params.at(first + 1)),
                             tensor_arg("bias", biases ? params.at(first + 3) : kNoValue),
                             tensor_arg("hidden", state(given.at(0), number))};
    if (is_lstm(network_)) args.push_back(tensor_arg("cell", state(given.at(1), number)));
    args.insert(args.end(),
                {tensor_arg("lengths", kNoValue), attr_arg("kind", std::string(network_.kind)),
                 attr_arg("order", std::string(network_.order)), attr_arg("reverse", reverse)});
    return rw_.add_multi(is_lstm(network_) ? "tv::lstm" : "tv::recurrent", std::move(args),
                         results);
  }

  const NodeContext& c_;
  Rewriter& rw_;
  const Network& network_;
  DType dtype_;
};

/// Shapes of the results; those of the weights are what PyTorch has checked.
void check_network(NodeTypes& t) {
  const Shape x = t.shape("input");
  const auto params = t.shapes("params"), states = t.shapes("hx");
  t.want(x.size() == 3 && params.size() >= 2 && !states.empty(), "the operands");
  const bool batch_first = t.node().flag("batch_first");
  const Expr batch = x[batch_first ? 0 : 1], steps = x[batch_first ? 1 : 0];
  const int64_t each = t.node().flag("bidirectional") ? 2 : 1;
  const int64_t layers = t.integer("num_layers", 1);
  const size_t of_each = t.node().flag("has_biases") ? 4 : 2;
  t.want(layers >= 1 && params.size() == static_cast<size_t>(layers * each) * of_each,
         "the number of weights");
  const Expr size = params[1].back();
  for (size_t i = 0; i < params.size(); ++i) {
    const auto layer = static_cast<int64_t>(i / of_each) / each;
    const Expr rows = params[1][0];
    if (i % of_each == 0) t.equal(params[i], {rows, layer == 0 ? x[2] : size * each}, "a weight");
    if (i % of_each == 1) t.equal(params[i], {rows, size}, "a weight");
    if (i % of_each > 1) t.equal(params[i], {rows}, "a bias");
  }
  const Shape state = {Expr(layers * each), batch, size};
  for (const Shape& given : states) t.equal(given, state, "a state");
  t.gives(batch_first ? Shape{batch, steps, size * each} : Shape{steps, batch, size * each}, 0);
  for (size_t i = 1; i < t.results(); ++i) {
    if (t.has_result(i)) t.gives(state, i);
  }
}

Converter network_entry(std::string op, Network network) {
  return {.op = std::move(op),
          .unsupported = [network](const NodeContext& c) { return refusal(c, network); },
          .expand = [network](const NodeContext& c,
                              Rewriter& rw) { Expansion(c, rw, network).write(); },
          .types = check_network,
          .notes = "without projections, and without dropout while training"};
}

constexpr Network kLstm = {"LSTM", "ifgo"}, kGru = {"GRU", "rzn"}, kTanh = {"TANH", "h"},
                  kRelu = {"RELU", "h"};

const RegisterConverter networks{
    network_entry("aten::lstm.input", kLstm),       network_entry("aten::gru.input", kGru),
    network_entry("aten::rnn_tanh.input", kTanh),   network_entry("aten::rnn_relu.input", kRelu),
    network_entry("torch_vulkan::lstm", kLstm),     network_entry("torch_vulkan::gru", kGru),
    network_entry("torch_vulkan::rnn_tanh", kTanh), network_entry("torch_vulkan::rnn_relu", kRelu)};

}  // namespace
}  // namespace tv
