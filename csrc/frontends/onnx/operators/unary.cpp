// Functions of one element: activations, elementary functions, casts.

#include <cmath>

#include "csrc/frontends/onnx/emit/uint64.h"
#include "csrc/frontends/onnx/kit/host_ops.h"
#include "csrc/frontends/onnx/kit/scales.h"

namespace tv::onnx {
namespace {

const std::map<std::string, std::string>& aten_names() {
  static const std::map<std::string, std::string> names = {{"Relu", "relu"},
                                                           {"Sigmoid", "sigmoid"},
                                                           {"Tanh", "tanh"},
                                                           {"Exp", "exp"},
                                                           {"Log", "log"},
                                                           {"Sqrt", "sqrt"},
                                                           {"Abs", "abs"},
                                                           {"Neg", "neg"},
                                                           {"Floor", "floor"},
                                                           {"Ceil", "ceil"},
                                                           {"Round", "round"},
                                                           {"Sin", "sin"},
                                                           {"Cos", "cos"},
                                                           {"Tan", "tan"},
                                                           {"Asin", "asin"},
                                                           {"Acos", "acos"},
                                                           {"Atan", "atan"},
                                                           {"Sinh", "sinh"},
                                                           {"Cosh", "cosh"},
                                                           {"Asinh", "asinh"},
                                                           {"Acosh", "acosh"},
                                                           {"Atanh", "atanh"},
                                                           {"Erf", "erf"},
                                                           {"Reciprocal", "reciprocal"},
                                                           {"Mish", "mish"},
                                                           {"HardSwish", "hardswish"},
                                                           {"BitwiseNot", "bitwise_not"}};
  return names;
}

/// nullopt: the ranges of the symbols leave it open.
std::optional<Expr> sign_of(Emitter& e, const Expr& value) {
  const auto [low, high] = bounds(e, value);
  if (low > 0) return Expr(1);
  if (high < 0) return Expr(-1);
  if (low == 0) return min(value, 1);
  if (high == 0) return max(value, -1);
  return std::nullopt;
}

HostFunction host_unary(const std::string& type, Emitter& e) {
  using Floats = std::vector<double>;
  if (type == "Sign") {
    return {[&e](const std::vector<Expr>& v) { return sign_of(e, v[0]); },
            [](const Floats& v) {
              return std::isnan(v[0]) ? v[0] : static_cast<double>((v[0] > 0) - (v[0] < 0));
            }};
  }
  if (type == "Neg") {
    return {[](const std::vector<Expr>& v) -> std::optional<Expr> {
              if (v[0].constant() == INT64_MIN) return std::nullopt;
              return Expr(0) - v[0];
            },
            [](const Floats& v) { return -v[0]; }};
  }
  if (type == "Floor") return {{}, [](const Floats& v) { return std::floor(v[0]); }};
  if (type == "Ceil") return {{}, [](const Floats& v) { return std::ceil(v[0]); }};
  if (type == "Relu") {
    return {{}, [](const Floats& v) { return std::isnan(v[0]) ? v[0] : std::max(v[0], 0.0); }};
  }
  if (type == "Sqrt") return {{}, [](const Floats& v) { return std::sqrt(v[0]); }};
  if (type == "Reciprocal") return {{}, [](const Floats& v) { return 1 / v[0]; }};
  return {};
}

void unary(OpContext& c) {
  const Tensor& x = c.in(0);
  if (auto value = fold(c.e, {x}, x.dtype, host_unary(c.type(), c.e))) return c.out(0, *value);
  const bool rounds = c.type() == "Floor" || c.type() == "Ceil" || c.type() == "Round";
  if (rounds && !is_float(x.dtype)) return c.out(0, x);
  c.out(0, c.e.unary(aten_names().at(c.type()), x));
}

/// NaN's sign is NaN; ATen's is 0.
void sign(OpContext& c) {
  const Tensor& x = c.in(0);
  if (auto value = fold(c.e, {x}, x.dtype, host_unary(c.type(), c.e))) return c.out(0, *value);
  const Tensor made = c.e.unary("sign", x);
  c.out(0, is_float(x.dtype) ? c.e.where(c.e.test("isnan", x), x, made) : made);
}

void logical_not(OpContext& c) {
  const HostFunction host{[](const std::vector<Expr>& v) -> std::optional<Expr> {
                            if (!v[0].is_constant()) return std::nullopt;
                            return Expr(v[0] == Expr(0) ? 1 : 0);
                          },
                          {}};
  if (auto value = fold(c.e, {c.in(0)}, DType::kBool, host)) return c.out(0, *value);
  c.out(0, c.e.test("logical_not", c.in(0)));
}

void is_nan(OpContext& c) { c.out(0, c.e.test("isnan", c.in(0))); }

void is_inf(OpContext& c) {
  const Tensor& x = c.in(0);
  const bool below = c.i("detect_negative", 1) != 0, above = c.i("detect_positive", 1) != 0;
  if (below && above) return c.out(0, c.e.test("isinf", x));
  if (!below && !above) return c.out(0, c.e.full(x.shape, DType::kBool, 0));
  c.out(0, c.e.with("eq", x, above ? HUGE_VAL : -HUGE_VAL));
}

Tensor cast_to(OpContext& c, const Tensor& x, DType to) {
  const bool from_float = is_float(x.dtype), to_bool = to == DType::kBool;
  const HostFunction host{
      [&](const std::vector<Expr>& v) -> std::optional<Expr> {
        const auto value = v[0].constant();
        if (to_bool) return value ? std::optional<Expr>(*value != 0 ? 1 : 0) : std::nullopt;
        if (to == DType::kI64 || x.dtype == DType::kBool) return v[0];
        if (!value) return to == DType::kI32 ? std::optional<Expr>(v[0]) : std::nullopt;
        if (to == DType::kI32 && *value == static_cast<int32_t>(*value)) return v[0];
        return std::nullopt;
      },
      [&](const std::vector<double>& v) {
        if (to_bool) return v[0] != 0 ? 1.0 : 0.0;
        return is_float(to) || (from_float && std::isnan(v[0])) ? v[0] : std::trunc(v[0]);
      }};
  if (auto value = fold(c.e, {x}, to, host)) return *value;
  return c.e.cast(x, to);
}

/// What a float becomes where an integer type is held in a wider one.
Tensor whole_of(OpContext& c, const Tensor& x, int32_t type) {
  const Tensor number = decoded(c.e, x);
  if (!is_float(number.dtype)) return number;
  return is_uint64(type) ? uint64_of_float(c.e, number) : c.e.cast(number, DType::kI64);
}

/// x in an ONNX type; `type` may be one of small floats, which are held as their codes.
Tensor cast_to_type(OpContext& c, const Tensor& x, int32_t type, DType to) {
  if (is_uint64(x) && (is_float(to) || !small_float(type).empty())) {
    const Tensor number = uint64_to_float(c.e, x, is_float(to) ? to : DType::kF32);
    return is_float(to) ? number : encoded(c.e, number, type, c.i("saturate", 1) != 0);
  }
  if (!small_float(type).empty()) {
    return x.widened == type ? x : encoded(c.e, x, type, c.i("saturate", 1) != 0);
  }
  if (to == DType::kOther) {  // integers in a wider type
    if (!widened_type(type)) refuse("tensors of type " + type_name(type));
    if (x.widened == type) return x;
    Tensor made = wrapped(c.e, whole_of(c, x, type), type);
    // Outside of engines both are stored in their own ways.
    if (made.id != kNoValue && made.id == x.id) made = c.e.copy(made);
    made.widened = type;
    return made;
  }
  if (!small_float(x.widened).empty()) return c.e.cast(decoded(c.e, x), to);
  Tensor made = cast_to(c, x, to);
  if (x.widened && made.id != kNoValue && made.id == x.id) made = c.e.copy(made);
  made.widened = 0;
  return made;
}

/// The attribute to, TensorProto.DataType.
int32_t type_to(OpContext& c) {
  if (!c.has_attr("to")) throw Error(ErrorKind::kUser, "attribute to is missing");
  const int64_t to = c.i("to", 0);
  const auto type = static_cast<int32_t>(to);
  if (type != to) throw Error(ErrorKind::kUser, "attribute to is no type");
  return type;
}

void cast(OpContext& c) {
  const int32_t type = type_to(c);
  c.out(0, cast_to_type(c, c.in(0), type, dtype_of(type)));
}

/// The signed type with the bits of uint16, uint32 or uint64; nullopt for any other.
std::optional<DType> signed_of(int32_t type) {
  if (!widened_type(type) || !small_float(type).empty()) return std::nullopt;
  switch (stored_bytes(type, 1)) {
    case 2:
      return DType::kI16;
    case 4:
      return DType::kI32;
    case 8:
      return DType::kI64;
    default:  // of less than a byte
      return std::nullopt;
  }
}

void bit_cast(OpContext& c) {
  const int32_t type = type_to(c);
  Tensor x = c.in(0);
  const auto made_signed = signed_of(type), was_signed = signed_of(x.widened);
  const DType to = made_signed.value_or(held_dtype(type));
  if (to == DType::kOther) refuse("tensors of type " + type_name(type));
  if (was_signed) {
    x = c.e.cast(x, *was_signed);
  } else if (x.widened && !is_held_as_codes(x.widened)) {
    refuse("input 0 is of " + type_name(x.widened));
  }
  if (size_bytes(to) != size_bytes(x.dtype)) {
    throw Error(ErrorKind::kUser, "bits of " + std::string(name(x.dtype)) + " as " +
                                      type_name(type) + ", which has others");
  }
  if (to == DType::kBool && x.dtype != to) refuse("bits as bool");
  Tensor made = x.dtype == to ? c.e.copy(x)
                              : c.e.node("aten::view.dtype", {c.e.arg("self", x), dtype_arg(to)},
                                         to, x.shape);
  if (made_signed) made = wrapped(c.e, made, type);
  made.widened = made_signed || is_held_as_codes(type) ? type : 0;
  c.out(0, made);
}

void cast_like(OpContext& c) {
  const Tensor& like = c.in(1);
  c.out(0, cast_to_type(c, c.in(0), like.widened, like.widened ? DType::kOther : like.dtype));
}

void identity(OpContext& c) { c.out(0, c.in(0)); }

void dropout(OpContext& c) {
  const Tensor& x = c.in(0);
  if (c.has(2)) {
    const auto training = c.e.host(c.in(2));
    if (!training) refuse("training_mode is computed from data");
    const auto ratio = c.has(1) ? c.e.host(c.in(1)) : nullptr;
    const bool none = ratio && !ratio->floats.empty() && ratio->floats[0] == 0;
    if (!(training->ints.at(0) == Expr(0)) && !none) refuse("dropout in training is random");
  }
  c.out(0, x);
  if (c.wants(1)) c.out(1, c.e.full(x.shape, c.opset() >= 10 ? DType::kBool : x.dtype, 1));
}

// --- activations with parameters ---

Tensor scalar_op(OpContext& c, const std::string& op, std::vector<Arg> args) {
  args.insert(args.begin(), c.e.arg("self", c.in(0)));
  return c.e.node(op, std::move(args), c.in(0).dtype, c.in(0).shape);
}

void leaky_relu(OpContext& c) {
  c.out(0, scalar_op(c, "aten::leaky_relu", {attr_arg("negative_slope", c.f("alpha", 0.01f))}));
}

Tensor elu_of(OpContext& c, double alpha, double scale, double input_scale) {
  return scalar_op(
      c, "aten::elu",
      {attr_arg("alpha", alpha), attr_arg("scale", scale), attr_arg("input_scale", input_scale)});
}

void elu(OpContext& c) { c.out(0, elu_of(c, c.f("alpha", 1.0), 1, 1)); }
void selu(OpContext& c) {
  c.out(0, elu_of(c, c.f("alpha", 1.67326319217681884765625),
                  c.f("gamma", 1.05070102214813232421875), 1));
}
// max(0, x) + min(0, alpha (exp(x / alpha) - 1))
void celu(OpContext& c) {
  const double alpha = c.f("alpha", 1.0);
  c.out(0, elu_of(c, alpha, 1, 1 / alpha));
}

void hard_sigmoid(OpContext& c) {
  const Tensor& x = c.in(0);
  const Tensor line = c.e.with("add", c.e.with("mul", x, c.f("alpha", 0.2f)), c.f("beta", 0.5));
  c.out(0, c.e.clamp(line, 0, 1));
}

void softplus(OpContext& c) {
  // log(1 + exp(x)), exact on both sides; torch's own becomes x above a threshold.
  const Tensor& x = c.in(0);
  const Tensor tail = c.e.unary("log1p", c.e.unary("exp", c.e.unary("neg", c.e.unary("abs", x))));
  c.out(0, c.e.add(c.e.unary("relu", x), tail));
}

void softsign(OpContext& c) {
  const Tensor& x = c.in(0);
  c.out(0, c.e.div(x, c.e.with("add", c.e.unary("abs", x), 1)));
}

void thresholded_relu(OpContext& c) {
  const Tensor& x = c.in(0);
  c.out(0, c.e.where(c.e.with("gt", x, c.f("alpha", 1.0)), x, c.e.number(x.dtype, 0)));
}

void shrink(OpContext& c) {
  const Tensor& x = c.in(0);
  const double lambd = c.f("lambd", 0.5), bias = c.f("bias", 0);
  const Tensor above =
      c.e.where(c.e.with("gt", x, lambd), c.e.with("sub", x, bias), c.e.number(x.dtype, 0));
  c.out(0, c.e.where(c.e.with("lt", x, -lambd), c.e.with("add", x, bias), above));
}

void gelu(OpContext& c) {
  c.out(0, scalar_op(c, "aten::gelu", {attr_arg("approximate", c.s("approximate", "none"))}));
}

void swish(OpContext& c) {
  const Tensor& x = c.in(0);
  const double alpha = c.f("alpha", 1.0);
  if (alpha == 1) return c.out(0, c.e.unary("silu", x));
  c.out(0, c.e.mul(x, c.e.unary("sigmoid", c.e.with("mul", x, alpha))));
}

void prelu(OpContext& c) {
  const Tensor &x = c.in(0), &slope = c.in(1);
  c.out(0, c.e.where(c.e.with("lt", x, 0), c.e.mul(x, slope), x));
}

void clip(OpContext& c) {
  Tensor x = c.in(0);
  std::vector<Arg> bounds = {attr_arg("min", {}), attr_arg("max", {})};
  if (c.opset() < 11) {
    if (c.has_attr("min")) bounds[0].attr = c.f("min", 0);
    if (c.has_attr("max")) bounds[1].attr = c.f("max", 0);
  }
  for (size_t i : {1, 2}) {
    if (!c.has(i) || c.opset() < 11) continue;
    const auto host = c.e.host(c.in(i), 1);
    if (host && host->baked && is_float(x.dtype) && host->floats.size() == 1) {
      bounds[i - 1].attr = host->floats[0];
    } else {
      x = c.e.binary(i == 1 ? "maximum" : "minimum", x, c.in(i));
    }
  }
  const auto none = [](const Arg& a) { return std::holds_alternative<std::monostate>(a.attr); };
  if (none(bounds[0]) && none(bounds[1])) return c.out(0, x);
  c.out(0, c.e.node("aten::clamp", {c.e.arg("self", x), bounds[0], bounds[1]}, x.dtype, x.shape));
}

const RegisterOnnx ops{{"Not", logical_not},
                       {"IsNaN", is_nan},
                       {"Sign", sign},
                       {"IsInf", is_inf},
                       {"BitCast", bit_cast, Widened::kSaid},
                       {"Cast", cast, Widened::kSaid},
                       {"CastLike", cast_like, Widened::kSaid},
                       {"Identity", identity, Widened::kMoved},
                       {"Dropout", dropout},
                       {"LeakyRelu", leaky_relu},
                       {"Elu", elu},
                       {"Selu", selu},
                       {"Celu", celu},
                       {"HardSigmoid", hard_sigmoid},
                       {"Softplus", softplus},
                       {"Softsign", softsign},
                       {"ThresholdedRelu", thresholded_relu},
                       {"Shrink", shrink},
                       {"Gelu", gelu},
                       {"Swish", swish},
                       {"PRelu", prelu},
                       {"Clip", clip},
                       {"BitwiseNot", unary, Widened::kCut}};

struct RegisterUnary {
  RegisterUnary() {
    for (const auto& [name, aten] : aten_names()) translations().emplace(name, OnnxOperator{unary});
  }
} const registered;

}  // namespace
}  // namespace tv::onnx
