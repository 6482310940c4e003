#include "csrc/division/steps.h"

#include <algorithm>
#include <set>

#include "csrc/division/file_names.h"

namespace tv::onnx {
namespace {

template <typename T>
bool has(const std::vector<T>& items, const T& item) {
  return std::ranges::find(items, item) != items.end();
}

class Stepper {
 public:
  Stepper(const Division& division, const Model& model)
      : division_(division), nodes_(division.model.nodes), names_(names_of(nodes_, model)) {}

  std::vector<Step> run() {
    schedule();
    note_made();
    for (NativeStep* step : natives()) read(*step);
    const std::set<ValueId> wanted = wanted_values();
    for (NativeStep* step : natives()) add_outputs(*step, wanted);
    std::erase_if(steps_, [](const Step& step) {
      const auto* native = std::get_if<NativeStep>(&step);
      return native && native->outputs.empty();
    });
    return std::move(steps_);
  }

 private:
  /// Every node of the graph is of a node of the file.
  void schedule() {
    for (const PartitionStep& next : division_.plan.parts.schedule) {
      const auto index = static_cast<size_t>(next.index);
      if (next.is_block) {
        Block block = cut(division_.plan, index, {});
        steps_.emplace_back(EngineStep{.block = index,
                                       .inputs = std::move(block.inputs),
                                       .outputs = std::move(block.outputs)});
        continue;
      }
      if (steps_.empty() || !std::holds_alternative<NativeStep>(steps_.back())) {
        steps_.emplace_back(NativeStep{});
      }
      const int32_t node = division_.plan.graph.nodes[index].origin.index;
      std::get<NativeStep>(steps_.back()).nodes.push_back(node);
    }
  }

  std::vector<NativeStep*> natives() {
    std::vector<NativeStep*> found;
    for (Step& step : steps_) {
      if (auto* native = std::get_if<NativeStep>(&step)) found.push_back(native);
    }
    return found;
  }

  const FileNode& node(int32_t n) const { return nodes_.at(static_cast<size_t>(n)); }

  Named named(const std::string& name) const {
    const auto found = division_.model.names.find(name);
    return found == division_.model.names.end() ? Named{} : found->second;
  }

  void note_made() {
    for (const NativeStep* step : natives()) {
      for (const int32_t n : step->nodes) {
        for (const std::string& name : node(n).writes) made_.insert(named(name).id);
      }
    }
    for (const Binding& input : division_.model.inputs) made_.insert(named(input.name).id);
    made_.erase(kNoValue);
    for (const Step& step : steps_) {
      if (const auto* engine = std::get_if<EngineStep>(&step)) {
        made_.insert(engine->outputs.begin(), engine->outputs.end());
      }
    }
  }

  void read(NativeStep& step) const {
    std::set<int32_t> inside(step.nodes.begin(), step.nodes.end());
    std::set<ValueId> own;
    for (const int32_t n : step.nodes) {
      for (const std::string& name : node(n).writes) own.insert(named(name).id);
    }
    for (std::vector<int32_t> rest = step.nodes; !rest.empty();) {
      const FileNode& reader = node(rest.back());
      rest.pop_back();
      for (const std::string& name : reader.reads) {
        const auto maker = names_.maker.find(name);
        const bool is_made = maker != names_.maker.end();
        if (is_made && inside.contains(maker->second)) continue;
        if (names_.initializers.contains(name)) continue;
        const Named as = named(name);
        // Its own by another name: a node hands it on.
        if (made_.contains(as.id) && !own.contains(as.id)) {
          if (!has(step.by_value, {name, as.id})) step.by_value.emplace_back(name, as.id);
        } else if (as.host) {
          if (!has(step.by_size, name)) step.by_size.push_back(name);
        } else if (is_made) {  // a tensor of the file that a node hands on
          inside.insert(maker->second);
          rest.push_back(maker->second);
        }
      }
    }
    step.nodes.assign(inside.begin(), inside.end());
  }

  std::set<ValueId> wanted_values() const {
    std::set<ValueId> wanted;
    for (const Step& step : steps_) {
      if (const auto* engine = std::get_if<EngineStep>(&step)) {
        wanted.insert(engine->inputs.begin(), engine->inputs.end());
      } else {
        for (const auto& [name, value] : std::get<NativeStep>(step).by_value) wanted.insert(value);
      }
    }
    for (const std::string& name : names_.outputs) wanted.insert(named(name).id);
    return wanted;
  }

  void add_outputs(NativeStep& step, const std::set<ValueId>& wanted) const {
    for (const int32_t n : step.nodes) {
      for (const std::string& name : node(n).writes) {
        const ValueId value = named(name).id;
        if (name.empty() || value == kNoValue) continue;  // of a node that others run, too
        const Shape& shape = division_.model.graph.value(value).shape;
        const bool sized = !std::ranges::all_of(
            shape, [](const Expr& size) { return size.constant().has_value(); });
        if ((wanted.contains(value) || sized) && !has(step.outputs, name)) {
          step.outputs.push_back(name);
        }
      }
    }
  }

  const Division& division_;
  const std::vector<FileNode>& nodes_;
  const FileNames names_;
  std::vector<Step> steps_;
  std::set<ValueId> made_;  ///< before, or by what is scheduled
};

}  // namespace

std::vector<Step> steps_of(const Division& division, const Model& model) {
  return Stepper(division, model).run();
}

}  // namespace tv::onnx
