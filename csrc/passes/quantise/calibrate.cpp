#include "csrc/passes/quantise/calibrate.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "csrc/calibration/calibration.h"
#include "csrc/graph/is_quantised.h"
#include "csrc/passes/kit/makers.h"
#include "csrc/passes/kit/moves.h"
#include "csrc/passes/kit/product_operands.h"
#include "csrc/passes/simplify/lower_precision.h"
#include "csrc/precision.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

/// What has its input's values, and zeros at most besides.
bool keeps_range(const Node& node) {
  if (node.op == "aten::constant_pad_nd") return node.number("value") == 0;
  return keeps_order(node) || moves(node, {Moves::kPermutes, Moves::kSpreads});
}

/// The tensor of the file's that a node's input is, which a frontend may have reshaped for it.
ValueId of_file(const Graph& graph, const Makers& makers, const Node& reader, ValueId value) {
  for (const Node* node = makers.maker(value);
       node && !node->source.empty() && node->source == reader.source && keeps_range(*node);
       node = makers.maker(value)) {
    const ValueId from = node->input("self");
    if (from == kNoValue || graph.value(from).dtype != graph.value(value).dtype) break;
    value = from;
  }
  return value;
}

/// "layer.a.input": what a module's product reads. torch.export calls the module's second call
/// "layer.a@1".
std::string name_of_module(const std::string& module_path) {
  static const std::regex number("@[0-9]+");
  const std::string module = std::regex_replace(module_path, number, "");
  return module.empty() ? "input" : module + ".input";
}

/// Whether a weight goes by the module's name for it, and not by one that capturing made up, which
/// the same weight has in no other graph.
bool is_named(const std::string& name) {
  static const std::regex made_up(
      "arg[0-9]+_1|primals_[0-9]+|_(tensor|param)_constant[0-9]+|lifted_tensor_[0-9]+|");
  return !std::regex_match(name, made_up) && (name[0] < '0' || name[0] > '9');
}

/// What a weight is made of.
class Making {
 public:
  Making(const Graph& graph, const Makers& makers, ValueId weight) : graph_(graph) {
    add(makers, weight);
  }

  /// "layer.a.input" of "layer.a.weight", "matrix.input" of "matrix"; "" where nothing has a name.
  std::string name() const {
    for (const ValueId leaf : leaves) {
      const std::string& own = graph_.value(leaf).name;
      if (!is_named(own)) continue;
      if (own == "weight") return "input";
      constexpr std::string_view kWeight = ".weight";
      return own.substr(0, own.size() - (own.ends_with(kWeight) ? kWeight.size() : 0)) + ".input";
    }
    return "";
  }

  std::vector<ValueId> leaves;
  std::string text;

 private:
  void add(const Makers& makers, ValueId value) {
    if (!numbers_.emplace(value, static_cast<ValueId>(numbers_.size())).second) return;
    const Node* node = makers.maker(value);
    if (!node) {
      leaves.push_back(value);
      text += type_text(graph_.value(value)) + "; ";
      return;
    }
    for (const ValueId read : node->all_inputs()) add(makers, read);
    Node renumbered = *node;
    for (Arg& arg : renumbered.args) {
      for (ValueId& read : arg.values) {
        if (read != kNoValue) read = numbers_.at(read);
      }
    }
    const auto output = std::ranges::find(node->outputs, value) - node->outputs.begin();
    text += signature(renumbered) + "[" + std::to_string(output) + "]; ";
  }

  const Graph& graph_;
  std::map<ValueId, ValueId> numbers_;  // in the order in which they are met
};

/// Where the channels of a node's input are in `value`, which the file has for it.
int64_t channel_dim_of(const Graph& graph, const Makers& makers, const Node& node, ValueId input,
                       ValueId value) {
  if (is_convolution(node)) return value == input ? 1 : -1;
  for (ValueId at = input; at != value;) {
    const Node* view = makers.maker(at);
    const ValueId from = view->input("self");
    const Shape &to_shape = graph.value(at).shape, &from_shape = graph.value(from).shape;
    if (!keeps_order(*view) || from_shape.empty()) return -1;
    if (!(to_shape.back() == from_shape.back())) return -1;
    at = from;
  }
  return graph.rank(value) - 1;
}

std::string some(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i ? ", '" : "'") + names[i] + "'";
  }
  return names.size() > kShown ? text + ", …" : text;
}

/// Gives a node what is known of its input's channels.
void add_channels(Graph& graph, const CalibrationPoint& point, const Calibration& calibration) {
  const auto found = calibration.channels.find(point.name);
  if (found == calibration.channels.end() || point.channel_dim < 0) return;
  Node& node = graph.nodes[point.node];
  const auto dim = static_cast<size_t>(point.channel_dim);
  const Expr channels = graph.value(point.value).shape.at(dim);
  const auto add = [&](const char* name, const std::vector<float>& numbers) {
    if (numbers.empty()) return;
    const auto count = static_cast<int64_t>(numbers.size());
    if (!(channels == Expr(count))) {
      throw Error(ErrorKind::kUser, "[calibration] '" + point.name + "' has " + channels.str() +
                                        " channels, the calibration " + std::to_string(count) +
                                        ": calibrate this model");
    }
    node.args.push_back(attr_arg(name, std::vector<double>(numbers.begin(), numbers.end())));
  };
  add(kInputMeans, found->second.means);
  if (!point.is_product || found->second.largest.empty()) return;
  add(kInputLargest, found->second.largest);
  node.args.push_back(attr_arg(kSmoothAlpha, static_cast<double>(calibration.alpha.value())));
}

/// Marks the readers of tensors that a calibration wants in int8, which have their scales.
void require_int8(Graph& graph, const std::vector<CalibrationPoint>& points,
                  const std::set<std::string>& required) {
  std::set<std::string> left = required;
  for (const CalibrationPoint& point : points) {
    if (!required.contains(point.name)) continue;
    Node& node = graph.nodes[point.node];
    if (node.input_scale == 0) {
      throw Error(ErrorKind::kUser,
                  "[calibration] '" + point.name + "' is required in int8, and has no scale");
    }
    node.args.push_back(attr_arg(kInt8Required, true));
    left.erase(point.name);
  }
  if (!left.empty()) {
    throw Error(ErrorKind::kUser, "[calibration] '" + *left.begin() +
                                      "' is required in int8: no product or convolution with "
                                      "constant weights that is not excluded reads it");
  }
}

}  // namespace

std::vector<CalibrationPoint> calibration_points(const Graph& graph, const Settings& settings) {
  const QuantisableNodes quantisable(graph);
  const ExcludedNodes excluded(settings);
  const Makers makers(graph);
  std::map<std::string, int> count;
  std::vector<CalibrationPoint> points;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto operands = quantisable.of(node);
    if (!operands) continue;
    CalibrationPoint point{.node = n, .value = operands->input};
    point.is_product = !is_convolution(node);
    if (graph.names_of_file) {
      point.value = of_file(graph, makers, node, operands->input);
      point.name = graph.value(point.value).name;
    } else {
      Making weight(graph, makers, operands->weight);
      point.name = weight.name();
      if (point.name.empty()) point.name = name_of_module(node.module_path);
      const int number = count[point.name]++;
      if (number > 0) point.name += "." + std::to_string(number);
      point.leaves = std::move(weight.leaves);
      point.making = std::move(weight.text);
    }
    point.channel_dim = channel_dim_of(graph, makers, node, operands->input, point.value);
    // Not before it has its number: what is excluded does not rename others.
    if (!excluded.contains(node)) points.push_back(std::move(point));
  }
  return points;
}

CalibrationUse calibrate(Graph& graph, const Settings& settings, const DeviceProfile& device) {
  CalibrationUse use;
  if (graph.calibrated) return use;
  graph.calibrated = true;
  const bool permitted = permits_int8(settings), given = !settings.calibration.empty();
  if (permitted && !given && !is_quantised(graph)) {
    throw Error(ErrorKind::kUser,
                "setting enabled_precisions: int8 needs a calibration, which tv.calibrate makes; "
                "models that are quantised themselves (tv.quantize, PT2E, QDQ files) need neither");
  }
  if (given) check_together(settings);
  if (!given) return use;
  const Calibration calibration = read_calibration(settings.calibration, "the calibration");
  const std::vector<CalibrationPoint> points = calibration_points(graph, settings);
  use.points = points.size();
  use.products = static_cast<size_t>(std::ranges::count_if(
      graph.nodes, [](const Node& node) { return convolves(node) || is_product(node); }));
  if (!device.storage8) {
    use.refusal = "int8 needs a device with 8-bit storage; " + device.name + " has none";
    if (!calibration.required.empty()) {
      throw Error(ErrorKind::kUnsupported, "[calibration] '" + *calibration.required.begin() +
                                               "' is required in int8: " + use.refusal);
    }
    return use;
  }
  const std::map<std::string, float> scales(calibration.scales.begin(), calibration.scales.end());
  std::set<std::string> names, missing;
  for (const CalibrationPoint& point : points) {
    names.insert(point.name);
    const auto found = scales.find(point.name);
    if (found == scales.end() || found->second == 0) {
      missing.insert(point.name);
      continue;
    }
    graph.nodes[point.node].input_scale = found->second;
    add_channels(graph, point, calibration);
    ++use.scaled;
  }
  require_int8(graph, points, calibration.required);
  use.missing.assign(missing.begin(), missing.end());
  for (const auto& [name, scale] : scales) {
    if (!names.contains(name)) use.unused.push_back(name);
  }
  if (use.scaled == 0 && !points.empty()) {
    throw Error(ErrorKind::kUser, "[calibration] no scale of it is of this model: the model has " +
                                      some(use.missing) + ", the calibration " +
                                      (use.unused.empty() ? "nothing else" : some(use.unused)) +
                                      "; calibrate this model");
  }
  return use;
}

std::map<std::string, ObservedChannels> observed_channels(const Graph& graph,
                                                          const Settings& settings) {
  std::map<std::string, ObservedChannels> channels;
  for (const CalibrationPoint& point : calibration_points(graph, settings)) {
    const auto [found, fresh] = channels.try_emplace(point.name);
    ObservedChannels& known = found->second;
    known.dim = fresh || known.dim == point.channel_dim ? point.channel_dim : -1;
    known.is_product = known.is_product || point.is_product;
  }
  return channels;
}

Graph observed(Graph graph, const Settings& settings) {
  std::set<std::string> seen;
  graph.outputs.clear();
  for (const CalibrationPoint& point : calibration_points(graph, settings)) {
    const bool is_input = graph.value(point.value).kind == ValueKind::kInput;
    if (!is_input && seen.insert(point.name).second) {
      graph.outputs.push_back({.value = point.value, .name = point.name, .strides = {}});
    }
  }
  return graph;
}

}  // namespace tv
