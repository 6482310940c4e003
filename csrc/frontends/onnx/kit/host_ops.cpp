#include "csrc/frontends/onnx/kit/host_ops.h"

#include <algorithm>

namespace tv::onnx {
namespace {

constexpr int64_t kLarge = int64_t{1} << 40;  // past it an expression of symbols may overflow
constexpr int64_t kMovedFloats = 256;

bool is_small(const Expr& e) {
  const auto value = e.constant();
  return value ? *value <= kLarge && *value >= -kLarge : e.str().size() < 400;
}

}  // namespace

std::optional<Expr> checked_add(const Expr& a, const Expr& b) {
  int64_t sum = 0;
  const auto ca = a.constant(), cb = b.constant();
  if (ca && cb) {
    if (__builtin_add_overflow(*ca, *cb, &sum)) return std::nullopt;
    return sum;
  }
  if (!is_small(a) || !is_small(b)) return std::nullopt;
  return a + b;
}

std::optional<Expr> checked_mul(const Expr& a, const Expr& b) {
  int64_t result = 0;
  const auto ca = a.constant(), cb = b.constant();
  if (ca && cb) {
    if (__builtin_mul_overflow(*ca, *cb, &result)) return std::nullopt;
    return result;
  }
  if (!is_small(a) || !is_small(b)) return std::nullopt;
  return a * b;
}

std::pair<int64_t, int64_t> bounds(Emitter& e, const Expr& value) {
  return value.bounds(e.graph().symbols);
}

std::vector<int64_t> broadcast_places(const std::vector<int64_t>& from,
                                      const std::vector<int64_t>& to) {
  std::vector<int64_t> strides(to.size(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t at = from.size() - 1 - i;
    if (from[at] != 1) strides[to.size() - 1 - i] = stride;
    stride *= from[at];
  }
  std::vector<int64_t> places(1, 0);
  for (size_t d = 0; d < to.size(); ++d) {
    std::vector<int64_t> next;
    next.reserve(places.size() * static_cast<size_t>(to[d]));
    for (int64_t place : places) {
      for (int64_t k = 0; k < to[d]; ++k) next.push_back(place + k * strides[d]);
    }
    places = std::move(next);
  }
  return places;
}

std::optional<Tensor> fold(Emitter& e, const std::vector<Tensor>& operands, DType result,
                           const HostFunction& function) {
  std::vector<std::shared_ptr<const Host>> hosts;
  Shape shape;
  bool baked = true, any_float = is_float(result);
  for (const Tensor& operand : operands) {
    const bool floats = is_float(operand.dtype);
    any_float = any_float || floats;
    if (operand.id != kNoValue) return std::nullopt;
    auto host = e.host(operand, floats ? kMovedFloats : kMaxHostElements);
    if (!host || (floats && !host->baked)) return std::nullopt;
    baked = baked && host->baked;
    shape = e.broadcast(shape, operand.shape);
    hosts.push_back(std::move(host));
  }
  Host out{.dtype = result, .dims = {}, .ints = {}, .floats = {}, .baked = baked};
  for (const Expr& dim : shape) out.dims.push_back(*dim.constant());
  if (checked_count(out.dims, "[onnx] folding") > kMaxHostElements) return std::nullopt;
  std::vector<std::vector<int64_t>> places;
  for (const auto& host : hosts) places.push_back(broadcast_places(host->dims, out.dims));
  const size_t count = places.empty() ? 1 : places[0].size();
  std::vector<Expr> ints(hosts.size());
  std::vector<double> floats(hosts.size());
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < hosts.size(); ++k) {
      const auto at = static_cast<size_t>(places[k][i]);
      if (!any_float) {
        ints[k] = hosts[k]->ints[at];
      } else if (is_float(hosts[k]->dtype)) {
        floats[k] = hosts[k]->floats[at];
      } else {
        const auto constant = hosts[k]->ints[at].constant();
        if (!constant) return std::nullopt;
        floats[k] = static_cast<double>(*constant);
      }
    }
    if (!any_float) {
      const auto value = function.ints ? function.ints(ints) : std::nullopt;
      if (!value) return std::nullopt;
      out.ints.push_back(*value);
    } else if (!function.floats) {
      return std::nullopt;
    } else if (const double value = function.floats(floats); is_float(result)) {
      out.floats.push_back(round_to(result, value));
    } else {
      if (!(value > -9.2e18 && value < 9.2e18)) return std::nullopt;
      out.ints.emplace_back(static_cast<int64_t>(value));
    }
  }
  return e.from_host(std::move(out));
}

Tensor pick(Emitter& e, const Host& host, std::vector<int64_t> dims,
            const std::vector<int64_t>& sources) {
  Host out{
      .dtype = host.dtype, .dims = std::move(dims), .ints = {}, .floats = {}, .baked = host.baked};
  for (int64_t source : sources) {
    if (is_float(host.dtype)) {
      out.floats.push_back(host.floats.at(static_cast<size_t>(source)));
    } else {
      out.ints.push_back(host.ints.at(static_cast<size_t>(source)));
    }
  }
  return e.from_host(std::move(out));
}

std::shared_ptr<const Host> movable(Emitter& e, const Tensor& tensor) {
  if (tensor.id != kNoValue) return nullptr;
  const bool floats = is_float(tensor.dtype);
  auto host = e.host(tensor, floats ? kMovedFloats : kMaxHostElements);
  return host && (!floats || host->baked) ? host : nullptr;
}

}  // namespace tv::onnx
