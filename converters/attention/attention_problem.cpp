#include "converters/attention/attention_problem.h"

#include "csrc/graph/strided.h"

namespace tv {

namespace {

/// The strides of a batch: `heads` of them in `groups` where keys have fewer.
Shape batch_strides(const Shape& shape, const Shape& strides, const Shape& batch) {
  Shape result;
  for (size_t i = 0; i < batch.size(); ++i) {
    const bool repeats = shape[i] == Expr(1) && !(batch[i] == Expr(1));
    result.push_back(repeats ? Expr(0) : strides[i]);
  }
  return result;
}

/// The batch of the queries, its last dimension split where keys or values have fewer heads.
Shape split_heads(const NodeContext& c) {
  const Shape& q = c.shape("query");
  Shape batch(q.begin(), q.end() - 2);
  if (batch.empty()) return batch;
  for (const char* arg : {"key", "value"}) {
    const Expr fewer = c.shape(arg)[batch.size() - 1];
    if (fewer == batch.back() || fewer == Expr(1)) continue;
    const Expr all = batch.back();
    batch.back() = fewer;
    batch.push_back(floordiv(all, fewer));
    break;
  }
  return batch;
}

Shape strides_over(const Shape& shape, Shape strides, const Shape& batch, bool every_head) {
  Shape heads(shape.begin(), shape.end() - 2);
  strides.resize(heads.size());
  if (batch.size() > heads.size()) {  // split
    const Expr repeat = batch.back();
    if (every_head) {
      heads.back() = floordiv(heads.back(), repeat);
      heads.push_back(repeat);
      strides.push_back(strides.back());
      strides[strides.size() - 2] *= repeat;
    } else {
      heads.push_back(Expr(1));
      strides.push_back(Expr(0));
    }
  }
  return batch_strides(heads, strides, batch);
}

bool side_by_side(const NodeContext& c, const Builder& b, const std::string& arg, int64_t count) {
  const Value& value = c.value(arg);
  const Shape strides = b.strides_of(c.node.input(arg));
  const Expr offset = value.view ? value.view->offset : Expr(0);
  const auto aligned = [&](const Expr& e) { return mod(e, count) == Expr(0); };
  for (size_t i = 0; i + 1 < strides.size(); ++i) {
    if (!(value.shape[i] == Expr(1)) && !aligned(strides[i])) return false;
  }
  return strides.back() == Expr(1) && aligned(offset) && aligned(value.shape.back());
}

/// Text that reads elements i … i + 3 of an operand's storage by one access.
std::string four(const std::string& operand, DType dtype) {
  if (dtype == DType::kF32) return "tv_ref_f32x4(" + operand + "_ptr).v[(i) >> 2]";
  const std::string from = dtype == DType::kF16 ? "tv_f16x4" : "tv_bf16x4";
  return from + "(tv_ref_u32x2(" + operand + "_ptr).v[(i) >> 2])";
}

/// Takes the innermost dimension of the heads out of the groups where keys and values have it not.
void group(AttentionProblem& p) {
  p.groups = p.heads;
  if (p.heads.sizes.empty()) return;
  for (const auto& [name, strides] : p.heads.targets) {
    if ((name == "k" || name == "v") && !(strides.back() == Expr(0))) return;
  }
  p.repeat = p.heads.sizes.back();
  p.groups.sizes.pop_back();
  for (auto& [name, strides] : p.groups.targets) {
    if (name == "q") p.q_group = strides.back();
    if (name == "mask") p.mask_group = strides.back();
    strides.pop_back();
  }
}

}  // namespace

bool fits_flash(const NodeContext& c) {
  if (c.device.is_cpu()) return false;
  const Shape &q = c.shape("query"), &k = c.shape("key"), &v = c.shape("value");
  const auto d = q.back().constant(), e = v.back().constant();
  if (!d || !e || *d > kMaxFlashHead || *e > kMaxFlashHead || *e < 1) return false;
  if (c.dtype("key") != c.dtype("query") || c.dtype("value") != c.dtype("query")) return false;
  const auto fits = [](const Expr& all, const Expr& some) {
    return some == all || some == Expr(1);
  };
  for (size_t i = 0; i + 3 < q.size(); ++i) {
    if (!fits(q[i], k[i]) || !fits(q[i], v[i])) return false;
  }
  if (q.size() < 3) return true;
  // Grouped heads: both in the same groups.
  const size_t h = q.size() - 3;
  if (fits(q[h], k[h]) && fits(q[h], v[h])) return true;
  const auto heads = q[h].constant(), fewer = k[h].constant();
  return heads && fewer && *fewer > 0 && *heads % *fewer == 0 && (fits(q[h], v[h]) || v[h] == k[h]);
}

AttentionProblem attention_problem(const NodeContext& c, const Builder& b) {
  const Shape &q = c.shape("query"), &k = c.shape("key"), &v = c.shape("value");
  AttentionProblem p{.queries = q[q.size() - 2], .keys = k[k.size() - 2]};
  p.d = *q.back().constant();
  p.e = *v.back().constant();
  const Shape batch = split_heads(c);
  p.heads.sizes = batch;
  for (const auto& [name, arg] : {std::pair{"q", "query"}, {"k", "key"}, {"v", "value"}}) {
    const Shape& shape = c.shape(arg);
    const bool every_head = q.size() < 3 || shape[q.size() - 3] == q[q.size() - 3];
    p.heads.targets.emplace_back(
        name, strides_over(shape, b.strides_of(c.node.input(arg)), batch, every_head));
  }
  if (c.node.has("mask")) {
    p.mask = c.node.input("mask");
    Shape scores = q;
    scores.back() = p.keys;
    const Shape strides = broadcast_strides(c.shape("mask"), b.strides_of(p.mask), scores);
    p.mask_strides = {strides[strides.size() - 2], strides.back()};
    p.heads.targets.emplace_back("mask", strides_over(scores, strides, batch, true));
  }
  group(p);
  p.heads.collapse();
  p.groups.collapse();
  return p;
}

namespace {

/// INVERSE(sum) of a row's probabilities, and RESULT(T, o, inverse) of what they weigh.
void define_rows(Step& step, const std::string& rows) {
  const std::string empty = rows == "softmax" ? "TV_NAN" : "0.0";
  const std::string inverse = "tv_div(1.0, sum)";
  const bool nan_is_zero = rows == "nan_is_zero";
  step.defines.emplace_back("INVERSE(sum)",
                            nan_is_zero ? "((sum) > 0.0 ? " + inverse + " : 0.0)"
                                        : "((sum) == 0.0 ? " + empty + " : " + inverse + ")");
  step.defines.emplace_back(
      "RESULT(T, o, inverse)",
      nan_is_zero ? "((inverse) == 0.0 ? T(0.0) : (o) * (inverse))" : "((o) * (inverse))");
}

}  // namespace

Step attention_step(const NodeContext& c, const Builder& b, const AttentionProblem& p,
                    const std::string& kernel) {
  Step step{.kernel = kernel};
  step.operands = {src("q", c.node.input("query")), src("k", c.node.input("key")),
                   src("v", c.node.input("value")), dst("y", c.node.outputs[0])};
  step.params = {param("heads", p.heads.count()), param("queries", p.queries),
                 param("keys", p.keys), number("scale", c.node.number("scale"))};
  const auto define = [&](const char* name, const std::string& text) {
    step.defines.emplace_back(name, text);
  };
  define("D", std::to_string(p.d));
  define("DV", std::to_string(p.e));
  const bool placed = c.node.has("first");
  define("CAUSAL", placed || c.node.flag("is_causal") ? "1" : "0");
  define("PLACED", placed ? "1" : "0");
  define("WINDOW", std::to_string(placed ? c.node.integer("window") : 0));
  if (placed) step.operands.push_back(src("first", c.node.input("first")));
  for (const auto& [name, arg] : {std::pair{"q", "query"}, {"k", "key"}, {"v", "value"}}) {
    const Shape strides = b.strides_of(c.node.input(arg));
    const std::string row = std::string(name) + (name == std::string("q") ? "_m" : "_n");
    step.params.push_back(param(row, strides[strides.size() - 2]));
    step.params.push_back(param(std::string(name) + "_d", strides.back()));
  }
  const bool is_bool = p.mask != kNoValue && c.dtype("mask") == DType::kBool;
  define("MASK", p.mask == kNoValue ? "0" : is_bool ? "1" : "2");
  if (p.mask != kNoValue) {
    step.operands.push_back(src("mask", p.mask));
    step.params.push_back(param("mask_m", p.mask_strides[0]));
    step.params.push_back(param("mask_n", p.mask_strides[1]));
  }
  define("SCALE", c.node.has("factor") ? "(scale * factor_load(0u))" : "scale");
  if (c.node.has("factor")) step.operands.push_back(src("factor", c.node.input("factor")));
  const double cap = c.node.has("softcap") ? c.node.number("softcap") : 0;
  define("CAPPED(s)", cap != 0 ? "(softcap * tv_tanh(s))" : "(s)");
  if (cap != 0) step.params.push_back(number("softcap", cap));
  define_rows(step, c.node.text("rows"));
  const bool lse = c.node.outputs.size() > 1;
  define("LSE", lse ? "1" : "0");
  if (lse) step.operands.push_back(dst("lse", c.node.outputs[1]));
  p.heads.add_to(step, "heads");
  return step;
}

void add_fours(const NodeContext& c, const Builder& b, Step& step) {
  step.defines.emplace_back("VECTOR", reads_side_by_side(c, b, 4) ? "1" : "0");
  step.defines.emplace_back("Q4(i)", four("q", c.dtype("query")));
  step.defines.emplace_back("K4(i)", four("k", c.dtype("key")));
  step.defines.emplace_back("V4(i)", four("v", c.dtype("value")));
}

bool reads_side_by_side(const NodeContext& c, const Builder& b, int64_t count) {
  return side_by_side(c, b, "query", count) && side_by_side(c, b, "key", count) &&
         side_by_side(c, b, "value", count);
}

}  // namespace tv
