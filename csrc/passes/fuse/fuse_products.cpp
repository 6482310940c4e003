#include "csrc/passes/fuse/fuse_products.h"

#include <algorithm>
#include <optional>

#include "csrc/graph/edit.h"
#include "csrc/graph/strided.h"
#include "csrc/passes/fuse/row_norm.h"

namespace tv {
namespace {

constexpr int64_t kMostRows = 8, kSteps = 16;  // of a, and of k that an invocation takes at once

class ProductFuser {
 public:
  explicit ProductFuser(Graph graph) : g_(std::move(graph)) {}

  Graph run() {
    for (int32_t p = 0; p < g_.size(); ++p) {
      const std::optional<Node> rows = g_.alive(p) ? as_rows(g_.node(p)) : std::nullopt;
      if (!rows) continue;
      const int32_t gate = gate_of(p, *rows);
      const std::optional<RowNorm> norm = norm_of(p);
      if (gate < 0 && !norm) continue;
      Node fused = *rows;
      if (norm) take_norm(fused, *norm);
      if (norm) g_.replace(p, fused, norm->node);
      if (gate >= 0) take_gate(fused, gate, p);
    }
    return g_.take();
  }

 private:
  const Shape& shape(ValueId v) const { return g_.value(v).shape; }

  /// The product as tv::matmul_rows without anything around it.
  std::optional<Node> as_rows(const Node& product) const {
    const bool packed = product.op == "tv::matmul_quantised";
    if (!packed && product.op != "tv::matmul") return std::nullopt;
    if (product.prologue) return std::nullopt;
    const Shape &a = shape(product.input("a")), &out = shape(product.outputs[0]);
    if (a.size() != 2 || out.size() != 2 || !g_.covers_storage(product.input("a"))) {
      return std::nullopt;
    }
    const auto m = a[0].constant(), k = a[1].constant(), n = out[1].constant();
    if (!m || !k || !n || *m > kMostRows || *m < 1 || *k % kSteps != 0) return std::nullopt;
    if (!is_float(g_.value(product.input("a")).dtype)) return std::nullopt;
    Node rows = product;
    rows.op = "tv::matmul_rows";
    if (rows.fused_ops.empty()) rows.fused_ops = {product.op};
    rows.args = {tensor_arg("a", product.input("a"))};
    if (packed) {
      if (!groups_fit(product, *k)) return std::nullopt;
      rows.args.insert(rows.args.end(), product.args.begin() + 1, product.args.end());
    } else {
      const ValueId weight = rows_of_weight(product.input("b"), *n, *k);
      if (weight == kNoValue) return std::nullopt;
      rows.args.push_back(tensor_arg("b", weight));
    }
    rows.args.push_back(attr_arg("n", Expr(*n)));
    return rows;
  }

  bool groups_fit(const Node& product, int64_t k) const {
    for (const char* arg : {"scale", "zero_point"}) {
      if (!product.has(arg)) continue;
      const auto groups = shape(product.input(arg)).back().constant();
      if (!groups || k % *groups != 0 || k / *groups % kSteps != 0) return false;
    }
    return true;
  }

  /// The matrix [n, k] that a product reads as its transpose; kNoValue: it lies otherwise.
  ValueId rows_of_weight(ValueId b, int64_t n, int64_t k) const {
    const View layout = layout_of(g_.graph(), b);
    const Value& base = g_.value(layout.base);
    const bool is_weight =
        base.kind == ValueKind::kWeight ||
        (g_.producer(layout.base) >= 0 && g_.is_constant(g_.producer(layout.base)));
    if (!is_weight || layout.base == b || !is_float(base.dtype)) return kNoValue;
    if (!(base.shape == Shape{Expr(n), Expr(k)}) || !(layout.offset == Expr(0))) return kNoValue;
    const bool transposed = layout.strides == Shape{Expr(1), Expr(k)};
    return transposed ? layout.base : kNoValue;
  }

  bool only_reader(int32_t node, int32_t reader) const {
    const ValueId made = g_.node(node).outputs[0];
    return !g_.is_output(made) && g_.readers(made) == std::set<int32_t>{reader};
  }

  // --- the norm before it -----------------------------------------------------------------------

  std::optional<RowNorm> norm_of(int32_t p) const {
    const ValueId a = g_.node(p).input("a");
    const int32_t at = g_.producer(g_.base_of(a));
    if (at < 0 || !g_.is_read_once(g_.base_of(a), p)) return std::nullopt;
    const std::optional<RowNorm> norm = row_norm(g_, at);
    const bool fits = norm && shape(norm->x).back() == shape(a).back();
    return fits && g_.covers_storage(norm->x) ? norm : std::nullopt;
  }

  static void take_norm(Node& product, const RowNorm& norm) {
    product.args[0] = tensor_arg("a", norm.x);
    product.args.push_back(attr_arg("eps", norm.eps));
    product.prologue = std::make_shared<const PointwiseProgram>(norm.program);
    product.prologue_inputs = {norm.x};
    product.prologue_inputs.insert(product.prologue_inputs.end(), norm.vectors.begin(),
                                   norm.vectors.end());
    product.fused_ops.insert(product.fused_ops.begin(), "aten::rms_norm");
  }

  // --- the gate behind it -----------------------------------------------------------------------

  /// The node that reads the product's columns in two halves, -1 if there is none.
  int32_t gate_of(int32_t p, const Node& rows) const {
    const Node& node = g_.node(p);
    const auto& readers = g_.readers(node.outputs[0]);
    if (node.epilogue || readers.size() != 1 || !only_reader(p, *readers.begin())) return -1;
    const int32_t at = *readers.begin();
    const Node& gate = g_.node(at);
    if (gate.op != "tv::pointwise" || gate.outputs.size() != 1) return -1;
    const std::vector<ValueId>& inputs = gate.inputs("inputs");
    const int64_t n = rows.integer("n");
    if (inputs.size() != 2 || n % 2 != 0) return -1;
    const auto first = half(inputs[0], p, n), second = half(inputs[1], p, n);
    const bool both = first && second && *first != *second;
    const Shape& out = shape(gate.outputs[0]);
    const bool dense = !g_.value(gate.outputs[0]).view && !out.empty() && out.back() == Expr(n / 2);
    return both && dense ? at : -1;
  }

  /// Which half of the product's n columns a value is: 0 or 1.
  std::optional<int64_t> half(ValueId v, int32_t p, int64_t n) const {
    const ValueId base = g_.node(p).outputs[0];
    const View layout = layout_of(g_.graph(), v);
    const Shape& rows = shape(base);
    if (layout.base != base || shape(v).empty() || !(shape(v).back() == Expr(n / 2))) {
      return std::nullopt;
    }
    if (!(layout.strides.back() == Expr(1))) return std::nullopt;
    Shape sizes = shape(v), strides = layout.strides;
    collapse(sizes, strides);
    const bool all = product(shape(v)) == rows[0] * Expr(n / 2);
    const bool by_rows = sizes.size() == 1 || (sizes.size() == 2 && strides[0] == Expr(n));
    const auto offset = layout.offset.constant();
    if (!all || !by_rows || !offset || (*offset != 0 && *offset != n / 2)) return std::nullopt;
    return *offset == 0 ? 0 : 1;
  }

  void take_gate(const Node& product, int32_t at, int32_t p) {
    const Node& gate = g_.node(at);
    Node fused = product;
    const int64_t n = fused.integer("n");
    const bool swapped = *half(gate.inputs("inputs")[0], p, n) == 1;
    for (Arg& arg : fused.args) {
      if (arg.name == "n") arg = attr_arg("n", Expr(n / 2));
    }
    fused.args.push_back(attr_arg("gated", true));
    fused.args.push_back(attr_arg("swapped", swapped));
    fused.program = gate.program;
    fused.outputs = gate.outputs;
    const std::vector<std::string> ops =
        gate.fused_ops.empty() ? std::vector<std::string>{gate.op} : gate.fused_ops;
    fused.fused_ops.insert(fused.fused_ops.end(), ops.begin(), ops.end());
    g_.replace(at, std::move(fused), p);
  }

  // Looks at nodes through the same interface as it changes them.
  mutable FusionGraph g_;
};

}  // namespace

Graph fuse_products(Graph graph, const DeviceProfile& device) {
  if (device.is_cpu() || !device.subgroup_size_control) return graph;
  return ProductFuser(std::move(graph)).run();
}

}  // namespace tv
