// Recurrent networks and linear attention.

#include <algorithm>
#include <cctype>
#include <cmath>

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

Expr dim(const Tensor& x, int64_t d) { return x.shape.at(static_cast<size_t>(d)); }

int64_t steps_of(const Expr& length) {
  const auto steps = length.constant();
  if (!steps) refuse("a sequence of dynamic length (it is unrolled)");
  if (*steps > 4096) refuse("a sequence of more than 4096 steps (it is unrolled)");
  return *steps;
}

Tensor activation(OpContext& c, const std::string& name, const Tensor& x) {
  Emitter& e = c.e;
  if (name == "Sigmoid") return e.unary("sigmoid", x);
  if (name == "Tanh") return e.unary("tanh", x);
  if (name == "Relu") return e.unary("relu", x);
  if (name == "Softsign") return e.div(x, e.with("add", e.unary("abs", x), 1));
  if (name == "HardSigmoid") {
    return e.clamp(e.with("add", e.with("mul", x, 0.2f), 0.5), 0, 1);
  }
  refuse("activation " + name);
}

/// Their names as `activation` has them: ONNX Runtime takes them in any case.
std::vector<std::string> activations_of(const OpContext& c) {
  constexpr const char* kNames[] = {"Sigmoid", "Tanh", "Relu", "Softsign", "HardSigmoid"};
  const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
  std::vector<std::string> names = c.strings("activations");
  for (std::string& name : names) {
    for (const std::string known : kNames) {
      if (std::ranges::equal(name, known, same)) name = known;
    }
  }
  return names;
}

// One direction of one layer. Gates are in ONNX's order; weights are of one direction.
struct Layer {
  Tensor w, r, wb, rb, peephole, hidden, cell;  ///< wb, rb absent: no bias
  std::vector<std::string> activations;
  int64_t size = 0;
  bool reverse = false;
};

Tensor gate(Emitter& e, const Tensor& all, const Layer& layer, int64_t k) {
  return e.slice(all, all.rank() - 1, k * layer.size, (k + 1) * layer.size);
}

Tensor product(Emitter& e, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor y = e.matmul(x, e.transpose(weight, 0, 1));
  return bias.present ? e.add(y, bias) : y;
}

Tensor clipped(OpContext& c, const Tensor& x) {
  const double limit = c.f("clip", 0);
  return limit > 0 ? c.e.clamp(x, -limit, limit) : x;
}

void rnn_step(OpContext& c, Layer& l, const Tensor& x) {
  const Tensor sum = c.e.add(x, product(c.e, l.hidden, l.r, l.rb));
  l.hidden = activation(c, l.activations[0], clipped(c, sum));
}

// z, r, h
void gru_step(OpContext& c, Layer& l, const Tensor& x) {
  Emitter& e = c.e;
  const bool after = c.i("linear_before_reset", 0) != 0;
  const auto part = [&](const Tensor& all, int64_t k) { return gate(e, all, l, k); };
  const auto rows = [&](const Tensor& t, int64_t from, int64_t to) {
    return t.present ? e.slice(t, 0, from * l.size, to * l.size) : t;
  };
  const Tensor zr = product(e, l.hidden, rows(l.r, 0, 2), rows(l.rb, 0, 2));
  const Tensor z = activation(c, l.activations[0], clipped(c, e.add(part(x, 0), part(zr, 0))));
  const Tensor r = activation(c, l.activations[0], clipped(c, e.add(part(x, 1), part(zr, 1))));
  const Tensor weight = rows(l.r, 2, 3), bias = rows(l.rb, 2, 3);
  const Tensor recurrent = after ? e.mul(r, product(e, l.hidden, weight, bias))
                                 : product(e, e.mul(r, l.hidden), weight, bias);
  const Tensor h = activation(c, l.activations[1], clipped(c, e.add(part(x, 2), recurrent)));
  l.hidden = e.add(e.mul(e.with("rsub", z, 1), h), e.mul(z, l.hidden));
}

// i, o, f, c
void lstm_step(OpContext& c, Layer& l, const Tensor& x) {
  Emitter& e = c.e;
  const Tensor all = e.add(x, product(e, l.hidden, l.r, l.rb));
  const auto peep = [&](const Tensor& sum, int64_t k, const Tensor& cell) {
    return l.peephole.present ? e.add(sum, e.mul(gate(e, l.peephole, l, k), cell)) : sum;
  };
  const Tensor i = activation(c, l.activations[0], clipped(c, peep(gate(e, all, l, 0), 0, l.cell)));
  const bool coupled = c.i("input_forget", 0) != 0;
  const Tensor f =
      coupled ? e.with("rsub", i, 1)
              : activation(c, l.activations[0], clipped(c, peep(gate(e, all, l, 2), 2, l.cell)));
  const Tensor candidate = activation(c, l.activations[1], clipped(c, gate(e, all, l, 3)));
  l.cell = e.add(e.mul(f, l.cell), e.mul(i, candidate));
  const Tensor o = activation(c, l.activations[0], clipped(c, peep(gate(e, all, l, 1), 1, l.cell)));
  l.hidden = e.mul(o, activation(c, l.activations[2], l.cell));
}

struct Kind {
  int64_t gates;
  std::vector<std::string> activations;  ///< by default
  void (*step)(OpContext&, Layer&, const Tensor&);
};

Layer layer_of(OpContext& c, const Kind& kind, int64_t d, int64_t directions, const Tensor& state) {
  Emitter& e = c.e;
  Layer l;
  const auto own = [&](size_t i) { return c.has(i) ? e.select(c.in(i), 0, d) : Tensor{}; };
  l.w = own(1);
  l.r = own(2);
  const auto size = dim(l.r, 1).constant();
  if (!size) refuse("a hidden size that is not known");
  l.size = *size;
  if (c.has(3)) {
    const Tensor bias = own(3);
    l.wb = e.slice(bias, 0, 0, kind.gates * l.size);
    l.rb = e.slice(bias, 0, kind.gates * l.size, 2 * kind.gates * l.size);
  }
  l.hidden = c.has(5) ? e.select(c.in(5), 0, d) : state;
  if (kind.gates == 4) {
    l.cell = c.has(6) ? e.select(c.in(6), 0, d) : state;
    l.peephole = own(7);
  }
  l.reverse = d == 1 || c.s("direction", "forward") == "reverse";
  l.activations = kind.activations;
  const auto given = activations_of(c);
  const size_t each = kind.activations.size();
  if (!given.empty()) {
    if (given.size() != each * static_cast<size_t>(directions)) {
      throw Error(ErrorKind::kUser, "activations: want " + std::to_string(each) + " a direction");
    }
    if (c.has_attr("activation_alpha") || c.has_attr("activation_beta")) {
      refuse("activation_alpha or activation_beta");
    }
    const auto from = given.begin() + static_cast<long>(each) * d;
    l.activations.assign(from, from + static_cast<long>(each));
  }
  return l;
}

// --- as a loop on the device: tv::recurrent and tv::lstm ---

/// Why a node has to be unrolled, or "".
std::string not_looped(const OpContext& c, const Kind& kind) {
  for (const char* name : {"clip", "activation_alpha", "activation_beta"}) {
    if (c.has_attr(name)) return name;
  }
  if (c.has(7)) return "peepholes";
  if (c.i("input_forget", 0) != 0) return "input_forget";
  const auto given = activations_of(c);
  for (size_t i = 0; i < given.size(); ++i) {
    const bool relu = kind.gates == 1 && given[i] == "Relu";
    if (!relu && given[i] != kind.activations[i % kind.activations.size()]) {
      return "activation " + given[i];
    }
  }
  return "";
}

/// Whether a node is tv::recurrent: what can be, but for what can be unrolled of states that a
/// workgroup of some devices does not hold, or that CPU drivers read slowly.
bool loops(const OpContext& c, const Kind& kind) {
  constexpr int64_t kMostEverywhere = 1344, kSmall = 64, kVector = 4;
  if (!not_looped(c, kind).empty()) return false;
  const auto steps = dim(c.in(0), c.i("layout", 0) != 0 ? 1 : 0).constant();
  const auto size = dim(c.in(2), 2).constant();
  return !steps || *steps > 4096 || *steps == 0 ||
         (size && *size <= kMostEverywhere && (*size <= kSmall || *size % kVector == 0));
}

void looped(OpContext& c, const Kind& kind) {
  if (const std::string reason = not_looped(c, kind); !reason.empty()) {
    refuse(reason + " beside sequence_lens");
  }
  Emitter& e = c.e;
  const bool batch_first = c.i("layout", 0) != 0;
  const auto by_steps = [&](const Tensor& t) { return batch_first ? e.transpose(t, 0, 1) : t; };
  const auto directions = dim(c.in(1), 0).constant(), size = dim(c.in(2), 2).constant();
  if (!directions || *directions < 1 || *directions > 2)
    throw Error(ErrorKind::kUser, "directions");
  if (!size) refuse("a hidden size that is not known");
  const Expr steps = dim(c.in(0), batch_first ? 1 : 0), batch = dim(c.in(0), batch_first ? 0 : 1);
  const DType dtype = c.in(0).dtype;
  const Shape state_shape = {batch, Expr(*size)};
  const auto activations = activations_of(c);
  std::vector<Tensor> all, hidden, cell;
  for (int64_t d = 0; d < *directions; ++d) {
    const auto own = [&](size_t i) { return c.has(i) ? e.select(c.in(i), 0, d) : Tensor{}; };
    const auto state = [&](size_t i) {
      return c.has(i) ? e.select(by_steps(c.in(i)), 0, d) : e.full(state_shape, dtype, 0);
    };
    const Tensor bias = own(3);
    const int64_t rows = kind.gates * *size;
    const auto half = [&](int64_t i) {
      return bias.present ? e.slice(bias, 0, i * rows, (i + 1) * rows) : bias;
    };
    std::string name = "LSTM", order = "iofg";
    if (kind.gates == 3) {
      name = c.i("linear_before_reset", 0) != 0 ? "GRU" : "GRU_RESET_FIRST";
      order = "zrn";
    } else if (kind.gates == 1) {
      const auto at = static_cast<size_t>(d);
      name = at < activations.size() && activations[at] == "Relu" ? "RELU" : "TANH";
      order = "h";
    }
    const Tensor gates = by_steps(product(e, c.in(0), own(1), half(0)));
    const bool reverse = d == 1 || c.s("direction", "forward") == "reverse";
    const Shape y = {steps, batch, Expr(*size)};
    std::vector<std::pair<DType, Shape>> outputs = {{dtype, y}, {dtype, state_shape}};
    if (kind.gates == 4) outputs.emplace_back(dtype, state_shape);
    std::vector<Arg> args = {e.arg("gates", gates), e.arg("weight", own(2)), e.arg("bias", half(1)),
                             e.arg("hidden", state(5))};
    if (kind.gates == 4) args.push_back(e.arg("cell", state(6)));
    args.insert(args.end(), {e.arg("lengths", c.maybe(4)), attr_arg("kind", name),
                             attr_arg("order", order), attr_arg("reverse", reverse)});
    const auto made =
        e.nodes(kind.gates == 4 ? "tv::lstm" : "tv::recurrent", std::move(args), outputs);
    all.push_back(made[0]);
    hidden.push_back(made[1]);
    if (kind.gates == 4) cell.push_back(made[2]);
  }
  if (c.wants(0)) {
    const Tensor y = e.stack(all, 1);  // (sequence, directions, batch, size)
    c.out(0, batch_first ? e.permute(y, {2, 0, 1, 3}) : y);
  }
  if (c.wants(1)) c.out(1, by_steps(e.stack(hidden, 0)));
  if (c.wants(2)) c.out(2, by_steps(e.stack(cell, 0)));
}

void recurrent(OpContext& c) {
  static const std::map<std::string, Kind> kinds = {
      {"RNN", {1, {"Tanh"}, rnn_step}},
      {"GRU", {3, {"Sigmoid", "Tanh"}, gru_step}},
      {"LSTM", {4, {"Sigmoid", "Tanh", "Tanh"}, lstm_step}}};
  const Kind& kind = kinds.at(c.type());
  Emitter& e = c.e;
  if (c.has(4) || loops(c, kind)) return looped(c, kind);
  const bool batch_first = c.i("layout", 0) != 0;
  if (batch_first && (c.has(5) || c.has(6))) refuse("initial states with layout 1");
  const Tensor x = batch_first ? e.transpose(c.in(0), 0, 1) : c.in(0);
  const int64_t steps = steps_of(dim(x, 0));
  const auto directions = dim(c.in(1), 0).constant();
  if (!directions || *directions < 1 || *directions > 2)
    throw Error(ErrorKind::kUser, "directions");
  std::vector<std::vector<Tensor>> rows(static_cast<size_t>(steps));
  std::vector<Tensor> hidden, cell;
  for (int64_t d = 0; d < *directions; ++d) {
    const Tensor state = e.full({dim(x, 1), dim(c.in(2), 2)}, x.dtype, 0);
    Layer l = layer_of(c, kind, d, *directions, state);
    std::vector<Tensor> made(static_cast<size_t>(steps));
    // The product of the inputs does not wait for the steps before: it is one for all of them.
    const Tensor inputs = product(e, x, l.w, l.wb);
    for (int64_t t = 0; t < steps; ++t) {
      const int64_t at = l.reverse ? steps - 1 - t : t;
      kind.step(c, l, e.select(inputs, 0, at));
      made[static_cast<size_t>(at)] = l.hidden;
    }
    for (size_t t = 0; t < made.size(); ++t) rows[t].push_back(made[t]);
    hidden.push_back(l.hidden);
    if (kind.gates == 4) cell.push_back(l.cell);
  }
  if (c.wants(0)) {
    std::vector<Tensor> all;
    for (const auto& row : rows) all.push_back(e.stack(row, 0));
    const Tensor y = e.stack(all, 0);  // (sequence, directions, batch, size)
    c.out(0, batch_first ? e.permute(y, {2, 0, 1, 3}) : y);
  }
  const auto last = [&](const std::vector<Tensor>& states) {
    const Tensor y = e.stack(states, 0);
    return batch_first ? e.transpose(y, 0, 1) : y;
  };
  if (c.wants(1)) c.out(1, last(hidden));
  if (c.wants(2)) c.out(2, last(cell));
}

// S' = exp(g) S + beta k (v - exp(g) S k); o = scale q S'
void linear_attention(OpContext& c) {
  Emitter& e = c.e;
  const int64_t heads = c.i("q_num_heads", 0), own = c.i("kv_num_heads", 0);
  const int64_t steps = steps_of(dim(c.in(0), 1));
  const auto split = [&](const Tensor& x, int64_t count) {
    const auto width = dim(x, 2).constant();
    if (!width || count < 1 || *width % count) throw Error(ErrorKind::kUser, "numbers of heads");
    return e.cast(e.reshape(x, {dim(x, 0), dim(x, 1), count, *width / count}), DType::kF32);
  };
  if (own < 1 || heads % own != 0) throw Error(ErrorKind::kUser, "numbers of heads");
  const Tensor q = split(c.in(0), heads), k = split(c.in(1), own), v = split(c.in(2), own);
  const std::string rule = c.s("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  const Tensor decay = gated ? split(c.in(4), own) : Tensor{};
  Tensor rate;  // of each head, or of all
  if (delta) {
    const bool shared = dim(c.in(5), 2) == Expr(1);
    rate = split(c.in(5), shared ? 1 : own);
  }
  const auto size = dim(k, 3).constant();
  double scale = c.f("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(*size));
  const Expr batch = dim(q, 0);
  Tensor state = c.has(3) ? e.cast(c.in(3), DType::kF32)
                          : e.full({batch, own, dim(k, 3), dim(v, 3)}, DType::kF32, 0);
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < steps; ++t) {
    const auto at = [&](const Tensor& x) { return e.select(x, 1, t); };  // (batch, heads, size)
    if (gated) state = e.mul(state, e.unsqueeze(e.unary("exp", at(decay)), 3));
    Tensor value = at(v);
    if (delta) {
      const Tensor seen = e.matmul(e.unsqueeze(at(k), 2), state);
      value = e.mul(e.sub(value, e.squeeze(seen, 2)), at(rate));
    }
    state = e.add(state, e.mul(e.unsqueeze(at(k), 3), e.unsqueeze(value, 2)));
    const Tensor queries = e.reshape(at(q), {batch, own, heads / own, dim(q, 3)});
    rows.push_back(e.reshape(e.matmul(queries, state), {batch, 1, Expr(heads) * dim(v, 3)}));
  }
  if (rows.empty()) refuse("a sequence without steps");
  c.out(0, e.cast(e.with("mul", e.cat(rows, 1), scale), c.in(0).dtype));
  c.out(1, e.cast(state, c.has(3) ? c.in(3).dtype : c.in(0).dtype));
}

void causal_conv(OpContext& c) {
  Emitter& e = c.e;
  const Tensor &x = c.in(0), &weight = c.in(1);
  const auto taps = dim(weight, 2).constant(), channels = dim(x, 1).constant();
  if (!taps || !channels) refuse("dynamic sizes of the weight");
  const Tensor padded = c.has(3) ? e.cat({c.in(3), x}, 2) : e.pad(x, {Expr(*taps - 1), Expr(0)}, 0);
  Tensor y = e.node("aten::convolution",
                    {e.arg("input", padded), e.arg("weight", weight), e.arg("bias", c.maybe(2)),
                     attr_arg("stride", exprs({1})), attr_arg("padding", exprs({0})),
                     attr_arg("dilation", exprs({1})), attr_arg("transposed", false),
                     attr_arg("output_padding", exprs({0})), attr_arg("groups", Expr(*channels))},
                    x.dtype, x.shape);
  const std::string name = c.s("activation", "none");
  if (name == "silu" || name == "swish") {
    y = e.unary("silu", y);
  } else if (name != "none" && !name.empty()) {
    refuse("activation " + name);
  }
  c.out(0, y);
  const Expr length = dim(padded, 2);
  c.out(1, e.slice(padded, 2, length - Expr(*taps - 1), length));
}

const RegisterOnnx ops{{"RNN", recurrent},
                       {"GRU", recurrent},
                       {"LSTM", recurrent},
                       {"LinearAttention", linear_attention},
                       {"CausalConvWithState", causal_conv}};

}  // namespace
}  // namespace tv::onnx
