#include "csrc/frontends/onnx/bake_masks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "csrc/graph/edit.h"

namespace tv::onnx {
namespace {

constexpr int64_t kMaxMask = int64_t{1} << 24;

enum class Mask { kOther, kZero, kCausal };

/// 0, hidden, or nothing: all that is asked of an element. Zeros have either sign; true is the zero
/// of masks that say what is seen. float32's lowest number hides as -inf does where a row sees any
/// key: what is added to it is lost, and its exponential is 0.
enum class Kind { kOther, kZero, kHidden };

Kind kind_of(std::span<const uint8_t> bytes, DType dtype, size_t i) {
  if (dtype == DType::kBool) return bytes[i] ? Kind::kZero : Kind::kHidden;
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    const bool hidden = value <= std::numeric_limits<float>::lowest();
    return value == 0 ? Kind::kZero : hidden ? Kind::kHidden : Kind::kOther;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
  const uint16_t infinity = dtype == DType::kF16 ? 0xfc00 : 0xff80;
  return (bits & 0x7fff) == 0 ? Kind::kZero : bits == infinity ? Kind::kHidden : Kind::kOther;
}

bool has_kinds(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kBool;
}

class MaskBaker {
 public:
  explicit MaskBaker(ImportedModel& model) : model_(model), graph_(model.graph) {
    for (size_t i = 0; i < graph_.weights.size(); ++i) weight_of_.emplace(graph_.weights[i], i);
  }

  void run() {
    made_by_ = producers(graph_);
    read_by_ = consumers(graph_);
    for (const Node& node : graph_.nodes) {
      if (node.op == "aten::_softmax") masked_by(node);
    }
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      if (!node.outputs.empty() && unread_.count(node.outputs[0])) continue;
      replaced_.apply(node);
      if (node.op == "aten::where.self") choose_number(node);
      const auto causal = node.outputs.empty() ? causal_.end() : causal_.find(node.outputs[0]);
      if (causal != causal_.end()) add_triangle(node, causal->second);
      graph_.nodes.push_back(std::move(node));
    }
    if (!baked_) return;
    make_names_unique(graph_);
    drop_weights();
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }
  DType dtype(ValueId v) const { return graph_.value(v).dtype; }

  bool is_output(ValueId v) const {
    return std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                       [&](const GraphOutput& output) { return output.value == v; });
  }

  const Node* maker(ValueId v) const {
    const int32_t at = v == kNoValue ? -1 : made_by_[static_cast<size_t>(v)];
    return at < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(at)];
  }

  /// Looks at what is added to what the softmax is of.
  void masked_by(const Node& softmax) {
    const ValueId sum = softmax.input("self");
    const Node* add = maker(sum);
    if (!add || read_by_[static_cast<size_t>(sum)].size() != 1) return;
    if (add->op != "aten::add.Tensor" || !add->arg("other").is_tensor) return;
    for (const auto& [mask, scores] : {std::pair{add->input("other"), add->input("self")},
                                       std::pair{add->input("self"), add->input("other")}}) {
      if (shape(scores) != shape(sum)) continue;
      const Mask found = mask_of(source_of(mask), shape(sum));
      if (found == Mask::kOther) continue;
      if (found == Mask::kCausal) causal_.emplace(sum, mask);
      if (found == Mask::kZero) {
        replaced_.add(sum, scores);
        if (!is_output(sum)) unread_.insert(sum);
      }
      baked_ = true;
      return;
    }
  }

  /// The weight that a mask is: of numbers, or of what is seen in where(seen, 0, -inf).
  ValueId source_of(ValueId mask) const {
    const auto whole = [&](ValueId v) {
      for (const Node* node = maker(v); node; node = maker(v)) {
        if (node->op != "aten::expand" && node->op != "aten::reshape") break;
        v = node->input("self");
      }
      return v;
    };
    const ValueId given = whole(mask);
    const Node* node = maker(given);
    if (!node || node->op != "aten::where.self") return given;
    const bool chosen = kind_of_one(node->input("self")) == Kind::kZero &&
                        kind_of_one(node->input("other")) == Kind::kHidden;
    return chosen ? whole(node->input("condition")) : kNoValue;
  }

  /// Of a weight of one element; else kOther.
  Kind kind_of_one(ValueId v) const {
    const auto weight = weight_of_.find(v);
    const bool one = std::all_of(shape(v).begin(), shape(v).end(),
                                 [](const Expr& size) { return size == Expr(1); });
    if (weight == weight_of_.end() || !one || !has_kinds(dtype(v))) return Kind::kOther;
    return kind_of(model_.weights[weight->second].load().bytes, dtype(v), 0);
  }

  Mask mask_of(ValueId mask, const Shape& scores) const {
    const bool known = weight_of_.count(mask) && has_kinds(dtype(mask)) && !shape(mask).empty();
    if (!known) return Mask::kOther;
    int64_t count = 1;
    for (const Expr& size : shape(mask)) {
      const int64_t n = size.constant().value_or(0);
      if (n < 1 || count > kMaxMask / n) return Mask::kOther;
      count *= n;
    }
    const Shape& of = shape(mask);
    const bool square = of.size() >= 2 && of[of.size() - 2] == scores[scores.size() - 2] &&
                        of.back() == scores.back() && of.back() * of[of.size() - 2] == Expr(count);
    // A mask of numbers that a model learns may be all zeros at first: only one for all heads
    // counts.
    if (!square && dtype(mask) != DType::kBool) return Mask::kOther;
    const WeightBytes loaded = model_.weights[weight_of_.at(mask)].load();
    const int64_t columns = *of.back().constant();
    bool zero = true, causal = square;
    for (int64_t i = 0; i < count && (zero || causal); ++i) {
      const Kind kind = kind_of(loaded.bytes, dtype(mask), static_cast<size_t>(i));
      const bool hidden = i % columns > i / columns;
      zero = zero && kind == Kind::kZero;
      causal = causal && kind == (hidden ? Kind::kHidden : Kind::kZero);
    }
    return zero ? Mask::kZero : causal ? Mask::kCausal : Mask::kOther;
  }

  /// A branch of `where` that is one zero.
  void choose_number(Node& node) {
    for (Arg& arg : node.args) {
      if (arg.name == "condition" || !arg.is_tensor || arg.values.size() != 1) continue;
      const ValueId v = arg.values[0];
      if (!is_float(dtype(v)) || kind_of_one(v) != Kind::kZero) continue;
      arg.values[0] = full(node, dtype(v), shape(v), 0.0);
      baked_ = true;
    }
  }

  void add_triangle(Node& add, ValueId mask) {
    const Shape& of = shape(mask);
    const Shape square(of.end() - 2, of.end());
    Node node = node_for(add, "aten::triu", "_triangle");
    node.args = {tensor_arg("self", full(add, dtype(mask), square, -HUGE_VAL)),
                 attr_arg("diagonal", Expr(1))};
    const ValueId triangle = append(graph_, std::move(node), dtype(mask), square);
    for (Arg& arg : add.args) {
      if (arg.is_tensor && arg.values.at(0) == mask) arg.values[0] = triangle;
    }
  }

  ValueId full(const Node& reader, DType type, Shape of, double value) {
    Node node = node_for(reader, "aten::full", "_constant");
    node.args = {attr_arg("size", std::vector<Expr>(of)),
                 attr_arg("fill_value", value),
                 attr_arg("dtype", type),
                 attr_arg("layout", std::monostate{}),
                 attr_arg("device", std::monostate{}),
                 attr_arg("pin_memory", std::monostate{})};
    return append(graph_, std::move(node), type, std::move(of));
  }

  void drop_weights() {
    std::set<ValueId> read;
    for (const Node& node : graph_.nodes) {
      for (const ValueId v : node.all_inputs()) read.insert(v);
    }
    for (const GraphOutput& output : graph_.outputs) read.insert(output.value);
    std::vector<ValueId> ids;
    std::vector<Weight> weights;
    for (size_t i = 0; i < graph_.weights.size(); ++i) {
      if (!read.count(graph_.weights[i])) continue;
      ids.push_back(graph_.weights[i]);
      weights.push_back(std::move(model_.weights[i]));
    }
    graph_.weights = std::move(ids);
    model_.weights = std::move(weights);
  }

  ImportedModel& model_;
  Graph& graph_;
  std::vector<int32_t> made_by_;
  std::vector<std::vector<int32_t>> read_by_;
  std::map<ValueId, size_t> weight_of_;
  std::map<ValueId, ValueId> causal_;  ///< masks by the sums that they are part of
  Replacements replaced_;
  std::set<ValueId> unread_;  ///< sums with zero
  bool baked_ = false;
};

}  // namespace

void bake_masks(ImportedModel& model) { MaskBaker(model).run(); }

}  // namespace tv::onnx
