#include "csrc/partition/unsupported.h"

#include <algorithm>
#include <exception>
#include <map>

#include "csrc/builder.h"
#include "csrc/graph/strided.h"
#include "csrc/passes/simplify/canonicalise.h"
#include "csrc/passes/simplify/truncate.h"

namespace tv {
namespace {

constexpr size_t kMaxRank = 8;

/// "aten::add" matches "aten::add" and "aten::add.Tensor"; with an overload only that one matches.
bool matches(std::string_view op, std::string_view pattern) {
  if (!op.starts_with(pattern)) return false;
  return op.size() == pattern.size() || op[pattern.size()] == '.';
}

/// Why the device cannot hold a tensor of this type, or "".
std::string dtype_refusal(DType dtype, const DeviceProfile& device) {
  const auto lacks = [&](const char* feature) {
    return std::string(name(dtype)) + " needs a device with " + feature + "; " + device.name +
           " has none";
  };
  switch (dtype) {
    case DType::kOther:
      return "its dtype is not one that engines hold (complex, quantised, or not a tensor)";
    case DType::kF64:
      return "float64 stays native unless truncate_long_and_double computes it as float32";
    case DType::kI64:
      if (device.int64) return "";
      return lacks("64-bit integers") + " (truncate_long_and_double computes it as int32)";
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
      return device.storage16 ? "" : lacks("16-bit storage");
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return device.storage8 ? "" : lacks("8-bit storage");
    case DType::kF32:
    case DType::kI32:
      return "";
  }
  return "";
}

std::string value_refusal(const Value& value, const NodeContext& context) {
  const std::string subject = "'" + value.name + "': ";
  const std::string dtype = dtype_refusal(value.dtype, context.device);
  if (!dtype.empty()) return subject + dtype;
  if (value.shape.size() > kMaxRank) {
    return subject + "rank " + std::to_string(value.shape.size()) + " is above " +
           std::to_string(kMaxRank);
  }
  const double elements = most_elements(value.shape, context.graph.symbols);
  if (elements >= static_cast<double>(kMaxElements)) {
    return subject + "up to " + std::to_string(static_cast<int64_t>(std::min(elements, 9e18))) +
           " elements; engines take fewer than 2^31";
  }
  return "";
}

/// Why the user or the frontend keeps a node native, or "". What has an effect stays for that.
std::string kept_native(const Node& node, const Settings& settings) {
  for (const std::string& pattern : settings.torch_executed_ops) {
    if (node.origin.effect) break;
    if (matches(node.op, pattern) || matches(node.origin.op, pattern)) {
      return "torch_executed_ops lists " + pattern;
    }
  }
  return node.origin.refusal;
}

std::string common_refusal(const NodeContext& context) {
  const auto check_values = [&](const std::vector<ValueId>& ids) -> std::string {
    for (const ValueId v : ids) {
      if (v == kNoValue) continue;
      std::string reason = value_refusal(context.graph.value(v), context);
      if (!reason.empty()) return reason;
    }
    return "";
  };
  std::string reason = check_values(context.node.all_inputs());
  return reason.empty() ? check_values(context.node.outputs) : reason;
}

bool is_symbolic(const Attr& attr) {
  const auto depends = [](const Expr& e) { return !e.is_constant(); };
  if (const auto* e = std::get_if<Expr>(&attr)) return depends(*e);
  const auto* list = std::get_if<std::vector<Expr>>(&attr);
  return list != nullptr && std::any_of(list->begin(), list->end(), depends);
}

bool reads_or_gives_64_bits(const NodeContext& context) {
  const auto is_wide = [&](ValueId v) {
    const DType dtype = v == kNoValue ? DType::kOther : context.graph.value(v).dtype;
    return dtype == DType::kI64 || dtype == DType::kF64;
  };
  return std::ranges::any_of(context.node.all_inputs(), is_wide) ||
         std::ranges::any_of(context.node.outputs, is_wide);
}

/// A graph of the node and the values it reads.
Graph alone(const NodeContext& context) {
  Graph graph{.symbols = context.graph.symbols, .conditions = context.graph.conditions};
  Node node = context.node;
  for (const Condition& demand : node.origin.demands) add_condition(graph.conditions, demand);
  std::map<ValueId, ValueId> ids;
  const auto take = [&](ValueId& v, std::vector<ValueId>* list) {
    if (v == kNoValue) return;
    const auto [it, fresh] = ids.try_emplace(v, kNoValue);
    if (fresh) {
      it->second = graph.add_value(context.graph.value(v));
      if (list != nullptr) list->push_back(it->second);
    }
    v = it->second;
  };
  for (Arg& arg : node.args) {
    for (ValueId& v : arg.values) take(v, &graph.inputs);
  }
  for (ValueId& v : node.outputs) {
    take(v, nullptr);
    if (v != kNoValue) graph.outputs.push_back({v, graph.value(v).name, {}});
  }
  graph.nodes = {std::move(node)};
  return graph;
}

/// Takes what a converter emits, to see whether the device can run it.
class Trial : public Builder {
 public:
  explicit Trial(const NodeContext& context) : graph_(context.graph), context_(context) {}

  ValueId scratch(const std::string&, DType, Shape shape) override {
    scratch_.push_back(std::move(shape));
    return static_cast<ValueId>(graph_.values.size() + scratch_.size() - 1);
  }
  Shape strides_of(ValueId value) const override {
    const auto id = static_cast<size_t>(value);
    const size_t count = graph_.values.size();
    return id < count ? layout_of(graph_, value).strides : contiguous_strides(scratch_[id - count]);
  }
  bool is_constant(ValueId) const override { return false; }
  void emit(std::vector<Tactic> tactics) override {
    fewest_ = kUnbounded;
    for (const Tactic& tactic : tactics) {
      int64_t most = 0;
      for (const Step& step : tactic.steps) {
        most = std::max(most, step.iterations.bounds(graph_.symbols).first);
      }
      fewest_ = std::min(fewest_, most);
    }
  }

  /// Why no tactic can be run, or "".
  std::string refusal() const {
    const int64_t limit = context_.device.max_loop_iterations();
    if (fewest_ <= limit) return "";
    return "[" + context_.node.op + "] " + std::to_string(fewest_) + " loop iterations; " +
           context_.device.name + " makes " + std::to_string(limit);
  }

 private:
  const Graph& graph_;
  const NodeContext& context_;
  std::vector<Shape> scratch_;
  int64_t fewest_ = 0;  // loop iterations of the best tactic
};

/// Why what a node becomes cannot be run, or "": the operators that it expands into are asked, and
/// converters are tried where they may find a loop too long, or, with symbols, an argument that
/// has to be constant (they read these in many places, and throw there).
std::string refusal_of_parts(const NodeContext& context, const Converter& converter) {
  const auto symbolic = [](const Arg& arg) { return is_symbolic(arg.attr); };
  const bool tries = context.device.max_loop_iterations() < kUnbounded ||
                     std::ranges::any_of(context.node.args, symbolic);
  if (!converter.expand && !tries) return "";
  const Graph graph = canonicalise(alone(context), context.settings, context.device);
  for (const Node& node : graph.nodes) {
    const Converter* part = Registry::instance().find(node.op);
    if (part == nullptr) continue;
    const NodeContext at{graph, node, context.device, context.settings};
    if (converter.expand && part->unsupported) {
      std::string reason = part->unsupported(at);
      if (!reason.empty()) return reason;
    }
    if (!tries || !part->convert) continue;
    Trial trial(at);
    part->convert(at, trial);
    if (std::string reason = trial.refusal(); !reason.empty()) return reason;
  }
  return "";
}

}  // namespace

std::string unsupported(const NodeContext& context) {
  const std::string kept = kept_native(context.node, context.settings);
  if (!kept.empty()) return kept;
  if (context.settings.truncate_long_and_double && reads_or_gives_64_bits(context)) {
    if (reads_bytes(context.node)) {
      return "the bytes of a type that truncate_long_and_double holds in 4 of 8";
    }
    const Graph narrow = truncate_long_and_double(alone(context));
    return unsupported({narrow, narrow.nodes.front(), context.device, context.settings});
  }
  const Converter* converter = Registry::instance().find(context.node.op);
  if (!converter) {
    // Importers call operators of complex values so (converters/complex/complex.h).
    constexpr std::string_view kComplex = "complex::";
    const std::string& op = context.node.op;
    return "no converter for " + (op.starts_with(kComplex)
                                      ? "aten::" + op.substr(kComplex.size()) + " of complex values"
                                      : op);
  }
  std::string reason = common_refusal(context);
  if (!reason.empty()) return reason;
  try {
    if (converter->unsupported) reason = converter->unsupported(context);
    if (reason.empty()) reason = refusal_of_parts(context, *converter);
    return reason;
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace tv
