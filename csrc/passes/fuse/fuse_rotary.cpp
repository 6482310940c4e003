#include "csrc/passes/fuse/fuse_rotary.h"

#include <optional>

#include "csrc/graph/edit.h"
#include "csrc/graph/strided.h"
#include "csrc/passes/fuse/row_norm.h"

namespace tv {
namespace {

class RotaryFuser {
 public:
  explicit RotaryFuser(Graph graph) : g_(std::move(graph)) {}

  Graph run() {
    for (int32_t p = 0; p < g_.size(); ++p) {
      const bool rotates =
          g_.alive(p) && (g_.node(p).op == "tv::rotary" || g_.node(p).op == "tv::rotary_pair");
      if (rotates) take_norms(p);
    }
    return g_.take();
  }

 private:
  const Shape& shape(ValueId v) const { return g_.value(v).shape; }

  void take_norms(int32_t p) {
    Node fused = g_.node(p);
    std::vector<RowNorm> norms;
    for (const std::string& name : {std::string("x"), std::string("x2")}) {
      if (!fused.has(name)) continue;
      const ValueId x = fused.input(name);
      const std::optional<RowNorm> norm = norm_before(p, x);
      const std::optional<View> rows = norm ? rows_before(x, *norm) : std::nullopt;
      if (!rows || (!norms.empty() && !alike(norms[0], *norm))) return;
      const Value& from = g_.value(norm->x);
      const ValueId moved =
          g_.add_view(from.name + "_rows_" + fused.name, from.dtype, shape(x), *rows);
      for (Arg& arg : fused.args) {
        if (arg.name == name) arg = tensor_arg(name, moved);
      }
      fused.args.push_back(tensor_list_arg(name + "_vectors", norm->vectors));
      norms.push_back(*norm);
    }
    fused.args.push_back(attr_arg("eps", norms[0].eps));
    fused.program = std::make_shared<const PointwiseProgram>(norms[0].program);
    if (fused.fused_ops.empty()) fused.fused_ops = {fused.op};
    for (const RowNorm& norm : norms) {
      fused.fused_ops.insert(fused.fused_ops.begin(), "aten::rms_norm");
      g_.replace(p, fused, norm.node);
    }
  }

  /// One function of the kernel computes both.
  static bool alike(const RowNorm& a, const RowNorm& b) {
    return a.node != b.node && a.eps == b.eps && a.program == b.program;
  }

  std::optional<RowNorm> norm_before(int32_t p, ValueId x) const {
    const ValueId made = g_.base_of(x);
    const int32_t at = g_.producer(made);
    return at < 0 || !g_.is_read_once(made, p) ? std::nullopt : row_norm(g_, at);
  }

  /// What is normalised as x has the results: x is those of whole rows, in another order.
  std::optional<View> rows_before(ValueId x, const RowNorm& norm) const {
    const ValueId made = g_.node(norm.node).outputs[0];
    const Shape &sizes = shape(made), &wanted = shape(x);
    if (!(shape(norm.x) == sizes) || !(wanted.back() == sizes.back()) ||
        !(product(wanted) == product(sizes)) || wanted.back() == Expr(1)) {
      return std::nullopt;
    }
    const View of_x = layout_of(g_.graph(), x), from = layout_of(g_.graph(), norm.x);
    const Shape dense = contiguous_strides(sizes);
    const bool of_rows = of_x.offset == Expr(0) && of_x.strides.back() == Expr(1);
    if (!of_rows || g_.value(made).view) return std::nullopt;
    View rows{from.base, from.offset, Shape(wanted.size(), Expr(0))};
    std::vector<bool> taken(sizes.size(), false);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == Expr(1)) continue;
      size_t j = 0;
      while (j < sizes.size() &&
             (taken[j] || !(sizes[j] == wanted[i]) || !(dense[j] == of_x.strides[i]))) {
        ++j;
      }
      if (j == sizes.size()) return std::nullopt;
      taken[j] = true;
      rows.strides[i] = from.strides[j];
    }
    return rows;
  }

  FusionGraph g_;
};

}  // namespace

Graph fuse_rotary(Graph graph, const DeviceProfile& device) {
  if (device.is_cpu()) return graph;
  return RotaryFuser(std::move(graph)).run();
}

}  // namespace tv
