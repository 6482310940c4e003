#include "csrc/frontends/onnx/emit/emit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tv::onnx {

std::vector<Expr> exprs(const std::vector<int64_t>& values) {
  return {values.begin(), values.end()};
}

Arg number_arg(const std::string& name, DType dtype, double value) {
  if (is_float(dtype)) return attr_arg(name, value);
  constexpr double kEnd = 9223372036854775808.0;  // 2^63, past the last integer
  using Limits = std::numeric_limits<int64_t>;
  const int64_t whole = std::isnan(value) ? 0
                        : value >= kEnd   ? Limits::max()
                        : value <= -kEnd  ? Limits::min()
                                          : static_cast<int64_t>(value);
  return attr_arg(name, Expr(whole));
}

std::string Emitter::unique(const std::string& name) {
  std::string candidate = name.empty() ? "value" : name;
  if (names_.insert(candidate).second) return candidate;
  const std::string base = candidate + "_";
  int64_t& number = last_numbers_[base];
  do {
    candidate = base + std::to_string(++number);
  } while (!names_.insert(candidate).second);
  return candidate;
}

Tensor Emitter::of(ValueId id) const {
  const Value& value = model_.graph.value(id);
  return {.dtype = value.dtype, .shape = value.shape, .id = id, .present = true};
}

Tensor Emitter::input(const std::string& name, DType dtype, Shape shape) {
  names_.insert(name);
  const ValueId id = graph().add_value(
      {.name = name, .dtype = dtype, .shape = std::move(shape), .kind = ValueKind::kInput});
  graph().inputs.push_back(id);
  return of(id);
}

Tensor Emitter::stored(std::shared_ptr<const Stored> stored) {
  const Shape shape(stored->dims.begin(), stored->dims.end());
  const int32_t widened = widened_type(*stored);
  return {.dtype = stored->dtype,
          .shape = shape,
          .stored = std::move(stored),
          .present = true,
          .widened = widened};
}

ValueId Emitter::add_weight(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                            std::function<WeightBytes()> load) {
  const std::string label = unique(name);
  const ValueId id = graph().add_value({.name = label,
                                        .dtype = dtype,
                                        .shape = Shape(dims.begin(), dims.end()),
                                        .kind = ValueKind::kWeight});
  graph().weights.push_back(id);
  model_.weights.push_back({label, dtype, dims, std::move(load)});
  return id;
}

ValueId Emitter::id(const Tensor& tensor) {
  if (tensor.id != kNoValue) return tensor.id;
  const void* key = tensor.stored ? static_cast<const void*>(tensor.stored.get())
                                  : static_cast<const void*>(tensor.host.get());
  if (key == nullptr) throw Error(ErrorKind::kInternal, "[onnx] a tensor without a value");
  for (const int32_t index : {-1, index_}) {
    if (const auto found = known_.find({key, index}); found != known_.end()) return found->second;
  }
  ValueId id = kNoValue;
  if (tensor.stored) {
    const std::shared_ptr<const Stored> stored = tensor.stored;
    alive_.push_back(stored);
    id = add_weight(stored->name, stored->dtype, stored->dims,
                    [stored] { return read_weight(*stored); });
  } else {
    alive_.push_back(tensor.host);
    id = from_host_value(tensor.host);
  }
  // What nodes compute belongs to what they are part of.
  known_[{key, graph().value(id).kind == ValueKind::kWeight ? -1 : index_}] = id;
  return id;
}

ValueId Emitter::from_host_value(const std::shared_ptr<const Host>& host) {
  const Shape shape(host->dims.begin(), host->dims.end());
  const DType dtype = host->dtype;
  if (is_float(dtype) && !host->ints.empty()) {  // of indices, say, which a file has as floats
    throw Error(ErrorKind::kUser,
                "got values of " + std::string(name(dtype)) + ", want whole numbers");
  }
  const auto same_float = [&](double v) { return v == host->floats[0]; };
  if (is_float(host->dtype)) {
    if (host->baked && !host->floats.empty() &&
        std::all_of(host->floats.begin(), host->floats.end(), same_float) &&
        !std::signbit(host->floats[0] == 0 ? host->floats[0] : 1.0)) {
      return id(full(shape, dtype, host->floats[0]));
    }
  } else if (!host->ints.empty()) {
    const auto same_int = [&](const Expr& v) { return v == host->ints[0]; };
    const bool uniform = std::all_of(host->ints.begin(), host->ints.end(), same_int);
    if (uniform && (host->baked || !host->ints[0].is_constant())) {
      return id(full_expr(shape, dtype, host->ints[0]));
    }
    const auto constant = [](const Expr& v) { return v.is_constant(); };
    if (!std::all_of(host->ints.begin(), host->ints.end(), constant)) {
      std::vector<Tensor> parts;
      for (const Expr& value : host->ints) parts.push_back(full_expr({1}, dtype, value));
      return id(reshape(cat(parts, 0), shape));
    }
  }
  auto bytes = std::make_shared<std::vector<uint8_t>>(host_bytes(*host));
  return add_weight("constant", dtype, host->dims, [bytes] { return WeightBytes{*bytes, bytes}; });
}

std::shared_ptr<const Host> Emitter::host(const Tensor& tensor, int64_t limit) {
  if (tensor.host) {
    return static_cast<int64_t>(tensor.host->count()) <= limit ? tensor.host : nullptr;
  }
  if (!tensor.stored || tensor.stored->count > limit) return nullptr;
  auto& read = read_[tensor.stored.get()];
  if (!read) {
    alive_.push_back(tensor.stored);
    read = read_host(*tensor.stored);
    note_read(*tensor.stored);
  }
  return read;
}

Tensor Emitter::from_host(Host host) {
  const Shape shape(host.dims.begin(), host.dims.end());
  const DType dtype = host.dtype;
  return {.dtype = dtype,
          .shape = shape,
          .host = std::make_shared<Host>(std::move(host)),
          .present = true};
}

Tensor Emitter::integers(std::vector<Expr> values, DType dtype) {
  Host host{.dtype = dtype, .dims = {static_cast<int64_t>(values.size())}};
  host.ints = std::move(values);
  return from_host(std::move(host));
}

Tensor Emitter::number(DType dtype, double value) {
  Host host{.dtype = dtype};
  if (is_float(dtype)) {
    host.floats = {round_to(dtype, value)};
  } else {
    host.ints = {static_cast<int64_t>(value)};
  }
  return from_host(std::move(host));
}

namespace {

/// The symbol that an expression is; -1 if it is another one.
int32_t symbol_of(const Expr& e) {
  const auto ids = e.symbols();
  return ids.size() == 1 && e == Expr::symbol(ids[0]) ? ids[0] : -1;
}

std::vector<Arg> full_args(const Shape& shape, DType dtype, Attr value) {
  return {attr_arg("size", std::vector<Expr>(shape)),
          attr_arg("fill_value", std::move(value)),
          dtype_arg(dtype),
          attr_arg("layout", {}),
          attr_arg("device", {}),
          attr_arg("pin_memory", {})};
}

}  // namespace

Tensor Emitter::full(const Shape& shape, DType dtype, double value) {
  if (!is_float(dtype)) return full_expr(shape, dtype, static_cast<int64_t>(value));
  return node("aten::full", full_args(shape, dtype, value), dtype, shape);
}

Tensor Emitter::full_expr(const Shape& shape, DType dtype, const Expr& value) {
  if (dtype == DType::kBool) {
    return node("aten::full", full_args(shape, dtype, !(value == Expr(0))), dtype, shape);
  }
  if (is_float(dtype)) {
    return cast(node("aten::full", full_args(shape, DType::kI64, value), DType::kI64, shape),
                dtype);
  }
  return node("aten::full", full_args(shape, dtype, value), dtype, shape);
}

// --- nodes ---

Tensor Emitter::node(const std::string& op, std::vector<Arg> args, DType dtype, Shape shape) {
  return nodes(op, std::move(args), {{dtype, std::move(shape)}})[0];
}

std::vector<Tensor> Emitter::nodes(const std::string& op, std::vector<Arg> args,
                                   const std::vector<std::pair<DType, Shape>>& outputs) {
  constexpr int64_t kMaxNodes = 200000;
  if (node_count() >= kMaxNodes) {
    throw Error(ErrorKind::kUser, "[onnx] more than 200000 nodes (loops are unrolled)");
  }
  Node node;
  node.op = op;
  node.name = unique(name_);
  node.source = source_;
  node.module_path = module_path_;
  node.args = std::move(args);
  std::vector<Tensor> results;
  for (const auto& [dtype, shape] : outputs) {
    std::vector<int64_t> known;
    for (const Expr& dim : shape) {
      if (const auto size = dim.constant()) {
        known.push_back(*size);
      } else {
        require(dim, Relation::kAtLeast, 0);
      }
    }
    checked_count(known, "[" + op + "] of " + source_);
    results.push_back(of(graph().add_output(node, dtype, shape)));
  }
  set_origin_of(node);
  graph().nodes.push_back(std::move(node));
  return results;
}

// Where sizes depend on data, what they are known by comes first.
void Emitter::set_origin_of(Node& node) const {
  node.origin.index = index_;
  node.origin.whole = index_ >= 0;
  node.origin.op = index_ >= 0 ? op_ : "";
  if (sizes_from_.empty()) return;
  std::vector<Expr> sizes;
  for (const Arg& arg : node.args) {
    if (const auto* one = std::get_if<Expr>(&arg.attr)) sizes.push_back(*one);
    if (const auto* list = std::get_if<std::vector<Expr>>(&arg.attr)) {
      sizes.insert(sizes.end(), list->begin(), list->end());
    }
  }
  for (const ValueId v : node.outputs) {
    const Shape& shape = graph_of().value(v).shape;
    sizes.insert(sizes.end(), shape.begin(), shape.end());
  }
  node.origin.after = sizes_from(sizes);
}

std::vector<ValueId> Emitter::sizes_from(const std::vector<Expr>& sizes) const {
  std::set<ValueId> found;
  for (const Expr& size : sizes) {
    for (const int32_t symbol : size.symbols()) {
      const auto at = sizes_from_.find(symbol);
      if (at != sizes_from_.end()) found.insert(at->second);
    }
  }
  return {found.begin(), found.end()};
}

std::vector<Tensor> Emitter::left_out(const std::string& op, std::vector<ValueId> reads,
                                      const std::vector<std::pair<DType, Shape>>& outputs,
                                      const std::string& reason) {
  Node node{.op = "onnx::" + op, .name = unique(name_), .source = source_};
  node.args = {tensor_list_arg("inputs", std::move(reads))};
  node.origin = {.index = index_, .whole = true, .op = op_, .refusal = reason};
  std::vector<Tensor> results;
  for (const auto& [dtype, shape] : outputs) {
    results.push_back(of(graph().add_output(node, dtype, shape)));
  }
  graph().nodes.push_back(std::move(node));
  return results;
}

Arg Emitter::arg(std::string name, const Tensor& tensor) {
  return tensor_arg(std::move(name), tensor.present ? id(tensor) : kNoValue);
}

Arg Emitter::args(std::string name, const std::vector<Tensor>& tensors) {
  std::vector<ValueId> ids;
  for (const Tensor& tensor : tensors) ids.push_back(tensor.present ? id(tensor) : kNoValue);
  return tensor_list_arg(std::move(name), std::move(ids));
}

// --- sizes ---

Expr Emitter::same(const Expr& a, const Expr& b) {
  if (a == b) return a;
  const int32_t sa = symbol_of(a), sb = symbol_of(b);
  if (sa >= 0 && sb >= 0 && merges_) throw SameSymbol{std::min(sa, sb), std::max(sa, sb)};
  refuse("sizes " + a.str() + " and " + b.str() + " must be equal");
}

Expr Emitter::equal(const Expr& a, const Expr& b) {
  if (symbol_of(a) >= 0 && symbol_of(b) >= 0) return same(a, b);
  require(a, Relation::kEqual, b);
  return a;
}

void Emitter::keep_apart(const Expr& a, const Expr& b) {
  if (!broadcasts_ || a == b) return;
  for (const Expr& size : {a, b}) {
    if (size.bounds(graph().symbols).first > 1) continue;
    refuse("sizes " + a.str() + " and " + b.str() + " are equal, or one of them is 1");
  }
}

void Emitter::require(const Expr& left, Relation relation, const Expr& right) {
  constexpr size_t kMostConditions = 4096, kMostText = 2000;
  Condition condition{relation, left, right, source_};
  const auto decided = condition.decided(graph().symbols);
  if (decided == true) return;
  const std::string text = condition_text(condition);
  if (decided == false) throw Error(ErrorKind::kUser, "sizes do not fit: " + text + " never holds");
  if (!conditions_.insert(text).second) return;
  if (text.size() > kMostText) refuse("a condition on sizes of more than 2000 characters");
  if (conditions_.size() > kMostConditions) refuse("more than 4096 conditions on sizes");
  add_condition(graph().conditions, std::move(condition));
}

Shape Emitter::broadcast(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const Expr da = i + a.size() < rank ? Expr(1) : a[i + a.size() - rank];
    const Expr db = i + b.size() < rank ? Expr(1) : b[i + b.size() - rank];
    const bool stretches = da == Expr(1) || db == Expr(1);
    if (!stretches) keep_apart(da, db);
    out[i] = da == Expr(1) ? db : db == Expr(1) ? da : same(da, db);
  }
  return out;
}

int64_t Emitter::wrap(int64_t dim, int64_t rank) {
  const int64_t wrapped = dim < 0 ? dim + rank : dim;
  if (wrapped < 0 || wrapped >= rank) {
    throw Error(ErrorKind::kUser, "axis " + std::to_string(dim) + " is out of range for rank " +
                                      std::to_string(rank));
  }
  return wrapped;
}

}  // namespace tv::onnx
