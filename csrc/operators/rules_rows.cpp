// Reductions, scans, sorts, norms and histograms.

#include "csrc/operators/rules.h"

namespace tv {
namespace {

/// The operand without the dimensions of "dim", or with 1 in their places.
void reduce(NodeTypes& t, bool none_is_all) {
  const Shape shape = t.shape("self");
  const std::vector<int64_t> dims = t.node().integers("dim");
  const bool all = !t.has("dim") || (dims.empty() && none_is_all);
  std::vector<bool> goes(shape.size(), all);
  for (const int64_t dim : dims) {
    const int64_t d = t.wrap(dim, static_cast<int64_t>(shape.size()));
    if (!shape.empty()) goes[static_cast<size_t>(d)] = true;
  }
  Shape made;
  const bool keep = t.node().flag("keepdim");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!goes[i]) {
      made.push_back(shape[i]);
    } else if (keep) {
      made.emplace_back(1);
    }
  }
  for (size_t i = 0; i < t.results(); ++i) t.gives(made, i);
}

void reduced(NodeTypes& t) { reduce(t, true); }

/// At least one element along "dim" for each of "k".
Expr row_length(NodeTypes& t) {
  const Shape shape = t.shape("self");
  const int64_t dim = t.wrap(t.integer("dim", -1), static_cast<int64_t>(shape.size()));
  return shape.empty() ? Expr(1) : shape[static_cast<size_t>(dim)];
}

void kth(NodeTypes& t) {
  const Expr k = t.node().expr("k");
  t.at_least(k, 1, "argument 'k'");
  t.at_least(row_length(t), k, "the length of a row");
}

void largest(NodeTypes& t) {
  Shape shape = t.shape("self");
  const Expr k = t.node().expr("k");
  t.at_least(k, 0, "argument 'k'");
  t.at_least(row_length(t), k, "the length of a row");
  const int64_t dim = t.wrap(t.integer("dim", -1), static_cast<int64_t>(shape.size()));
  if (!shape.empty()) shape[static_cast<size_t>(dim)] = k;
  for (size_t i = 0; i < t.results(); ++i) t.gives(shape, i);
}

void has_dim(NodeTypes& t) { row_length(t); }

void softmax_backward(NodeTypes& t) { t.wrap(t.integer("dim", -1), t.rank("output")); }

/// Over the last dimensions, those of normalized_shape.
void layer_norm(NodeTypes& t) {
  const Shape shape = t.shape("input");
  const std::vector<Expr> last = t.node().exprs("normalized_shape");
  t.want(!last.empty() && last.size() <= shape.size(),
         "normalized_shape has " + std::to_string(last.size()) + " sizes");
  const auto lead = static_cast<std::ptrdiff_t>(shape.size() - last.size());
  t.equal(Shape(shape.begin() + lead, shape.end()), last, "the end of argument 'input'");
  for (const char* arg : {"weight", "bias"}) {
    if (t.has(arg)) t.equal(t.shape(arg), last, arg);
  }
  t.gives(shape);
  Shape of_rows(shape.begin(), shape.begin() + lead);
  of_rows.resize(shape.size(), Expr(1));
  for (size_t i = 1; i < t.results(); ++i) t.gives(of_rows, i);
}

void group_norm(NodeTypes& t) {
  const Shape shape = t.shape("input");
  t.want(shape.size() >= 2, "wants two dimensions");
  const bool native = t.node().find("group") != nullptr;
  const int64_t groups = t.integer(native ? "group" : "num_groups", 1);
  t.want(groups > 0, "wants groups");
  t.equal(mod(shape[1], groups), 0, "what is left of the channels");
  for (const char* arg : {"weight", "bias"}) {
    if (t.has(arg)) t.equal(t.shape(arg), {shape[1]}, arg);
  }
  if (native) {
    t.equal(t.node().expr("N"), shape[0], "argument 'N'");
    t.equal(t.node().expr("C"), shape[1], "argument 'C'");
    t.equal(t.node().expr("HxW"), product(Shape(shape.begin() + 2, shape.end())), "argument 'HxW'");
  }
  t.gives(shape);
  for (size_t i = 1; i < t.results(); ++i) t.gives({shape[0], groups}, i);
}

void histogram(NodeTypes& t) {
  if (t.has("weight")) t.equal(t.shape("weight"), t.shape("self"), "argument 'weight'");
  const bool tensor = t.node().arg("bins").is_tensor;
  if (tensor) t.want(t.rank("bins") == 1, "argument 'bins' is not of rank 1");
  const Expr edges = tensor ? t.shape("bins")[0] : t.node().expr("bins") + 1;
  t.at_least(edges, tensor ? 1 : 2, "the number of edges");
  t.gives({edges - 1}, 0);
  t.gives({edges}, 1);
}

/// histogramdd: points of as many coordinates as there are lists of edges.
void histogram_of_points(NodeTypes& t) {
  const Shape shape = t.shape("self");
  t.want(shape.size() >= 2, "wants two dimensions");
  Shape counts;
  if (t.node().arg("bins").is_tensor) {
    for (const Shape& edges : t.shapes("bins")) {
      t.want(edges.size() == 1, "the edges are not of rank 1");
      t.at_least(edges[0], 1, "the number of edges");
      counts.push_back(edges[0] - 1);
    }
  } else {
    counts = t.node().exprs("bins");
    t.positive(counts, "argument 'bins'");
  }
  t.equal(shape.back(), static_cast<int64_t>(counts.size()), "the number of coordinates");
  if (t.has("range")) {
    const auto* range = std::get_if<std::vector<double>>(&t.node().arg("range").attr);
    t.want(range == nullptr || range->empty() || range->size() == 2 * counts.size(),
           "wants two ends for each coordinate");
  }
  if (t.has("weight")) {
    t.equal(t.shape("weight"), Shape(shape.begin(), shape.end() - 1), "argument 'weight'");
  }
  if (!t.node().op.ends_with("bin_edges")) return t.gives(counts);
  t.want(t.results() == counts.size(), "has another number of results than of coordinates");
  for (size_t i = 0; i < counts.size(); ++i) t.gives({counts[i] + 1}, i);
}

/// Elements of one dimension, put together by segments.
void segments(NodeTypes& t, const Shape& data, const Shape& result) {
  t.want(!data.empty() && data.size() == result.size(), "data and result differ in rank");
  const auto axis =
      static_cast<size_t>(t.wrap(t.integer("axis", 0), static_cast<int64_t>(data.size())));
  for (size_t i = 0; i < data.size(); ++i) {
    if (i != axis) t.equal(result[i], data[i], "a size of the result");
  }
  for (const char* arg : {"lengths", "offsets"}) {
    if (!t.has(arg)) continue;
    const Shape shape = t.shape(arg);
    t.want(shape.size() == axis + 1, std::string(arg) + " is of another rank than axis + 1");
    for (size_t i = 0; i < axis; ++i) t.equal(shape[i], data[i], std::string("a size of ") + arg);
    t.equal(shape[axis] - (arg[0] == 'o' ? 1 : 0), result[axis], std::string("the end of ") + arg);
  }
}

void segment_reduce(NodeTypes& t) {
  if (t.has_result(0)) segments(t, t.shape("data"), t.result());
}

void segment_reduce_backward(NodeTypes& t) {
  segments(t, t.shape("data"), t.shape("output"));
  t.equal(t.shape("grad"), t.shape("output"), "argument 'grad'");
  t.gives(t.shape("data"));
}

}  // namespace

void add_row_rules(TypeRules& rules) {
  const TypeRule same = pattern("self [*s] -> [*s]") & has_dim;
  rules.add(
      "_softmax softmax.int _log_softmax log_softmax.int special_log_softmax cumsum cumprod "
      "logcumsumexp",
      same);
  rules.add("_softmax_backward_data _log_softmax_backward_data",
            pattern("output [*s], grad_output [*s] -> [*s]") & softmax_backward);
  rules.add("cummax cummin sort sort.stable", pattern("self [*s] -> [*s], [*s]") & has_dim);
  rules.add(
      "sum sum.dim_IntList prod prod.dim_int mean mean.dim amax amin aminmax any any.dim all "
      "all.dim max min max.dim min.dim argmax argmin std std.correction std.dim "
      "std_mean.correction "
      "var var.correction var.dim var_mean.correction linalg_vector_norm norm.Scalar "
      "norm.ScalarOpt_dim count_nonzero count_nonzero.dim_IntList median nanmedian",
      reduced);
  rules.add("any.dims all.dims", [](NodeTypes& t) { reduce(t, false); });
  rules.add("median.dim nanmedian.dim mode", [](NodeTypes& t) {
    t.at_least(row_length(t), 1, "the length of a row");
    // mode's "dim" has a default, which is not to reduce all.
    if (t.has("dim")) reduced(t);
  });
  rules.add("kthvalue", [](NodeTypes& t) {
    kth(t);
    if (t.has("dim")) reduced(t);
  });
  rules.add("topk", largest);
  rules.add("dist", [](NodeTypes& t) {
    t.broadcast(t.shape("self"), t.shape("other"), "a size of argument 'other'");
    t.gives({});
  });
  rules.add("layer_norm native_layer_norm rms_norm _fused_rms_norm", layer_norm);
  rules.add("group_norm native_group_norm", group_norm);
  constexpr const char* kBatchNorm =
      "input [n c *s], weight [c], bias [c], running_mean [c], running_var [c] -> [n c *s]";
  rules.add("batch_norm", kBatchNorm);
  rules.add(
      "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit.no_stats "
      "_native_batch_norm_legit_no_training cudnn_batch_norm",
      (std::string(kBatchNorm) + ", [.], [.]").c_str());
  rules.add("_native_batch_norm_legit_functional",
            (std::string(kBatchNorm) + ", [.], [.], [c], [c]").c_str());
  rules.add("_batch_norm_with_update_functional",
            (std::string(kBatchNorm) + ", [.], [.], [.], [c], [c]").c_str());
  rules.add("histc", [](NodeTypes& t) {
    t.at_least(t.expr("bins", 100), 1, "argument 'bins'");
    t.gives({t.expr("bins", 100)});
  });
  rules.add("histogram.bin_ct histogram.bins_tensor", histogram);
  rules.add("_histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors",
            histogram_of_points);
  rules.add("segment_reduce", segment_reduce);
  rules.add("_segment_reduce_backward", segment_reduce_backward);
  rules.add("searchsorted.Tensor",
            "self [*b .], sorted_sequence [*b n], sorter [*b n] -> [*b .] | "
            "self [*s], sorted_sequence [n], sorter [n] -> [*s]");
  rules.add("searchsorted.Scalar", "sorted_sequence [n], sorter [n] -> []");
  rules.add("bucketize.Tensor", "self [*s], boundaries [.] -> [*s]");
  rules.add("bucketize.Scalar", "boundaries [.] -> []");
}

}  // namespace tv
