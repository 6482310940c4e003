#include "csrc/passes/simplify/fold_batch_norm.h"

#include <algorithm>
#include <array>
#include <map>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/product_operands.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

struct BatchNorm {
  ValueId x, weight, bias, mean, var;
  double eps;
};

BatchNorm parameters(const Node& node) {
  return {node.input("input"),       node.input("weight"),
          node.input("bias"),        node.input("running_mean"),
          node.input("running_var"), node.number(node.find("eps") ? "eps" : "epsilon")};
}

class BatchNormFolder {
 public:
  explicit BatchNormFolder(Graph graph)
      : graph_(std::move(graph)),
        readers_(consumers(graph_)),
        made_by_(producers(graph_)),
        constant_(constant_values(graph_)),
        returned_(graph_.values.size(), false) {
    for (const GraphOutput& out : graph_.outputs) returned_[out.value] = true;
  }

  Graph run() {
    const std::vector<Node> nodes = std::move(graph_.nodes);
    std::vector<bool> folds(nodes.size(), false);  // convolutions that move to their batch norm
    for (const Node& node : nodes) {
      if (!is_inference_batch_norm(node)) continue;
      const int32_t conv = convolution_to_fold(nodes, node);
      if (conv >= 0) folds[conv] = true;
    }
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (folds[n]) continue;
      if (!is_inference_batch_norm(nodes[n])) {
        out_.push_back(nodes[n]);
        continue;
      }
      const int32_t conv = made_by_[parameters(nodes[n]).x];
      replace(nodes[n], conv >= 0 && folds[conv] ? &nodes[conv] : nullptr);
    }
    graph_.nodes = std::move(out_);
    replaced_.apply(graph_);
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  bool is_f32(ValueId v) const { return v == kNoValue || graph_.value(v).dtype == DType::kF32; }
  bool is_constant(ValueId v) const { return v == kNoValue || constant_[v]; }

  /// The convolution that `node` normalises, where it can take scale and shift; else -1.
  int32_t convolution_to_fold(const std::vector<Node>& nodes, const Node& node) const {
    const BatchNorm bn = parameters(node);
    const int32_t at = made_by_[bn.x];
    if (at < 0 || !convolves(nodes[at])) return -1;
    const Node& conv = nodes[at];
    // The result before normalisation is wanted elsewhere.
    if (readers_[bn.x].size() != 1 || returned_[bn.x]) return -1;
    // A grouped transposed convolution has its output channels spread over two dimensions.
    if (conv.flag("transposed") && conv.integer("groups") != 1) return -1;
    for (const ValueId v :
         {conv.input("weight"), conv.input("bias"), bn.weight, bn.bias, bn.mean, bn.var}) {
      if (!is_f32(v) || !is_constant(v)) return -1;
    }
    return is_f32(bn.x) ? at : -1;
  }

  void replace(const Node& node, const Node* conv) {
    const BatchNorm bn = parameters(node);
    Rewriter rewriter(graph_, node, out_);
    const ValueId biased = rewriter.pointwise("add", {bn.var}, DType::kF32, {bn.eps});
    ValueId scale = rewriter.pointwise("rsqrt", {biased}, DType::kF32);
    if (bn.weight != kNoValue) scale = rewriter.pointwise("mul", {scale, bn.weight}, DType::kF32);
    const ValueId y =
        conv ? convolution(*conv, node, scale, rewriter) : multiply_add(node, scale, rewriter);
    replaced_.add(node.outputs.at(0), y);
    for (size_t i = 1; i < node.outputs.size(); ++i) replace_statistics(node.outputs[i], rewriter);
  }

  /// shift = bias - (mean - offset) · scale, where `offset` is what was added to x before.
  ValueId shift(const BatchNorm& bn, ValueId offset, ValueId scale, Rewriter& rewriter) {
    ValueId mean = bn.mean;
    if (offset != kNoValue) mean = rewriter.pointwise("sub", {mean, offset}, DType::kF32);
    const ValueId moved = rewriter.pointwise("mul", {mean, scale}, DType::kF32);
    if (bn.bias == kNoValue) return rewriter.pointwise("neg", {moved}, DType::kF32);
    return rewriter.pointwise("sub", {bn.bias, moved}, DType::kF32);
  }

  ValueId convolution(const Node& conv, const Node& node, ValueId scale, Rewriter& rewriter) {
    const ValueId weight = conv.input("weight");
    const Shape& weight_shape = graph_.value(weight).shape;
    const size_t channel_dim = conv.flag("transposed") ? 1 : 0;
    Shape broadcast(weight_shape.size() - channel_dim, Expr(1));
    broadcast.front() = weight_shape[channel_dim];
    const ValueId factor = rewriter.reshape(scale, std::move(broadcast));
    const ValueId folded = rewriter.pointwise("mul", {weight, factor}, DType::kF32);
    const ValueId bias = shift(parameters(node), conv.input("bias"), scale, rewriter);

    Node out = conv;
    for (Arg& a : out.args) {
      if (a.name == "weight") a.values = {folded};
      if (a.name == "bias") a = tensor_arg("bias", bias);
    }
    if (out.fused_ops.empty()) out.fused_ops = {conv.op};
    out.fused_ops.push_back(node.op);
    replaced_.apply(out);
    out_.push_back(std::move(out));
    return conv.outputs.at(0);
  }

  ValueId multiply_add(const Node& node, ValueId scale, Rewriter& rewriter) {
    const BatchNorm bn = parameters(node);
    const ValueId added = shift(bn, kNoValue, scale, rewriter);
    const Value x = graph_.value(bn.x);
    Shape per_channel(x.shape.size() > 1 ? x.shape.size() - 1 : 1, Expr(1));
    per_channel.front() = graph_.value(bn.mean).shape.at(0);
    const ValueId factor = rewriter.reshape(scale, per_channel);
    const ValueId addend = rewriter.reshape(added, per_channel);

    const auto instr = [](const char* function, std::vector<int32_t> operands, DType result) {
      return PointwiseInstr{.function = function,
                            .operands = std::move(operands),
                            .scalars = {},
                            .integers = {},
                            .compute = DType::kF32,
                            .result = result};
    };
    auto program = std::make_shared<PointwiseProgram>();
    program->inputs = {x.dtype, DType::kF32, DType::kF32};
    program->instrs = {instr("mul", {0, 1}, DType::kF32), instr("add", {3, 2}, DType::kF32),
                       instr("cast", {4}, x.dtype)};
    if (x.dtype == DType::kF32) program->instrs.pop_back();
    program->results = {static_cast<int32_t>(2 + program->instrs.size())};
    const ValueId y = rewriter.add(
        "tv::pointwise", {tensor_list_arg("inputs", {bn.x, factor, addend})}, x.dtype, x.shape);
    out_.back().program = std::move(program);
    replaced_.apply(out_.back());
    return y;
  }

  /// The other outputs (saved statistics, reserved space) are empty tensors in this form; a
  /// backward graph may still take them.
  void replace_statistics(ValueId output, Rewriter& rewriter) {
    if (output == kNoValue || (readers_[output].empty() && !returned_[output])) return;
    const Value value = graph_.value(output);
    replaced_.add(output, rewriter.add("aten::full",
                                       {attr_arg("size", value.shape), attr_arg("fill_value", 0.0),
                                        attr_arg("dtype", value.dtype), attr_arg("layout", {}),
                                        attr_arg("device", {}), attr_arg("pin_memory", {})},
                                       value.dtype, value.shape));
  }

  Graph graph_;
  const std::vector<std::vector<int32_t>> readers_;
  const std::vector<int32_t> made_by_;
  const std::vector<bool> constant_;
  std::vector<bool> returned_;
  std::vector<Node> out_;
  Replacements replaced_;
};

}  // namespace

bool is_inference_batch_norm(const Node& node) {
  constexpr std::array kWithFlag = {"aten::batch_norm", "aten::native_batch_norm",
                                    "aten::cudnn_batch_norm", "aten::_native_batch_norm_legit",
                                    "aten::miopen_batch_norm"};
  if (node.op == "aten::_native_batch_norm_legit_no_training") return true;
  return std::find(kWithFlag.begin(), kWithFlag.end(), node.op) != kWithFlag.end() &&
         !node.flag("training") && node.has("running_mean") && node.has("running_var");
}

Graph fold_batch_norm(Graph graph) { return BatchNormFolder(std::move(graph)).run(); }

}  // namespace tv
