// Scaled dot-product attention in the forms that PyTorch leaves it in: one launch
// (attention_flash.cpp) where that applies, else products of matrices and a softmax, in fp32
// between the two products, as the gradients always are.
//
// A row whose every key is masked gives zeros, as PyTorch's kernels do; in tv::softmax_attention,
// which recognise_attention makes, what its pieces gave.

#include <cmath>
#include <limits>

#include "converters/attention/attention_problem.h"
#include "converters/attention/attention_types.h"
#include "converters/kit/flops.h"
#include "converters/kit/matmul_nodes.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Arguments of one attention, heads grouped where keys have fewer of them than queries.
struct Attention {
  Rewriter& rw;
  ValueId query, key, value, mask = kNoValue;
  bool causal = false;
  double scale = 1;
  ValueId scale_value = kNoValue;  ///< in place of `scale` where that is symbolic
  ValueId factor = kNoValue;       ///< one element, times the scale
  double softcap = 0;              ///< c of c · tanh(scores); 0: not capped
  ValueId first = kNoValue;        ///< the first query's place, where keys are seen by theirs
  int64_t window = 0;              ///< how many; 0: all up to the query's own
  std::string rows = "zeros";      ///< of masked keys alone: "zeros", "softmax" or "nan_is_zero"
  Shape scores;                    ///< [..., queries, keys] over the queries' heads

  const Shape& shape(ValueId v) const { return rw.graph().value(v).shape; }
  DType dtype(ValueId v) const { return rw.graph().value(v).dtype; }
};

Shape with_last(Shape shape, const Expr& rows, const Expr& cols) {
  shape[shape.size() - 2] = rows;
  shape[shape.size() - 1] = cols;
  return shape;
}

/// Queries of the heads that share keys, as more rows of one head; the inverse is a reshape to the
/// shape before.
ValueId grouped(const Attention& a, ValueId queries) {
  Shape shape = a.shape(queries);
  const size_t rank = shape.size();
  if (rank < 3) return queries;
  const Expr heads = a.shape(a.key)[rank - 3];
  if (heads == shape[rank - 3]) return queries;
  const Expr repeat = floordiv(shape[rank - 3], heads);
  shape[rank - 3] = heads;
  shape[rank - 2] *= repeat;
  return a.rw.reshape(queries, shape);
}

/// a · b over the keys' heads, given over the queries' heads where `shape` says so.
ValueId product(const Attention& a, ValueId left, ValueId right, DType dtype, const Shape& shape) {
  return a.rw.reshape(matmul_of(a.rw, grouped(a, left), right, dtype), shape);
}

Attention attention_of(const NodeContext& c, Rewriter& rw) {
  Attention a{.rw = rw,
              .query = c.node.input("query"),
              .key = c.node.input("key"),
              .value = c.node.input("value")};
  for (const char* name : {"attn_mask", "attn_bias"}) {
    if (c.node.has(name)) a.mask = c.node.input(name);
  }
  a.causal = c.node.flag("is_causal");
  if (c.node.has("factor")) a.factor = c.node.input("factor");
  if (c.node.has("rows")) a.rows = c.node.text("rows");
  if (c.node.has("softcap")) a.softcap = c.node.number("softcap");
  if (c.node.has("first")) {
    a.first = c.node.input("first");
    a.window = c.node.integer("window");
  }
  const Shape& q = c.shape("query");
  if (c.node.has("scale")) {
    a.scale = c.node.number("scale");
  } else if (const auto size = q.back().constant()) {
    a.scale = 1.0 / std::sqrt(static_cast<double>(*size));
  } else {
    a.scale_value =
        rw.pointwise("rsqrt",
                     {rw.add("tv::fill", {attr_arg("start", q.back()), attr_arg("step", Expr(0))},
                             DType::kF32, {Expr(1)})},
                     DType::kF32);
  }
  a.scores = with_last(q, q[q.size() - 2], c.shape("key")[c.rank("key") - 2]);
  return a;
}

ValueId numbers(const Attention& a, const Expr& count, Shape shape) {
  const ValueId range = a.rw.add("aten::arange", {attr_arg("end", count)}, DType::kI32, {count});
  return a.rw.reshape(range, std::move(shape));
}

ValueId by_scale(const Attention& a, ValueId value) {
  if (a.factor != kNoValue) {
    const ValueId factor = a.rw.cast(a.factor, DType::kF32);
    value = a.rw.pointwise("mul", {value, factor}, DType::kF32);
  }
  if (a.scale_value == kNoValue) return scaled(a.rw, value, a.scale);
  return a.rw.pointwise("mul", {value, a.scale_value}, DType::kF32);
}

/// Whether a query sees a key by their places, bool [queries, keys].
ValueId seen_by_place(const Attention& a) {
  Rewriter& rw = a.rw;
  const Expr rows = a.scores[a.scores.size() - 2], cols = a.scores.back();
  const ValueId key = rw.cast(numbers(a, cols, {cols}), DType::kI64);
  ValueId place = rw.cast(numbers(a, rows, {rows, Expr(1)}), DType::kI64);
  place = rw.pointwise("add", {place, rw.cast(rw.reshape(a.first, {Expr(1)}), DType::kI64)},
                       DType::kI64);
  const ValueId seen = rw.pointwise("le", {key, place}, DType::kBool);
  if (a.window == 0) return seen;
  const ValueId before = rw.pointwise("sub", {place}, DType::kI64, {static_cast<double>(a.window)});
  const ValueId inside = rw.pointwise("gt", {key, before}, DType::kBool);
  return rw.pointwise("logical_and", {seen, inside}, DType::kBool);
}

/// scale · q kᵀ with masked ones at -inf, fp32.
ValueId scores_of(const Attention& a) {
  Rewriter& rw = a.rw;
  ValueId s = product(a, a.query, transposed(rw, a.key), DType::kF32, a.scores);
  s = by_scale(a, s);
  if (a.softcap != 0) s = scaled(rw, rw.pointwise("tanh", {s}, DType::kF32), a.softcap);
  if (a.mask != kNoValue) {
    s = a.dtype(a.mask) == DType::kBool
            ? rw.pointwise("where", {a.mask, s}, DType::kF32, {-kInfinity})
            : rw.pointwise("add", {s, rw.cast(a.mask, DType::kF32)}, DType::kF32);
  }
  if (a.first != kNoValue) {
    s = rw.pointwise("where", {seen_by_place(a), s}, DType::kF32, {-kInfinity});
  }
  if (a.causal) {
    const Expr rows = a.scores[a.scores.size() - 2], cols = a.scores.back();
    const ValueId seen = rw.pointwise(
        "le", {numbers(a, cols, {cols}), numbers(a, rows, {rows, Expr(1)})}, DType::kBool);
    s = rw.pointwise("where", {seen, s}, DType::kF32, {-kInfinity});
  }
  return s;
}

/// 0 if the score is -inf: the softmax of a row of nothing else is not a number.
ValueId unless_masked(const Attention& a, ValueId scores, ValueId p) {
  const bool masked = a.mask != kNoValue || a.first != kNoValue;
  if (a.rows == "softmax" || (a.rows == "zeros" && !masked)) return p;
  if (a.rows == "nan_is_zero") {
    const ValueId nan = a.rw.pointwise("isnan", {p}, DType::kBool);
    const ValueId number = a.rw.pointwise("logical_not", {nan}, DType::kBool);
    return a.rw.pointwise("where", {number, p}, DType::kF32, {0.0});
  }
  const ValueId seen = a.rw.pointwise("ne", {scores}, DType::kBool, {-kInfinity});
  return a.rw.pointwise("where", {seen, p}, DType::kF32, {0.0});
}

ValueId reduced(const Attention& a, const char* op, ValueId value) {
  Shape shape = a.shape(value);
  shape.back() = Expr(1);
  return a.rw.add(
      op, {tensor_arg("self", value), attr_arg("dim", ints({-1})), attr_arg("keepdim", true)},
      DType::kF32, shape);
}

ValueId dropped_last(const Attention& a, ValueId value) {
  Shape shape = a.shape(value);
  shape.pop_back();
  return a.rw.reshape(value, std::move(shape));
}

/// log Σ exp(scores) of each row.
ValueId log_sum_exp(const Attention& a, ValueId scores) {
  Rewriter& rw = a.rw;
  const ValueId most = reduced(a, "aten::amax", scores);
  const ValueId finite =
      rw.pointwise("clamp", {most}, DType::kF32, {std::numeric_limits<float>::lowest(), kInfinity});
  const ValueId terms =
      rw.pointwise("exp", {rw.pointwise("sub", {scores, finite}, DType::kF32)}, DType::kF32);
  const ValueId sum =
      rw.pointwise("log", {reduced(a, "aten::sum.dim_IntList", terms)}, DType::kF32);
  return dropped_last(a, rw.pointwise("add", {sum, finite}, DType::kF32));
}

ValueId probabilities(const Attention& a, ValueId scores) {
  const ValueId p = a.rw.add(
      "aten::_softmax",
      {tensor_arg("self", scores), attr_arg("dim", integer(-1)), attr_arg("half_to_float", false)},
      DType::kF32, a.scores);
  return unless_masked(a, scores, p);
}

enum class Second { kNone, kLogSumExp, kWeights };

/// The log-sum-exp in the shape of the second result: some of PyTorch's kernels fill rows up to a
/// whole number of their blocks, with what takes part in no gradient, or have a last dimension
/// of 1.
ValueId as_stored(const NodeContext& c, Rewriter& rw, ValueId sums) {
  const Shape& stored = c.output(1).shape;
  const Shape& shape = rw.graph().value(sums).shape;
  if (stored.size() == shape.size() && !(stored.back() == shape.back())) {
    sums = rw.add("aten::constant_pad_nd",
                  {tensor_arg("self", sums),
                   attr_arg("pad", std::vector<Expr>{Expr(0), stored.back() - shape.back()}),
                   attr_arg("value", kInfinity)},
                  DType::kF32, stored);
  }
  return rw.cast(rw.reshape(sums, stored), c.output(1).dtype);
}

/// Without dropout nobody reads what its kernels would draw from.
void no_random_state(const NodeContext& c, Rewriter& rw) {
  for (size_t i = 2; i < c.node.outputs.size(); ++i) {
    if (!is_used(c.graph, c.node.outputs[i])) continue;
    rw.replace(i, rw.add("tv::fill", {attr_arg("start", Expr(0)), attr_arg("step", Expr(0))},
                         c.output(i).dtype, c.output(i).shape));
  }
}

void flash(const NodeContext& c, Rewriter& rw, const Attention& a, bool wants_sums) {
  std::vector<Arg> args = {
      tensor_arg("query", a.query),
      tensor_arg("key", a.key),
      tensor_arg("value", a.value),
      a.mask == kNoValue ? attr_arg("mask", std::monostate{}) : tensor_arg("mask", a.mask),
      a.factor == kNoValue ? attr_arg("factor", std::monostate{}) : tensor_arg("factor", a.factor),
      a.first == kNoValue ? attr_arg("first", std::monostate{}) : tensor_arg("first", a.first),
      attr_arg("window", Expr(a.window)),
      attr_arg("is_causal", a.causal),
      attr_arg("scale", a.scale),
      attr_arg("rows", a.rows),
      attr_arg("softcap", a.softcap)};
  std::vector<std::pair<DType, Shape>> outputs = {{c.output().dtype, c.output().shape}};
  if (wants_sums) {
    Shape rows = a.scores;
    rows.pop_back();
    outputs.emplace_back(DType::kF32, rows);
  }
  const auto results = rw.add_multi("tv::attention", std::move(args), outputs);
  rw.replace(0, results[0]);
  if (wants_sums) rw.replace(1, as_stored(c, rw, results[1]));
}

auto forward(Second second) {
  return [second](const NodeContext& c, Rewriter& rw) {
    const Attention a = attention_of(c, rw);
    const bool extra_used = second != Second::kNone && is_used(c.graph, c.node.outputs.at(1));
    no_random_state(c, rw);
    if (fits_flash(c) && !(second == Second::kWeights && extra_used)) {
      flash(c, rw, a, extra_used);
      return;
    }
    const ValueId scores = scores_of(a), p = probabilities(a, scores);
    const ValueId out = product(a, p, rw.cast(a.value, DType::kF32), DType::kF32, c.output().shape);
    rw.replace(0, rw.cast(out, c.output().dtype));
    if (!extra_used) return;
    rw.replace(1, second == Second::kWeights ? rw.cast(p, c.output(1).dtype)
                                             : as_stored(c, rw, log_sum_exp(a, scores)));
  };
}

/// The log-sum-exp that the forward pass stored, [..., queries, 1]; see as_stored.
ValueId stored_sums(const NodeContext& c, const Attention& a) {
  ValueId sums = c.node.input("logsumexp");
  Shape rows = a.scores;
  rows.back() = Expr(1);
  const Shape& shape = a.shape(sums);
  const Expr& queries = a.scores[a.scores.size() - 2];
  if (shape.size() + 1 == a.scores.size() && !(shape.back() == queries)) {
    Shape cut = shape;
    cut.back() = queries;
    sums =
        a.rw.add("aten::slice.Tensor",
                 {tensor_arg("self", sums), attr_arg("dim", integer(-1)),
                  attr_arg("start", Expr(0)), attr_arg("end", queries), attr_arg("step", Expr(1))},
                 a.dtype(sums), cut);
  }
  return a.rw.reshape(sums, rows);
}

/// The gradient of a bias, which may have been broadcast over the scores.
ValueId of_bias(const NodeContext& c, const Attention& a, ValueId ds) {
  const Shape& shape = c.output(3).shape;
  std::vector<int64_t> dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == Expr(1) && !(a.scores[d] == Expr(1))) dims.push_back(static_cast<int64_t>(d));
  }
  if (!dims.empty()) {
    ds = a.rw.add("aten::sum.dim_IntList",
                  {tensor_arg("self", ds), attr_arg("dim", ints(dims)), attr_arg("keepdim", true)},
                  DType::kF32, shape);
  }
  return a.rw.cast(ds, c.output(3).dtype);
}

/// p, dp and ds of the backward pass share the forward's scores; out and its log-sum-exp are given.
void backward(const NodeContext& c, Rewriter& rw) {
  const Attention a = attention_of(c, rw);
  const auto f32 = [&](ValueId v) { return rw.cast(v, DType::kF32); };
  const bool efficient = c.node.has("grad_out_");
  const ValueId grad = f32(c.node.input(efficient ? "grad_out_" : "grad_out"));
  const ValueId out = f32(c.node.input("out"));
  const ValueId query = f32(a.query), key = f32(a.key), value = f32(a.value);
  const ValueId scores = scores_of(a);
  const ValueId lse = stored_sums(c, a);
  const ValueId p = unless_masked(
      a, scores,
      rw.pointwise("exp", {rw.pointwise("sub", {scores, lse}, DType::kF32)}, DType::kF32));

  const auto by_keys = [&](ValueId weights, ValueId right, const Shape& shape) {
    return rw.reshape(
        matmul_of(rw, transposed(rw, grouped(a, weights)), grouped(a, right), DType::kF32), shape);
  };
  const ValueId dp = product(a, grad, transposed(rw, value), DType::kF32, a.scores);
  const ValueId delta =
      reduced(a, "aten::sum.dim_IntList", rw.pointwise("mul", {grad, out}, DType::kF32));
  ValueId ds = rw.pointwise("mul", {p, rw.pointwise("sub", {dp, delta}, DType::kF32)}, DType::kF32);
  if (c.node.outputs.size() > 3 && is_used(c.graph, c.node.outputs[3])) {
    rw.replace(3, of_bias(c, a, ds));
  }
  ds = by_scale(a, ds);
  rw.replace(0, rw.cast(product(a, ds, key, DType::kF32, c.output(0).shape), c.output(0).dtype));
  rw.replace(1, rw.cast(by_keys(ds, query, c.output(1).shape), c.output(1).dtype));
  rw.replace(2, rw.cast(by_keys(p, grad, c.output(2).shape), c.output(2).dtype));
}

/// `results`: outputs that can be computed; the others (random state, debug masks) must be unused.
auto refusal(size_t results) {
  return [results](const NodeContext& c) -> std::string {
    const std::string at = "[" + c.node.op + "] ";
    if (c.node.has("dropout_p") && c.node.number("dropout_p") != 0) {
      return at + "dropout draws random numbers";
    }
    if (c.node.has("dropout_mask")) return at + "a dropout mask";
    if (!is_float(c.dtype("query"))) return at + "query must be of a floating type";
    const size_t rank = c.shape("query").size();
    if (rank < 2 || rank > 5 || c.shape("key").size() != rank || c.shape("value").size() != rank) {
      return at + "query, key and value must have one rank of 2 to 5";
    }
    if (c.shape("query").back() == Expr(0)) return at + "heads of no elements";
    for (size_t i = results; i < c.node.outputs.size(); ++i) {
      if (!is_used(c.graph, c.node.outputs[i])) continue;
      if (results != 2 || c.output(i).dtype != DType::kI64) {
        return at + "output " + std::to_string(i) + " is used";
      }
    }
    return "";
  };
}

std::string bias_refusal(const NodeContext& c) {
  const std::string common = refusal(4)(c);
  if (!common.empty() || !is_used(c.graph, c.node.outputs.at(3))) return common;
  if (c.output(3).shape.size() == c.shape("query").size()) return "";
  return "[" + c.node.op + "] the gradient of a bias of another rank than the queries";
}

/// Random numbers' state and sizes of batches in one, which these gradients do not read: importers
/// leave them out. A bias need not be there.
constexpr const char* kUnread =
    "Tensor cum_seq_q=None, Tensor cum_seq_k=None, SymInt max_q=0, SymInt max_k=0, "
    "Tensor philox_seed=None, Tensor philox_offset=None";

const RegisterConverter attentions{
    {.op = "aten::scaled_dot_product_attention",
     .unsupported = refusal(1),
     .expand = forward(Second::kNone),
     .flops = flops_of_attention,
     .groups_heads = true,
     .sees_by_place = fits_flash,
     .types = types::attention},
    {.op = "torch_vulkan::scaled_dot_product_attention",  // kept_composites.py
     .unsupported = refusal(1),
     .expand = forward(Second::kNone),
     .flops = flops_of_attention,
     .groups_heads = true,
     .sees_by_place = fits_flash,
     .types = types::attention},
    {.op = "tv::softmax_attention",
     .expand = forward(Second::kNone),
     .flops = flops_of_attention,
     .groups_heads = true,
     .sees_by_place = fits_flash,
     .float32_args = {"factor"}},  // as `scale` is
    {.op = "aten::_scaled_dot_product_attention_math",
     .unsupported = refusal(2),
     .expand = forward(Second::kWeights),
     .flops = flops_of_attention,
     .groups_heads = true,
     .types = types::attention},
    {.op = "aten::_scaled_dot_product_flash_attention_for_cpu",
     .unsupported = refusal(2),
     .expand = forward(Second::kLogSumExp),
     .flops = flops_of_attention,
     .groups_heads = true,
     .sees_by_place = fits_flash,
     .types = types::attention},
    {.op = "aten::_scaled_dot_product_flash_attention",
     .unsupported = refusal(2),
     .expand = forward(Second::kLogSumExp),
     .flops = flops_of_attention,
     .groups_heads = true,
     .types = types::attention},
    {.op = "aten::_scaled_dot_product_cudnn_attention",
     .unsupported = refusal(2),
     .expand = forward(Second::kLogSumExp),
     .flops = flops_of_attention,
     .groups_heads = true,
     .types = types::attention},
    {.op = "aten::_scaled_dot_product_efficient_attention",
     .unsupported = refusal(2),
     .expand = forward(Second::kLogSumExp),
     .flops = flops_of_attention,
     .groups_heads = true,
     .types = types::attention},
    {.op = "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     .unsupported = refusal(3),
     .expand = backward,
     .flops = flops_of_attention_backward,
     .types = types::attention_backward},
    {.op = "aten::_scaled_dot_product_flash_attention_backward",
     .unsupported = refusal(3),
     .expand = backward,
     .flops = flops_of_attention_backward,
     .types = types::attention_backward,
     .schema = kUnread},
    {.op = "aten::_scaled_dot_product_cudnn_attention_backward",
     .unsupported = refusal(3),
     .expand = backward,
     .flops = flops_of_attention_backward,
     .types = types::attention_backward,
     .schema = std::string(kUnread) + ", Tensor? attn_bias"},
    {.op = "aten::_scaled_dot_product_efficient_attention_backward",
     .unsupported = bias_refusal,
     .expand = backward,
     .flops = flops_of_attention_backward,
     .types = types::attention_backward,
     .schema = "Tensor philox_seed=None, Tensor philox_offset=None, Tensor? attn_bias"},
};

}  // namespace
}  // namespace tv
