// Operators that move complex elements about: the same operators on pairs, whose dimensions are
// counted from the front.

#include <algorithm>

#include "converters/complex/complex.h"
#include "converters/kit/shape_types.h"
#include "csrc/partition/unsupported.h"

namespace tv {
namespace {

using Expand = decltype(Converter::expand);

/// Tensor arguments that are not elements to move.
bool is_index(const std::string& arg) {
  return arg == "indices" || arg == "index" || arg == "condition";
}

std::string result_only(const NodeContext& c) {
  return is_complex(c, "result") ? "" : "[" + c.node.op + "] the result must be complex";
}

std::string all_complex(const NodeContext& c) {
  for (const Arg& arg : c.node.args) {
    if (arg.is_tensor && !arg.values.empty() && !is_index(arg.name) && !is_complex(c, arg.name)) {
      return "[" + c.node.op + "] " + arg.name + " must be complex, too";
    }
  }
  return result_only(c);
}

int64_t rank_of(const NodeContext& c) {
  if (c.node.find("tensors") != nullptr) return c.graph.rank(c.node.outputs[0]) - 1;
  for (const Arg& arg : c.node.args) {
    if (arg.is_tensor && !arg.values.empty()) return c.graph.rank(arg.values[0]) - 1;
  }
  return 0;
}

Attr wrapped(const NodeContext& c, const Arg& arg, int64_t rank) {
  if (!std::holds_alternative<std::vector<Expr>>(arg.attr)) {
    return std::holds_alternative<Expr>(arg.attr)
               ? Attr(Expr(c.wrap(c.node.integer(arg.name), rank)))
               : arg.attr;
  }
  std::vector<Expr> dims;
  for (const int64_t d : c.node.integers(arg.name)) dims.emplace_back(c.wrap(d, rank));
  return dims;
}

/// The node's arguments as the operator on pairs takes them.
std::vector<Arg> on_pairs(const NodeContext& c) {
  const int64_t rank = rank_of(c);
  std::vector<Arg> args;
  for (Arg arg : c.node.args) {
    if (arg.name == "complex") continue;
    auto* list = std::get_if<std::vector<Expr>>(&arg.attr);
    if (arg.name == "dim" || arg.name == "dims" || arg.name == "dim0" || arg.name == "dim1") {
      arg.attr = wrapped(c, arg, rank);
      list = std::get_if<std::vector<Expr>>(&arg.attr);
      if (c.node.op.starts_with("complex::permute")) list->emplace_back(rank);
    } else if (list && arg.name == "size") {
      list->emplace_back(2);
    } else if (list && arg.name == "repeats") {
      list->emplace_back(1);
    } else if (list && arg.name == "pad") {
      list->insert(list->begin(), {Expr(0), Expr(0)});
    }
    args.push_back(std::move(arg));
  }
  return args;
}

std::string real_name(const NodeContext& c) {
  return "aten::" + c.node.op.substr(std::string("complex::").size());
}

/// What the operator on pairs says.
std::string on_pairs_too(const NodeContext& c) {
  const std::string common = all_complex(c);
  if (!common.empty()) return common;
  Node node = c.node;
  node.op = real_name(c);
  node.args = on_pairs(c);
  return unsupported({c.graph, node, c.device, c.settings});
}

std::string joins_along_a_dim(const NodeContext& c) {
  return c.graph.rank(c.node.outputs[0]) == 1 ? "[" + c.node.op + "] along no dimension"
                                              : result_only(c);
}

/// Along a dimension: a single element has none, and a roll without one goes through all of them.
std::string along_a_dim(const NodeContext& c) {
  const std::string common = all_complex(c);
  if (!common.empty()) return common;
  const Arg& first = c.node.args.at(0);
  const bool scalar = !first.is_list && c.graph.rank(first.values.at(0)) == 1;
  const Arg* dims = c.node.find("dims");
  const auto* list = dims ? std::get_if<std::vector<Expr>>(&dims->attr) : nullptr;
  const bool flat = c.node.op == "complex::roll" && list != nullptr && list->empty();
  if (scalar || flat) return "[" + c.node.op + "] along no dimension";
  return on_pairs_too(c);
}

void same(const NodeContext& c, Rewriter& r) {
  std::vector<std::pair<DType, Shape>> types;
  for (const ValueId out : c.node.outputs) {
    types.emplace_back(c.graph.value(out).dtype, c.graph.value(out).shape);
  }
  const std::vector<ValueId> made = r.add_multi(real_name(c), on_pairs(c), types);
  for (size_t i = 0; i < made.size(); ++i) r.replace(i, made[i]);
}

/// Tensors side by side, of which some may be real.
void joins(const NodeContext& c, Rewriter& r) {
  const DType dtype = c.output().dtype;
  const size_t rank = c.output().shape.size() - (c.node.op == "complex::stack" ? 1 : 0);
  std::vector<Arg> args = on_pairs(c);
  const auto tensors = std::ranges::find(args, "tensors", &Arg::name);
  std::vector<ValueId> pairs;
  for (size_t i = 0; i < tensors->values.size(); ++i) {
    const ValueId x = tensors->values[i];
    const bool is_pair = is_complex(c, "tensors", i);
    // PyTorch passes over those of shape [0].
    if (r.graph().value(x).shape.size() + (is_pair ? 0 : 1) != rank) continue;
    pairs.push_back(is_pair ? r.cast(x, dtype) : with_zero(r, x, dtype));
  }
  tensors->values = std::move(pairs);
  r.replace(0, r.add(real_name(c), std::move(args), dtype, c.output().shape));
}

/// The first argument's elements in the result's shape.
void reshaped(const NodeContext& c, Rewriter& r) {
  const Shape shape = c.output().shape;
  const ValueId x = r.cast(c.node.args.at(0).values.at(0), c.output().dtype);
  if (!(r.graph().value(x).shape == shape)) return r.replace(0, r.reshape(x, shape));
  r.replace(0, r.add("aten::alias", {tensor_arg("self", x)}, c.output().dtype, shape));
}

void transposed(const NodeContext& c, Rewriter& r) {
  const int64_t rank = rank_of(c);
  if (rank < 2) return reshaped(c, r);
  r.replace(0, r.permute(c.node.input("self"), {1, 0, 2}));
}

std::string padded_with_zero(const NodeContext& c) {
  if (c.node.has("value") && c.node.number("value") != 0) {
    return "[" + c.node.op + "] complex values are padded with 0 alone";
  }
  return all_complex(c);
}

void where(const NodeContext& c, Rewriter& r) {
  Shape wide = c.shape("condition");
  wide.emplace_back(1);
  const ValueId condition = r.reshape(c.node.input("condition"), wide);
  r.replace(0, r.pointwise("where", {condition, c.node.input("self"), c.node.input("other")},
                           c.output().dtype));
}

void new_zeros(const NodeContext& c, Rewriter& r) {
  r.replace(0, filled(r, 0, c.output().dtype, c.output().shape));
}

/// The number is a list of two where it is complex (importer.py).
void new_full(const NodeContext& c, Rewriter& r) {
  const Shape shape = without_pair(c.output().shape);
  const DType dtype = c.output().dtype;
  double re = 1, im = 0;
  for (const char* name : {"fill_value", "s"}) {
    if (c.node.find(name) == nullptr) continue;
    const auto* both = std::get_if<std::vector<double>>(&c.node.arg(name).attr);
    re = both ? both->at(0) : c.node.number(name);
    im = both ? both->at(1) : 0;
  }
  r.replace(0, joined(r, filled(r, re, dtype, shape), filled(r, im, dtype, shape)));
}

void copy_to(const NodeContext& c, Rewriter& r) {
  if (is_complex(c, "self") && is_complex(c, "result")) return reshaped(c, r);
  const DType dtype = c.output().dtype;
  if (is_complex(c, "result")) return r.replace(0, as_complex(c, r, "self", dtype));
  const ValueId re = r.cast(part(r, c.node.input("self"), 0), dtype);
  if (dtype != DType::kBool) return r.replace(0, re);
  const ValueId im = r.cast(part(r, c.node.input("self"), 1), dtype);
  r.replace(0, r.pointwise("logical_or", {re, im}, dtype));
}

/// aten::copy: `src` as a value of self's type and shape.
void copy_from(const NodeContext& c, Rewriter& r) {
  const Shape shape = c.output().shape;
  const ValueId x = as_complex(c, r, "src", c.output().dtype);
  if (r.graph().value(x).shape == shape) {
    r.replace(0, r.add("aten::alias", {tensor_arg("self", x)}, c.output().dtype, shape));
    return;
  }
  r.replace(0, r.add("aten::expand", {tensor_arg("self", x), attr_arg("size", shape)},
                     c.output().dtype, shape));
}

void real_part(const NodeContext& c, Rewriter& r) {
  r.replace(0, part(r, c.node.input("self"), 0));
}
void imaginary_part(const NodeContext& c, Rewriter& r) {
  r.replace(0, part(r, c.node.input("self"), 1));
}

/// Of a real tensor's pairs.
void types_of_pairs(NodeTypes& t) {
  Shape shape = t.shape("self");
  t.want(!shape.empty() && shape.back() == Expr(2), "wants pairs");
  shape.pop_back();
  t.gives(shape);
}

struct RegisterMoves {
  RegisterMoves() {
    const auto add = [](const char* name, Expand expand, decltype(Converter::unsupported) refuse,
                        bool compute, TypeRule types = {}) {
      Registry::instance().add({.op = std::string("complex::") + name,
                                .unsupported = std::move(refuse),
                                .expand = std::move(expand),
                                .is_compute = compute,
                                .types = std::move(types)});
    };
    for (const char* name : {"permute", "transpose.int", "slice.Tensor", "select.int",
                             "split.Tensor", "split_with_sizes", "unbind.int"}) {
      add(name, same, along_a_dim, false);
    }
    add("expand", same, on_pairs_too, false);
    for (const char* name : {"flip", "slice_scatter", "select_scatter", "index_select", "cumsum",
                             "permute_copy", "slice_copy.Tensor", "select_copy.int", "roll"}) {
      add(name, same, along_a_dim, true);
    }
    for (const char* name : {"repeat", "index.Tensor", "expand_copy"}) {
      add(name, same, on_pairs_too, true);
    }
    for (const char* name : {"cat", "stack"}) add(name, joins, joins_along_a_dim, true);
    for (const char* name :
         {"view", "_unsafe_view", "reshape", "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze",
          "alias", "detach", "clone", "contiguous", "lift_fresh_copy", "view_copy"}) {
      add(name, reshaped, all_complex, false);
    }
    for (const char* name : {"resolve_conj", "resolve_neg"}) {
      add(name, reshaped, all_complex, false, types::kSame);
    }
    for (const char* name : {"view_as_real", "view_as_real_copy"}) {
      add(name, reshaped, nullptr, false, "self [*s] -> [*s 2]");
    }
    add("view_as_complex", reshaped, nullptr, false, types_of_pairs);
    add("t", transposed, all_complex, false);
    add("real", real_part, nullptr, false, types::kSame);
    add("imag", imaginary_part, nullptr, false, types::kSame);
    add("constant_pad_nd", same, padded_with_zero, true);
    add("where.self", where, all_complex, true);
    add("_to_copy", copy_to, nullptr, true);
    add("copy", copy_from, result_only, true);
    for (const char* name : {"zeros", "zeros_like", "new_zeros", "empty.memory_format",
                             "empty_like", "new_empty", "empty_strided", "new_empty_strided"}) {
      add(name, new_zeros, result_only, true);
    }
    for (const char* name :
         {"full", "full_like", "new_full", "ones", "ones_like", "new_ones", "scalar_tensor"}) {
      add(name, new_full, result_only, true);
    }
  }
};
const RegisterMoves moves;

}  // namespace
}  // namespace tv
