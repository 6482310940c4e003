#pragma once
// Arithmetic on elements that are known while importing: what sets shapes.

#include <functional>
#include <optional>

#include "csrc/frontends/onnx/kit/context.h"

namespace tv::onnx {

/// How a function of elements is computed on the host; either may be absent.
struct HostFunction {
  /// nullopt: not known for these (a sign that depends on a symbol, an overflow)
  std::function<std::optional<Expr>(const std::vector<Expr>&)> ints = {};
  std::function<double(const std::vector<double>&)> floats = {};
};

/// The result where every operand is known: integers, and few floats. Shapes broadcast.
std::optional<Tensor> fold(Emitter& e, const std::vector<Tensor>& operands, DType result,
                           const HostFunction& function);
/// A tensor whose elements are those at `sources` (row-major places) of a known one.
Tensor pick(Emitter& e, const Host& host, std::vector<int64_t> dims,
            const std::vector<int64_t>& sources);
/// Known elements that are worth moving about on the host: integers, or a few floats that are no
/// weights; null elsewhere.
std::shared_ptr<const Host> movable(Emitter& e, const Tensor& tensor);

/// Lower and upper bound of an expression by the ranges of the graph's symbols.
std::pair<int64_t, int64_t> bounds(Emitter& e, const Expr& value);
/// Where each element of a shape lies in one that is broadcast to it.
std::vector<int64_t> broadcast_places(const std::vector<int64_t>& from,
                                      const std::vector<int64_t>& to);

std::optional<Expr> checked_add(const Expr& a, const Expr& b);
std::optional<Expr> checked_mul(const Expr& a, const Expr& b);

}  // namespace tv::onnx
