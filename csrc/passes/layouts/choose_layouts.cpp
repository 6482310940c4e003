#include "csrc/passes/layouts/choose_layouts.h"

#include <algorithm>
#include <set>

#include "csrc/converter.h"
#include "csrc/graph/strided.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

class LayoutChooser {
 public:
  LayoutChooser(Graph graph, const Settings& settings, const DeviceProfile& device)
      : graph_(std::move(graph)), settings_(settings), device_(device) {}

  Graph run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      const Converter* converter = Registry::instance().find(node.op);
      if (converter && converter->view && make_views(node, *converter)) continue;
      if (!reads_every_view(node, converter)) make_readable(node, *converter);
      nodes_.push_back(std::move(node));
    }
    for (GraphOutput& output : graph_.outputs) {
      if (output.over == kNoValue) settle(output);  // write_in_place finds the others' places
    }
    graph_.nodes = std::move(nodes_);
    return std::move(graph_);
  }

 private:
  static bool reads_every_view(const Node& node, const Converter* converter) {
    return !converter || node.op == "tv::pointwise" || node.op == "tv::copy";
  }

  /// Expresses every output of a view operator as a view; false if that cannot be done.
  bool make_views(Node& node, const Converter& converter) {
    Arg* input = nullptr;
    for (Arg& arg : node.args) {
      if (arg.is_tensor && !arg.values.empty() && arg.values[0] != kNoValue) {
        input = &arg;
        break;
      }
    }
    if (!input) return false;
    if (try_views(node, converter, input->values[0])) return true;
    const ValueId original = input->values[0];
    if (graph_.value(original).view) {
      input->values[0] = copy_of(original, node);
      if (try_views(node, converter, input->values[0])) return true;
    }
    if (converter.convert) return false;
    throw Error(ErrorKind::kInternal,
                "[" + node.op + "] cannot be expressed as a view even of a dense tensor");
  }

  bool try_views(const Node& node, const Converter& converter, ValueId input) {
    const View layout = layout_of(graph_, input);
    std::vector<std::optional<View>> views;
    const NodeContext context{graph_, node, device_, settings_};
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) {
        views.emplace_back();
        continue;
      }
      views.push_back(converter.view(context, layout, i));
      if (!views.back()) return false;
      views.back()->base = layout.base;
    }
    for (size_t i = 0; i < views.size(); ++i) {
      if (views[i]) graph_.value(node.outputs[i]).view = std::move(views[i]);
    }
    return true;
  }

  /// Copies the arguments that the converter reads as dense tensors only.
  void make_readable(Node& node, const Converter& converter) {
    const auto& names = converter.reads_views;
    for (Arg& arg : node.args) {
      if (!arg.is_tensor) continue;
      const bool any = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return name == "*" || name == arg.name;
      });
      if (any) continue;
      for (ValueId& id : arg.values) {
        if (id != kNoValue && !is_dense_value(id)) id = copy_of(id, node);
      }
    }
  }

  bool is_dense_value(ValueId id) const {
    const Value& value = graph_.value(id);
    return !value.view || is_dense(value.shape, value.view->strides);
  }

  /// A dense copy of `id`, made at most once; `reader` gives it its place in the model.
  ValueId copy_of(ValueId id, const Node& reader) {
    const Value& value = graph_.value(id);
    std::string key = layout_key(value.shape, layout_of(graph_, id));
    if (auto it = copies_.find(key); it != copies_.end()) return it->second;
    const ValueId copy = add_copy(id, reader.source, reader.module_path);
    copies_.emplace(std::move(key), copy);
    return copy;
  }

  static std::string layout_key(const Shape& shape, const View& view) {
    std::string key = std::to_string(view.base) + "@" + view.offset.str();
    for (size_t k = 0; k < shape.size(); ++k)
      key += ";" + shape[k].str() + ":" + view.strides[k].str();
    return key;
  }

  ValueId add_copy(ValueId id, const std::string& source, const std::string& module_path) {
    Node node;
    node.op = "tv::copy";
    node.name = graph_.value(id).name + "_copy" + std::to_string(copy_count_++);
    node.args = {tensor_arg("self", id)};
    node.source = source;
    node.module_path = module_path;
    const ValueId copy = graph_.add_output(node, graph_.value(id).dtype, graph_.value(id).shape);
    nodes_.push_back(std::move(node));
    return copy;
  }

  /// Gives an output a storage of its own, dense in the promised order of dimensions.
  void settle(GraphOutput& output) {
    const Shape shape = graph_.value(output.value).shape;
    std::vector<int64_t> order = promised_order(shape, output.strides);
    const Shape strides = strides_in_order(shape, order);
    // What was promised may say more: dimensions of size 1 have any stride.
    if (!same_strides(shape, strides, output.strides)) output.strides = strides;
    if (owns_storage(output.value, strides) &&
        taken_.insert(layout_of(graph_, output.value).base).second) {
      return;
    }
    // Copy the permuted view into row-major storage; the output is that storage, permuted back.
    const View layout = layout_of(graph_, output.value);
    Value permuted{graph_.value(output.value).name + "_permuted",
                   graph_.value(output.value).dtype,
                   {},
                   ValueKind::kNode,
                   View{layout.base, layout.offset, {}}};
    for (int64_t k : order) {
      permuted.shape.push_back(shape[static_cast<size_t>(k)]);
      permuted.view->strides.push_back(layout.strides[static_cast<size_t>(k)]);
    }
    const bool row_major = is_dense(shape, strides);
    const ValueId source = row_major ? output.value : graph_.add_value(std::move(permuted));
    const Node* producer = producer_of(layout.base);
    const ValueId copy =
        add_copy(source, producer ? producer->source : "", producer ? producer->module_path : "");
    taken_.insert(copy);
    if (row_major) {
      output.value = copy;
      return;
    }
    output.value = graph_.add_value({graph_.value(copy).name + "_output", graph_.value(copy).dtype,
                                     shape, ValueKind::kNode, View{copy, Expr(0), strides}});
  }

  static std::vector<int64_t> promised_order(const Shape& shape, const Shape& strides) {
    std::vector<int64_t> order;
    if (!strides.empty()) order = dense_order(shape, strides);
    if (order.size() != shape.size()) {
      order.resize(shape.size());
      for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int64_t>(k);
    }
    return order;
  }

  /// True where `id` is made by a node and fills the whole of its storage with these strides.
  bool owns_storage(ValueId id, const Shape& strides) const {
    const Value& value = graph_.value(id);
    if (value.kind != ValueKind::kNode) return false;
    const View layout = layout_of(graph_, id);
    const Value& base = graph_.value(layout.base);
    return base.kind == ValueKind::kNode && layout.offset == Expr(0) &&
           product(base.shape) == product(value.shape) &&
           same_strides(value.shape, layout.strides, strides);
  }

  const Node* producer_of(ValueId id) const {
    for (const Node& node : nodes_) {
      if (std::find(node.outputs.begin(), node.outputs.end(), id) != node.outputs.end())
        return &node;
    }
    return nullptr;
  }

  Graph graph_;
  const Settings& settings_;
  const DeviceProfile& device_;
  std::vector<Node> nodes_;
  std::map<std::string, ValueId> copies_;
  std::set<ValueId> taken_;  // storages that are a graph output already
  int64_t copy_count_ = 0;
};

}  // namespace

Graph choose_layouts(Graph graph, const Settings& settings, const DeviceProfile& device) {
  return LayoutChooser(std::move(graph), settings, device).run();
}

}  // namespace tv
