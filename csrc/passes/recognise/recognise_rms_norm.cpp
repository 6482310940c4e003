#include "csrc/passes/recognise/recognise_rms_norm.h"

#include <optional>

#include "csrc/converter.h"
#include "csrc/graph/edit.h"
#include "csrc/passes/kit/makers.h"
#include "csrc/passes/simplify/simplify.h"

namespace tv {
namespace {

class RmsNormRecogniser {
 public:
  RmsNormRecogniser(Graph graph, const Settings& settings, const DeviceProfile& device)
      : graph_(std::move(graph)), settings_(settings), device_(device), makers_(graph_) {}

  Graph run() {
    bool any = false;
    for (Node& node : graph_.nodes) {
      if (node.op != "aten::mul.Tensor") continue;
      const ValueId self = node.input("self"), other = node.input("other");
      if (self == kNoValue || other == kNoValue) continue;
      for (const auto& [x, inverse] : {std::pair(self, other), {other, self}}) {
        const auto eps = norm_of(x, inverse, node);
        if (!eps) continue;
        Node norm = rms_norm(node, x, *eps);
        const Converter* converter = Registry::instance().find(norm.op);
        if (!converter->unsupported({graph_, norm, device_, settings_}).empty()) break;
        node = std::move(norm);
        any = true;
        break;
      }
    }
    return any ? simplify(std::move(graph_)) : std::move(graph_);  // the pieces
  }

 private:
  static bool is_number(const Node& node, const char* name, double number) {
    const auto* size = std::get_if<Expr>(&node.arg(name).attr);
    return (!size || size->is_constant()) && node.number(name) == number;
  }

  /// The epsilon where `inverse` is 1 / sqrt(mean(x²) + epsilon) over the rows of `x`.
  std::optional<double> norm_of(ValueId x, ValueId inverse, const Node& product) const {
    const Value& value = graph_.value(x);
    const bool whole = value.dtype == DType::kF32 && !value.shape.empty() &&
                       graph_.value(product.outputs[0]).shape == value.shape;
    const Node* root = whole ? makers_.only(inverse, "aten::rsqrt") : nullptr;
    const Node* sum = root ? makers_.only(root->input("self"), "aten::add.Scalar") : nullptr;
    if (!sum || !is_one(*sum, "alpha")) return std::nullopt;
    const auto* size = std::get_if<Expr>(&sum->arg("other").attr);
    const Node* mean = size ? nullptr : makers_.only(sum->input("self"), "aten::mean.dim");
    if (!mean || !mean->flag("keepdim") || mean->has("dtype")) return std::nullopt;
    const auto last = static_cast<int64_t>(value.shape.size()) - 1;
    const std::vector<int64_t> dims = mean->integers("dim");
    if (dims.size() != 1 || (dims[0] != -1 && dims[0] != last)) return std::nullopt;
    if (!is_square_of(x, mean->input("self"))) return std::nullopt;
    return sum->number("other");
  }

  bool is_square_of(ValueId x, ValueId square) const {
    if (const Node* power = makers_.only(square, "aten::pow.Tensor_Scalar")) {
      return power->input("self") == x && is_number(*power, "exponent", 2);
    }
    const Node* node = makers_.maker(square);
    return node && node->op == "aten::mul.Tensor" && node->input("self") == x &&
           node->input("other") == x;
  }

  Node rms_norm(const Node& product, ValueId x, double eps) const {
    Node norm = node_for(product, "aten::rms_norm", "");
    norm.args = {tensor_arg("input", x),
                 attr_arg("normalized_shape", std::vector<Expr>{graph_.value(x).shape.back()}),
                 attr_arg("weight", std::monostate{}), attr_arg("eps", eps)};
    norm.outputs = product.outputs;  // readers stay as they are
    return norm;
  }

  Graph graph_;
  const Settings& settings_;
  const DeviceProfile& device_;
  const Makers makers_;
};

}  // namespace

Graph recognise_rms_norm(Graph graph, const Settings& settings, const DeviceProfile& device) {
  return RmsNormRecogniser(std::move(graph), settings, device).run();
}

}  // namespace tv
