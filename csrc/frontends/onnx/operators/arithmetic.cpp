// Functions of one and two elements.

#include <algorithm>
#include <cmath>

#include "csrc/frontends/onnx/emit/uint64.h"
#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

using Ints = std::vector<Expr>;
using Floats = std::vector<double>;

std::optional<Expr> quotient(Emitter& e, const Expr& a, const Expr& b) {
  const auto ca = a.constant(), cb = b.constant();
  if (ca && cb) {
    if (*cb == 0 || *cb == -1) return std::nullopt;
    return *ca / *cb;
  }
  if (bounds(e, a).first < 0 || bounds(e, b).first <= 0) return std::nullopt;
  return floordiv(a, b);
}

// Two sizes whose order the ranges of their symbols decide; nullopt elsewhere.
std::optional<bool> less(Emitter& e, const Expr& a, const Expr& b) {
  const auto difference = checked_add(a, Expr(0) - b);
  if (!difference) return std::nullopt;
  const auto [low, high] = bounds(e, *difference);
  if (high < 0) return true;
  if (low >= 0) return false;
  return std::nullopt;
}

std::optional<Expr> truth(std::optional<bool> value) {
  if (!value) return std::nullopt;
  return Expr(*value ? 1 : 0);
}

bool numbers(const Ints& v) {
  for (const Expr& e : v) {
    if (!e.is_constant() || *e.constant() == INT64_MIN) return false;
  }
  return true;
}

HostFunction host_arithmetic(const std::string& type, Emitter& e) {
  if (type == "Add") {
    return {[](const Ints& v) { return checked_add(v[0], v[1]); },
            [](const Floats& v) { return v[0] + v[1]; }};
  }
  if (type == "Sub") {
    return {[](const Ints& v) -> std::optional<Expr> {
              if (v[1].constant() == INT64_MIN) return std::nullopt;
              return checked_add(v[0], Expr(0) - v[1]);
            },
            [](const Floats& v) { return v[0] - v[1]; }};
  }
  if (type == "Mul") {
    return {[](const Ints& v) { return checked_mul(v[0], v[1]); },
            [](const Floats& v) { return v[0] * v[1]; }};
  }
  if (type == "Div") {
    return {[&e](const Ints& v) { return quotient(e, v[0], v[1]); },
            [](const Floats& v) { return v[0] / v[1]; }};
  }
  if (type == "Max") {
    return {[](const Ints& v) -> std::optional<Expr> { return max(v[0], v[1]); },
            [](const Floats& v) { return std::isnan(v[0]) || v[0] > v[1] ? v[0] : v[1]; }};
  }
  if (type == "Min") {
    return {[](const Ints& v) -> std::optional<Expr> { return min(v[0], v[1]); },
            [](const Floats& v) { return std::isnan(v[0]) || v[0] < v[1] ? v[0] : v[1]; }};
  }
  return {};
}

HostFunction host_comparison(const std::string& type, Emitter& e) {
  if (type == "Equal") {
    return {[&e](const Ints& v) -> std::optional<Expr> {
              if (v[0] == v[1]) return Expr(1);
              const auto [low, high] = bounds(e, v[0] - v[1]);
              if (low > 0 || high < 0) return Expr(0);
              return std::nullopt;
            },
            [](const Floats& v) { return v[0] == v[1] ? 1.0 : 0.0; }};
  }
  if (type == "Less") {
    return {[&e](const Ints& v) { return truth(less(e, v[0], v[1])); },
            [](const Floats& v) { return v[0] < v[1] ? 1.0 : 0.0; }};
  }
  if (type == "Greater") {
    return {[&e](const Ints& v) { return truth(less(e, v[1], v[0])); },
            [](const Floats& v) { return v[0] > v[1] ? 1.0 : 0.0; }};
  }
  if (type == "LessOrEqual" || type == "GreaterOrEqual") {
    const bool swap = type == "LessOrEqual";
    return {[&e, swap](const Ints& v) -> std::optional<Expr> {
              const auto below = swap ? less(e, v[1], v[0]) : less(e, v[0], v[1]);
              return below ? truth(!*below) : std::nullopt;
            },
            {}};
  }
  return {};
}

HostFunction host_logical(const std::string& type) {
  if (type == "And") {
    return {[](const Ints& v) -> std::optional<Expr> {
              if (!numbers(v)) return std::nullopt;
              return Expr(*v[0].constant() && *v[1].constant() ? 1 : 0);
            },
            {}};
  }
  if (type == "Or") {
    return {[](const Ints& v) -> std::optional<Expr> {
              if (!numbers(v)) return std::nullopt;
              return Expr(*v[0].constant() || *v[1].constant() ? 1 : 0);
            },
            {}};
  }
  return {};
}

// How operators of two operands compute with numbers that are known, and with sizes.
HostFunction host_binary(const std::string& type, Emitter& e) {
  HostFunction found = host_arithmetic(type, e);
  if (!found.ints) found = host_comparison(type, e);
  return found.ints ? found : host_logical(type);
}

// Before opset 7 shapes broadcast by attribute; from then on as here.
std::optional<Tensor> folded(OpContext& c, const std::vector<Tensor>& operands, DType result) {
  return fold(c.e, operands, result, host_binary(c.type(), c.e));
}

void arithmetic(OpContext& c) {
  const Tensor &a = c.in(0), &b = c.in(1);
  const std::string& type = c.type();
  if (type == "Div" && is_uint64(a)) return c.out(0, unsigned_quotient(c.e, a, b));
  if (auto value = folded(c, {a, b}, a.dtype)) return c.out(0, *value);
  if (type == "Div") {
    return c.out(0, is_float(a.dtype) ? c.e.div(a, b) : c.e.divide(a, b, "trunc"));
  }
  c.out(0, type == "Add" ? c.e.add(a, b) : type == "Sub" ? c.e.sub(a, b) : c.e.mul(a, b));
}

/// Whether every element is known, and is `value`.
bool holds_only(Emitter& e, const Tensor& x, int64_t value) {
  const auto host = x.dtype == DType::kBool ? movable(e, x) : nullptr;
  return host && std::ranges::all_of(host->ints, [&](const Expr& at) { return at == Expr(value); });
}

/// What one operand decides: false and something unknown, true or something unknown. torch.onnx
/// writes a division of sizes that rounds down as one that truncates, less whether the signs differ
/// and there is a remainder: sizes have no sign.
std::optional<Tensor> decided(OpContext& c, const Tensor& a, const Tensor& b) {
  if (c.type() != "And" && c.type() != "Or") return std::nullopt;
  const int64_t decides = c.type() == "Or" ? 1 : 0;
  if (!holds_only(c.e, a, decides) && !holds_only(c.e, b, decides)) return std::nullopt;
  Host host{.dtype = DType::kBool};
  for (const Expr& dim : c.e.broadcast(a.shape, b.shape)) {
    if (!dim.is_constant()) return std::nullopt;
    host.dims.push_back(*dim.constant());
  }
  const int64_t count = checked_count(host.dims, "[onnx] " + c.type());
  if (count > kMaxHostElements) return std::nullopt;
  host.ints.assign(static_cast<size_t>(count), Expr(decides));
  return c.e.from_host(std::move(host));
}

void comparison(OpContext& c) {
  const Tensor a = ordered(c.e, c.in(0)), b = ordered(c.e, c.in(1));
  if (auto value = folded(c, {a, b}, DType::kBool)) return c.out(0, *value);
  if (auto value = decided(c, a, b)) return c.out(0, *value);
  static const std::map<std::string, std::string> names = {
      {"Equal", "eq"},       {"Less", "lt"},           {"Greater", "gt"},
      {"LessOrEqual", "le"}, {"GreaterOrEqual", "ge"}, {"And", "logical_and"},
      {"Or", "logical_or"},  {"Xor", "logical_xor"}};
  c.out(0, c.e.compare(names.at(c.type()), a, b));
}

void mod(OpContext& c) {
  const Tensor &a = c.in(0), &b = c.in(1);
  const bool c_sign = c.i("fmod", 0) != 0;
  if (is_uint64(a)) return c.out(0, unsigned_remainder(c.e, a, b));
  const HostFunction host{[&](const Ints& v) -> std::optional<Expr> {
                            if (c_sign || v[1] == Expr(0) || bounds(c.e, v[1]).first <= 0)
                              return std::nullopt;
                            return mod(v[0], v[1]);
                          },
                          {}};
  if (auto value = fold(c.e, {a, b}, a.dtype, host)) return c.out(0, *value);
  c.out(0, c.e.binary(c_sign ? "fmod" : "remainder", a, b));
}

// Max, Min, Sum and Mean of any number of operands.
void variadic(OpContext& c) {
  const std::string& type = c.type();
  Tensor result = ordered(c.e, c.in(0));
  for (size_t i = 1; i < c.count(); ++i) {
    const Tensor next = ordered(c.e, c.in(i));
    if (type == "Max" || type == "Min") {
      if (auto value = folded(c, {result, next}, result.dtype)) {
        result = *value;
        continue;
      }
    }
    result = c.e.binary(type == "Max"   ? "maximum"
                        : type == "Min" ? "minimum"
                                        : "add",
                        result, next);
  }
  if (type == "Mean") result = c.e.with("div", result, static_cast<double>(c.count()));
  result.widened = c.in(0).widened;
  c.out(0, ordered(c.e, result));
}

void power(OpContext& c) {
  const Tensor& x = c.in(0);
  Tensor exponent = c.in(1);
  if (is_uint64(exponent)) {
    if (!is_float(x.dtype)) refuse("an exponent of type uint64 of integers");
    return c.out(0, c.e.binary("pow", x, uint64_to_float(c.e, exponent, x.dtype)));
  }
  const auto host = c.e.host(exponent, 1);
  if (host && host->baked && exponent.rank() <= x.rank()) {
    const double value = is_float(host->dtype)
                             ? host->floats.at(0)
                             : static_cast<double>(host->ints.at(0).constant().value_or(0));
    if (is_float(x.dtype) || (value >= 0 && value == std::floor(value))) {
      return c.out(0, c.e.with("pow", x, value));
    }
  }
  if (!is_float(x.dtype) && is_float(exponent.dtype)) {  // the base's type holds the result
    return c.out(0, c.e.cast(c.e.binary("pow", c.e.cast(x, exponent.dtype), exponent), x.dtype));
  }
  c.out(0, c.e.binary("pow", x, c.e.cast(exponent, x.dtype)));
}

void bitwise(OpContext& c) {
  static const std::map<std::string, std::string> names = {
      {"BitwiseAnd", "bitwise_and"}, {"BitwiseOr", "bitwise_or"}, {"BitwiseXor", "bitwise_xor"}};
  c.out(0, c.e.binary(names.at(c.type()), c.in(0), c.in(1)));
}

void bit_shift(OpContext& c) {
  const bool left = c.s("direction", "") == "LEFT";
  if (!left && is_uint64(c.in(0))) return c.out(0, unsigned_shift_right(c.e, c.in(0), c.in(1)));
  c.out(0, c.e.binary(left ? "bitwise_left_shift" : "bitwise_right_shift", c.in(0), c.in(1)));
}

void where(OpContext& c) {
  const HostFunction host{[](const Ints& v) -> std::optional<Expr> {
                            if (!v[0].is_constant()) return std::nullopt;
                            return v[0] == Expr(0) ? v[2] : v[1];
                          },
                          {}};
  const Tensor &condition = c.in(0), &a = c.in(1), &b = c.in(2);
  const auto made = fold(c.e, {condition, a, b}, a.dtype, host);
  if (!made && (a.dtype != b.dtype || a.widened != b.widened)) {
    throw Error(ErrorKind::kUser, "operands of different types");
  }
  Tensor chosen = made ? *made : c.e.where(condition, a, b);
  chosen.widened = a.widened;
  c.out(0, std::move(chosen));
}

const RegisterOnnx ops{{"Add", arithmetic, Widened::kCut},
                       {"Sub", arithmetic, Widened::kCut},
                       {"Mul", arithmetic, Widened::kCut},
                       {"Div", arithmetic, Widened::kKept},
                       {"Equal", comparison, Widened::kCompared},
                       {"Less", comparison, Widened::kCompared},
                       {"Greater", comparison, Widened::kCompared},
                       {"LessOrEqual", comparison, Widened::kCompared},
                       {"GreaterOrEqual", comparison, Widened::kCompared},
                       {"And", comparison},
                       {"Or", comparison},
                       {"Xor", comparison},
                       {"Mod", mod, Widened::kKept},
                       {"Max", variadic, Widened::kKept},
                       {"Min", variadic, Widened::kKept},
                       {"Sum", variadic},
                       {"Mean", variadic},
                       {"Pow", power, Widened::kExponent},
                       {"BitwiseAnd", bitwise, Widened::kKept},
                       {"BitwiseOr", bitwise, Widened::kKept},
                       {"BitwiseXor", bitwise, Widened::kKept},
                       {"BitShift", bit_shift, Widened::kCut},
                       {"Where", where, Widened::kSaid}};

}  // namespace
}  // namespace tv::onnx
