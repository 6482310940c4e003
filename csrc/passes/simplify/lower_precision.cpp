#include "csrc/passes/simplify/lower_precision.h"

#include <algorithm>
#include <map>
#include <set>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/precision.h"

namespace tv {
namespace {

constexpr double kFloat16Max = 65504;

bool is_operator(std::string_view op, std::string_view name) {
  return op == name || op.substr(0, op.find('.')) == name;
}

bool stays_float32(const std::string& op) {
  const Converter* converter = Registry::instance().find(op);
  return converter != nullptr && converter->keeps_float32;
}

bool argument_stays_float32(const std::string& op, const std::string& argument) {
  const Converter* converter = Registry::instance().find(op);
  return converter != nullptr && std::ranges::count(converter->float32_args, argument) > 0;
}

/// A cast of the model's own to another type than float32: it reads what the model gives it, and
/// what passes float16's range becomes an infinity, as the model says.
bool is_own_cast(const Node& node) {
  if (node.op != "aten::_to_copy" && node.op != "prims::convert_element_type") return false;
  return std::ranges::any_of(node.args, [](const Arg& arg) {
    const auto* dtype = std::get_if<DType>(&arg.attr);
    return dtype && *dtype != DType::kF32;
  });
}

class Lowering {
 public:
  Lowering(Graph graph, const Settings& settings)
      : graph_(std::move(graph)), dtype_(low_precision(settings)), excluded_(settings) {
    for (const Value& value : graph_.values) was_float32_.push_back(value.dtype == DType::kF32);
    constant_ = constant_values(graph_);
    wide_.insert(graph_.inputs.begin(), graph_.inputs.end());
    wide_.insert(graph_.weights.begin(), graph_.weights.end());
  }

  Graph run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) lower(std::move(node));
    for (GraphOutput& output : graph_.outputs) {
      output.value = cast(output.value, DType::kF32, Node{});
    }
    return std::move(graph_);
  }

 private:
  /// Whether it was float32 in the graph; tensors that the model itself holds in 16 bits stay so.
  bool is_ours(ValueId value) const {
    const auto index = static_cast<size_t>(value);
    return value != kNoValue && (index >= was_float32_.size() || was_float32_[index]);
  }

  bool is_float_here(ValueId value) const {
    return value != kNoValue &&
           (graph_.value(value).dtype == DType::kF32 || graph_.value(value).dtype == dtype_);
  }

  bool is_constant(const Node& node) const {
    return std::ranges::all_of(node.outputs, [&](ValueId v) {
      return v == kNoValue || constant_[static_cast<size_t>(v)];
    });
  }

  /// What is computed of weights alone: once, so that it costs nothing to keep its bits.
  bool is_computed_once(const Node& node) const {
    return is_constant(node) && moves(node, {Moves::kNothing, Moves::kCasts});
  }

  /// One number made of such, as scales are, whose products may be below what float16 holds.
  bool is_number(const Node& node, const std::vector<ValueId>& reads) const {
    const auto is_one = [&](ValueId v) {
      return v == kNoValue || product(graph_.value(v).shape) == Expr(1);
    };
    return std::ranges::all_of(node.outputs, is_one) && std::ranges::all_of(reads, is_one);
  }

  /// A cast of integers that float16 may not hold, and what scales its result: sums of products of
  /// integers pass float16's range until they are multiplied by a scale.
  bool is_cast_of_wide(const Node& node) const {
    const bool casts = moves(node, {Moves::kCasts});
    if (!casts || graph_.value(node.outputs.at(0)).dtype != DType::kF32) return false;
    return std::ranges::any_of(node.all_inputs(), [&](ValueId v) {
      const DType dtype = graph_.value(v).dtype;
      return is_integer(dtype) && size_bytes(dtype) > 2;
    });
  }

  bool is_kept(const Node& node, const std::vector<ValueId>& reads) const {
    return stays_float32(node.op) || excluded_.contains(node) || is_computed_once(node) ||
           is_number(node, reads) || is_cast_of_wide(node) ||
           std::ranges::any_of(reads, [&](ValueId v) { return of_wide_.contains(v); });
  }

  /// Which of the sets below a node moves elements of, which stay what they are; null: of none.
  std::set<ValueId>* moved_set(const Node& node, const std::vector<ValueId>& reads) {
    if (reads.empty() || moves(node, {Moves::kNothing, Moves::kCasts, Moves::kMeans})) {
      return nullptr;
    }
    for (std::set<ValueId>* set : {&dequantised_, &of_wide_, &computed_}) {
      if (std::ranges::all_of(reads, [&](ValueId v) { return set->contains(v); })) return set;
    }
    return nullptr;
  }

  void lower(Node node) {
    const std::vector<ValueId> reads = node.all_inputs();
    const bool reads_float =
        std::any_of(reads.begin(), reads.end(), [&](ValueId v) { return is_float_here(v); });
    std::set<ValueId>* const moved = moved_set(node, reads);
    const DType want =
        reads_float && moved == nullptr && !is_kept(node, reads) ? dtype_ : DType::kF32;
    const bool own_cast = is_own_cast(node);
    const bool constant = is_constant(node), of_wide = !constant && is_cast_of_wide(node);
    for (Arg& arg : node.args) {
      if (own_cast || argument_stays_float32(node.op, arg.name)) continue;
      for (ValueId& value : arg.values) value = cast(value, want, node);
      auto* attr = std::get_if<DType>(&arg.attr);
      if (attr && *attr == DType::kF32) *attr = want;
    }
    for (const ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      Value& value = graph_.value(output);
      if (value.dtype == DType::kF32) value.dtype = want;
      if (moved) moved->insert(output);
      if (node.op == "tv::dequantize") dequantised_.insert(output);
      if (of_wide) of_wide_.insert(output);
      if (is_computed_once(node) && !dequantised_.contains(output)) computed_.insert(output);
      if (!reads_float || (constant && !dequantised_.contains(output))) wide_.insert(output);
    }
    graph_.nodes.push_back(std::move(node));
  }

  ValueId cast(ValueId value, DType want, const Node& reader) {
    if (!is_ours(value) || graph_.value(value).dtype == want) return value;
    const auto [found, fresh] = casts_.try_emplace({value, want}, kNoValue);
    if (fresh) found->second = add_cast(value, want, reader);
    return found->second;
  }

  ValueId add_cast(ValueId value, DType want, const Node& reader) {
    const std::string suffix = "v" + std::to_string(value) + "_" + std::string(name(want));
    if (want == DType::kF16 && wide_.contains(value)) {
      // Masks hold float32's lowest number: it must not become an infinity. What is one stays one.
      const ValueId finite = add("aten::clamp", "clamp_" + suffix, DType::kF32, value, reader,
                                 {attr_arg("min", -kFloat16Max), attr_arg("max", kFloat16Max)});
      const ValueId infinite =
          add("aten::isinf", "isinf_" + suffix, DType::kBool, value, reader, {});
      value = add("aten::where.self", "where_" + suffix, DType::kF32, infinite, reader,
                  {tensor_arg("self", value), tensor_arg("other", finite)}, "condition");
    }
    return add("aten::_to_copy", "cast_" + suffix, want, value, reader,
               {attr_arg("dtype", want), attr_arg("layout", {}), attr_arg("device", {}),
                attr_arg("pin_memory", {}), attr_arg("non_blocking", false),
                attr_arg("memory_format", {})});
  }

  ValueId add(const char* op, std::string name, DType dtype, ValueId self, const Node& reader,
              std::vector<Arg> attributes, const char* first = "self") {
    Node node{.op = op, .name = std::move(name), .args = {tensor_arg(first, self)}};
    node.args.insert(node.args.end(), attributes.begin(), attributes.end());
    node.source = reader.source;
    node.module_path = reader.module_path;
    const ValueId out = graph_.add_output(node, dtype, graph_.value(self).shape);
    graph_.nodes.push_back(std::move(node));
    return out;
  }

  Graph graph_;
  const DType dtype_;
  const ExcludedNodes excluded_;
  std::vector<bool> was_float32_;  ///< of the graph's own values
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
  std::set<ValueId> wide_;  ///< float32 values that were not computed: masks are among them
  // Each with what moves its elements.
  std::set<ValueId> of_wide_;      ///< integers of 32 or 64 bits as floats, as they are
  std::set<ValueId> dequantised_;  ///< results of tv::dequantize, which may be integers still
  std::set<ValueId> computed_;     ///< of weights alone, as scales are
  std::vector<bool> constant_;     ///< depends on weights alone
};

}  // namespace

ExcludedNodes::ExcludedNodes(const Settings& settings)
    : patterns_(settings.autocast_excluded_nodes.begin(), settings.autocast_excluded_nodes.end()),
      operators_(settings.autocast_excluded_ops) {}

bool ExcludedNodes::contains(const Node& node) const {
  return std::ranges::any_of(operators_,
                             [&](const std::string& op) { return is_operator(node.op, op); }) ||
         std::ranges::any_of(patterns_, [&](const std::regex& pattern) {
           return std::regex_search(node.name, pattern) ||
                  std::regex_search(node.module_path, pattern);
         });
}

Graph lower_precision(Graph graph, const Settings& settings) {
  return Lowering(std::move(graph), settings).run();
}

}  // namespace tv
