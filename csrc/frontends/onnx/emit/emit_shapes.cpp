// Emitter: views, joins, and what works on rows.

#include <algorithm>

#include "csrc/frontends/onnx/emit/emit.h"

namespace tv::onnx {

Tensor Emitter::reshape(const Tensor& x, Shape shape) {
  if (!(x.shape == shape)) require(numel(x), Relation::kEqual, product(shape));
  return counted_reshape(x, std::move(shape));
}

Tensor Emitter::counted_reshape(const Tensor& x, Shape shape) {
  if (x.shape == shape) return x;
  return node("aten::reshape", {arg("self", x), attr_arg("shape", std::vector<Expr>(shape))},
              x.dtype, shape);
}

Tensor Emitter::permute(const Tensor& x, const std::vector<int64_t>& dims) {
  Shape shape;
  for (int64_t dim : dims) shape.push_back(x.shape.at(static_cast<size_t>(dim)));
  if (std::is_sorted(dims.begin(), dims.end())) return x;
  return node("aten::permute", {arg("self", x), attr_arg("dims", exprs(dims))}, x.dtype, shape);
}

Tensor Emitter::transpose(const Tensor& x, int64_t a, int64_t b) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.rank(); ++i) dims.push_back(i);
  std::swap(dims.at(static_cast<size_t>(wrap(a, x.rank()))),
            dims.at(static_cast<size_t>(wrap(b, x.rank()))));
  return permute(x, dims);
}

Tensor Emitter::expand(const Tensor& x, const Shape& shape) {
  if (x.shape == shape) return x;
  for (size_t d = 0; d < x.shape.size() && d < shape.size(); ++d) {
    const Expr& own = x.shape[x.shape.size() - 1 - d];
    if (own == Expr(1)) continue;
    keep_apart(own, shape[shape.size() - 1 - d]);
    same(own, shape[shape.size() - 1 - d]);
  }
  return node(
      "aten::expand",
      {arg("self", x), attr_arg("size", std::vector<Expr>(shape)), attr_arg("implicit", false)},
      x.dtype, shape);
}

Tensor Emitter::unsqueeze(const Tensor& x, int64_t dim) {
  const int64_t at = wrap(dim, x.rank() + 1);
  Shape shape = x.shape;
  shape.insert(shape.begin() + at, Expr(1));
  return node("aten::unsqueeze", {arg("self", x), attr_arg("dim", Expr(at))}, x.dtype, shape);
}

Tensor Emitter::squeeze(const Tensor& x, int64_t dim) {
  const int64_t at = wrap(dim, x.rank());
  Shape shape = x.shape;
  const auto size = shape[static_cast<size_t>(at)].constant();
  if (size && *size != 1) {
    throw Error(ErrorKind::kUser, "dimension " + std::to_string(dim) + " of size " +
                                      std::to_string(*size) + " cannot be squeezed");
  }
  if (!size)
    refuse("a dimension of unknown size " + shape[static_cast<size_t>(at)].str() + " is squeezed");
  shape.erase(shape.begin() + at);
  return node("aten::squeeze.dim", {arg("self", x), attr_arg("dim", Expr(at))}, x.dtype, shape);
}

Tensor Emitter::slice(const Tensor& x, int64_t dim, const Expr& start, const Expr& end,
                      int64_t step) {
  require(start, Relation::kAtLeast, 0);
  require(x.shape[static_cast<size_t>(wrap(dim, x.rank()))], Relation::kAtLeast, end);
  return cut(x, dim, start, end, step);
}

Tensor Emitter::cut(const Tensor& x, int64_t dim, const Expr& start, const Expr& end,
                    int64_t step) {
  const int64_t at = wrap(dim, x.rank());
  Shape shape = x.shape;
  Expr& size = shape[static_cast<size_t>(at)];
  if (start == Expr(0) && end == size && step == 1) return x;
  size = ceil_div(end - start, step);
  return node("aten::slice.Tensor",
              {arg("self", x), attr_arg("dim", Expr(at)), attr_arg("start", start),
               attr_arg("end", end), attr_arg("step", Expr(step))},
              x.dtype, shape);
}

Tensor Emitter::select(const Tensor& x, int64_t dim, const Expr& index) {
  const int64_t at = wrap(dim, x.rank());
  Shape shape = x.shape;
  require(index, Relation::kAtLeast, 0);
  require(shape[static_cast<size_t>(at)], Relation::kAtLeast, index + Expr(1));
  shape.erase(shape.begin() + at);
  return node("aten::select.int",
              {arg("self", x), attr_arg("dim", Expr(at)), attr_arg("index", index)}, x.dtype,
              shape);
}

Tensor Emitter::flip(const Tensor& x, const std::vector<int64_t>& dims) {
  return node("aten::flip", {arg("self", x), attr_arg("dims", exprs(dims))}, x.dtype, x.shape);
}

Tensor Emitter::cat(const std::vector<Tensor>& tensors, int64_t dim) {
  if (tensors.size() == 1) return tensors[0];
  const int64_t at = wrap(dim, tensors.at(0).rank());
  Shape shape = tensors[0].shape;
  Expr size;
  for (const Tensor& t : tensors) {
    if (t.rank() != static_cast<int64_t>(shape.size()) || t.dtype != tensors[0].dtype) {
      throw Error(ErrorKind::kUser, "operands of different ranks or types are joined");
    }
    for (int64_t i = 0; i < t.rank(); ++i) {
      const auto k = static_cast<size_t>(i);
      if (i != at) shape[k] = same(shape[k], t.shape[k]);
    }
    size += t.shape[static_cast<size_t>(at)];
  }
  shape[static_cast<size_t>(at)] = size;
  return node("aten::cat", {args("tensors", tensors), attr_arg("dim", Expr(at))}, tensors[0].dtype,
              shape);
}

Tensor Emitter::stack(const std::vector<Tensor>& tensors, int64_t dim) {
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) parts.push_back(unsqueeze(t, dim));
  return cat(parts, dim);
}

namespace {

bool are_none(const std::vector<Expr>& pads) {
  return std::all_of(pads.begin(), pads.end(), [](const Expr& e) { return e == Expr(0); });
}

Shape padded(Shape shape, const std::vector<Expr>& pads) {
  for (size_t i = 0; i + 1 < pads.size(); i += 2) {
    Expr& size = shape.at(shape.size() - 1 - i / 2);
    size = size + pads[i] + pads[i + 1];
  }
  return shape;
}

}  // namespace

Tensor Emitter::pad(const Tensor& x, const std::vector<Expr>& pads, double value) {
  if (are_none(pads)) return x;
  return node("aten::constant_pad_nd",
              {arg("self", x), attr_arg("pad", pads), number_arg("value", x.dtype, value)}, x.dtype,
              padded(x.shape, pads));
}

Tensor Emitter::pad(const Tensor& x, const std::vector<Expr>& pads, const Tensor& value) {
  if (are_none(pads)) return x;
  return node("tv::constant_pad", {arg("self", x), attr_arg("pad", pads), arg("value", value)},
              x.dtype, padded(x.shape, pads));
}

Tensor Emitter::reduce(const std::string& function, const Tensor& x, std::vector<int64_t> dims,
                       bool keep) {
  if (dims.empty()) {
    for (int64_t i = 0; i < x.rank(); ++i) dims.push_back(i);
  }
  for (int64_t& dim : dims) dim = wrap(dim, x.rank());
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  if (function == "prod") {  // of one dimension at a time
    Tensor result = x;
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
      Shape shape = result.shape;
      shape[static_cast<size_t>(*dim)] = 1;
      if (!keep) shape.erase(shape.begin() + *dim);
      result = node("aten::prod.dim_int",
                    {arg("self", result), attr_arg("dim", Expr(*dim)), attr_arg("keepdim", keep),
                     dtype_arg(x.dtype)},
                    x.dtype, shape);
    }
    return result;
  }
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool gone = std::binary_search(dims.begin(), dims.end(), i);
    if (!gone) shape.push_back(x.shape[static_cast<size_t>(i)]);
    if (gone && keep) shape.emplace_back(1);
  }
  if (x.rank() == 0) return x;
  std::vector<Arg> list = {arg("self", x), attr_arg("dim", exprs(dims)), attr_arg("keepdim", keep)};
  const bool sum = function == "sum", mean = function == "mean";
  if (sum || mean) list.push_back(dtype_arg(x.dtype));
  return node("aten::" + function +
                  (sum    ? ".dim_IntList"
                   : mean ? ".dim"
                          : ""),
              std::move(list), x.dtype, shape);
}

Tensor Emitter::softmax(const Tensor& x, int64_t dim, bool log) {
  return node(log ? "aten::_log_softmax" : "aten::_softmax",
              {arg("self", x), attr_arg("dim", Expr(wrap(dim, x.rank()))),
               attr_arg("half_to_float", false)},
              x.dtype, x.shape);
}

Tensor Emitter::matmul(const Tensor& a, const Tensor& b) {
  if (a.rank() == 0 || b.rank() == 0) throw Error(ErrorKind::kUser, "product of a scalar");
  if (a.dtype != b.dtype) throw Error(ErrorKind::kUser, "product of operands of different types");
  Shape sa = a.shape, sb = b.shape;
  if (a.rank() == 1) sa.insert(sa.begin(), Expr(1));
  if (b.rank() == 1) sb.emplace_back(1);
  same(sa.back(), sb[sb.size() - 2]);
  Shape shape = broadcast({sa.begin(), sa.end() - 2}, {sb.begin(), sb.end() - 2});
  if (a.rank() > 1) shape.push_back(sa[sa.size() - 2]);
  if (b.rank() > 1) shape.push_back(sb.back());
  if (a.rank() == 2 && b.rank() == 2) {
    return node("aten::mm", {arg("self", a), arg("mat2", b)}, a.dtype, shape);
  }
  return node("aten::matmul", {arg("self", a), arg("other", b)}, a.dtype, shape);
}

Tensor Emitter::index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  Shape shape = x.shape;
  shape.at(static_cast<size_t>(dim)) = index.shape.at(0);
  return node("aten::index_select",
              {arg("self", x), attr_arg("dim", Expr(dim)), arg("index", index)}, x.dtype, shape);
}

Tensor Emitter::index(const Tensor& x, int64_t dim, const Tensor& index) {
  Shape shape = x.shape;
  shape.at(static_cast<size_t>(dim)) = index.shape.at(0);
  std::vector<ValueId> indices(static_cast<size_t>(dim), kNoValue);
  indices.push_back(id(index));
  return node("aten::index.Tensor",
              {arg("self", x), tensor_list_arg("indices", std::move(indices))}, x.dtype, shape);
}

Tensor Emitter::gather(const Tensor& x, int64_t dim, const Tensor& index) {
  return node("aten::gather",
              {arg("self", x), attr_arg("dim", Expr(dim)), arg("index", index),
               attr_arg("sparse_grad", false)},
              x.dtype, index.shape);
}

Tensor Emitter::arange(const Expr& count, DType dtype) {
  return node("aten::arange.start_step",
              {attr_arg("start", Expr(0)), attr_arg("end", count), attr_arg("step", Expr(1)),
               dtype_arg(dtype), attr_arg("layout", {}), attr_arg("device", {}),
               attr_arg("pin_memory", {})},
              dtype, {count});
}

std::pair<Tensor, Tensor> Emitter::topk(const Tensor& x, const Expr& k, int64_t dim, bool largest) {
  Shape shape = x.shape;
  shape.at(static_cast<size_t>(dim)) = k;
  auto both = nodes("aten::topk",
                    {arg("self", x), attr_arg("k", k), attr_arg("dim", Expr(dim)),
                     attr_arg("largest", largest), attr_arg("sorted", true)},
                    {{x.dtype, shape}, {DType::kI64, shape}});
  return {both[0], both[1]};
}

}  // namespace tv::onnx
