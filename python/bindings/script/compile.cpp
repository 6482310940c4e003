#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "csrc/converter.h"
#include "csrc/partition/dependencies.h"
#include "csrc/plan/plan.h"
#include "csrc/precision.h"
#include "python/bindings/script.h"
#include "python/bindings/script/block.h"
#include "python/bindings/script/check.h"
#include "python/bindings/script/nodes.h"
#include "python/bindings/script/partition.h"
#include "python/bindings/script/prepare.h"
#include "python/bindings/script/report.h"
#include "python/bindings/script/surgery.h"
#include "python/bindings/torch/border.h"
#include "python/bindings/torch/engine.h"
#include "runtime/base/error.h"
#include "runtime/spec/vke.h"
#include "runtime/vulkan/device.h"

namespace tv::script {
namespace {

using torch::jit::Node;
using torch::jit::Value;
using torch_bindings::TorchEngine;
namespace prim = c10::prim;

// Tensors of the graph that some node writes to.
void collect_written(const torch::jit::Block* block, const torch::jit::AliasDb& aliases,
                     std::unordered_set<const Value*>& written) {
  for (const Node* node : block->nodes()) {
    for (const Value* output : node->outputs()) {
      if (holds_tensors(output) && aliases.hasWriters(output)) written.insert(output);
    }
    for (const torch::jit::Block* inner : node->blocks()) collect_written(inner, aliases, written);
  }
}

int64_t compute_nodes(const RegionPartition& parts, const std::vector<int32_t>& block) {
  return std::count_if(block.begin(), block.end(),
                       [&parts](int32_t n) { return does_work(parts.plan.graph.nodes[n]); });
}

// Positions of the excisions, as they run.
std::vector<size_t> in_order(const std::vector<Excision>& excisions) {
  std::vector<size_t> order;
  for (size_t i = 0; i < excisions.size(); ++i) {
    if (!excisions[i].nodes.empty()) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&excisions](size_t a, size_t b) {
    return excisions[a].nodes.front()->isBefore(excisions[b].nodes.front());
  });
  return order;
}

// Puts back what running a module changes: its attributes, and the tensors that are written to.
class Unchanged {
 public:
  explicit Unchanged(const torch::jit::Module& module) {
    for (const torch::jit::Module& part : module.modules()) {
      slots_.emplace_back(part._ivalue(), part._ivalue()->slots());
    }
    for (const at::Tensor& buffer : module.buffers()) kept_.emplace_back(buffer, buffer.clone());
  }
  ~Unchanged() {
    const at::NoGradGuard no_gradients;
    for (auto& [object, slots] : slots_) {
      for (size_t i = 0; i < slots.size(); ++i) object->setSlot(i, slots[i]);
    }
    for (auto& [buffer, value] : kept_) {
      if (!buffer.equal(value)) buffer.copy_(value);
    }
  }
  Unchanged(const Unchanged&) = delete;
  Unchanged& operator=(const Unchanged&) = delete;

 private:
  std::vector<std::pair<c10::intrusive_ptr<c10::ivalue::Object>, std::vector<c10::IValue>>> slots_;
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

class Compilation {
 public:
  Compilation(Prepared prepared, const Options& options)
      : prepared_(std::move(prepared)),
        options_(options),
        settings_(Settings::from_json(options.settings)),
        context_{recording_, {}},
        profile_(options.dry_run_for.empty() ? profile(*open_device(options.device))
                                             : DeviceProfile::from_json(options.dry_run_for)) {}

  Result run(const std::vector<std::vector<c10::IValue>>& examples) {
    record_all(examples);
    Sizes sizes(context_.runs.fitted, is_ranged() ? options_.usual : 0);
    context_.sizes = &sizes;
    learn();
    if (is_ranged()) give_sizes_of_arguments(sizes);
    for (const Region& region : regions(prepared_.graph->block())) compile_region(region);
    note_barriers(prepared_.graph->block());
    torch::jit::EliminateDeadCode(prepared_.graph);
    prepared_.graph->lint();
    result_.module = prepared_.module;
    return std::move(result_);
  }

 private:
  bool is_dry() const { return !options_.dry_run_for.empty(); }

  bool is_ranged() const { return options_.fitted > 0; }

  // A node may depend on the size of a tensor that only later ones read.
  void give_sizes_of_arguments(Sizes& sizes) const {
    for (const Value* input : prepared_.graph->inputs()) {
      const ObservedValue* observed = recording_.observed(input);
      for (size_t i = 0; observed && i < observed->tensors.size(); ++i) {
        for (const Numbers& size : context_.runs.sizes(input, i)) sizes.given(size);
      }
    }
  }

  void record_all(const std::vector<std::vector<c10::IValue>>& examples) {
    recordings_ = {&recording_};
    if (is_ranged()) others_.resize(examples.size() - 1);
    for (Recording& other : others_) recordings_.push_back(&other);
    RecordOptions how;
    how.keeps_whole = [](const std::string& name) {
      return Registry::instance().find(name) != nullptr;
    };
    for (size_t i = 0; i < examples.size(); ++i) {
      const Unchanged unchanged(prepared_.module);
      std::vector<c10::IValue> inputs = examples[i];
      inputs.insert(inputs.begin(), prepared_.module._ivalue());
      try {
        record(prepared_.graph, std::move(inputs), how, *recordings_[is_ranged() ? i : 0]);
      } catch (const std::exception& error) {
        if (!is_ranged() || i == 0) throw;
        // A bound that does not run is none.
        if (i < options_.fitted) throw Error(ErrorKind::kUnsupported, error.what());
      }
    }
    context_.runs.all.assign(recordings_.begin(), recordings_.end());
    if (is_ranged()) context_.runs.fitted = options_.fitted;
  }

  void learn() {
    const torch::jit::AliasDb aliases(prepared_.graph);
    collect_written(prepared_.graph->block(), aliases, context_.written);
    for (const Weight& weight : prepared_.weights) {
      if (!context_.written.contains(weight.value)) {
        context_.weights[weight.value] = weight.path;
      }
    }
    context_.hosts = host_nodes(*prepared_.graph, recording_);
    context_.device = device_of(prepared_.graph->block());
  }

  // The first that is not the host, of what runs; of several GPUs one has engines.
  c10::Device device_of(const torch::jit::Block* block) const {
    const auto other = [this](at::ArrayRef<const Value*> values) {
      for (const Value* value : values) {
        const ObservedValue* observed = recording_.observed(value);
        if (!observed) continue;
        for (const ObservedTensor& tensor : observed->tensors) {
          if (!tensor.device.is_cpu()) return tensor.device;
        }
      }
      return c10::Device(c10::kCPU);
    };
    c10::Device found = other(block->inputs());
    for (const Node* node : block->nodes()) {
      if (found.is_cpu()) found = other(node->outputs());
      for (const torch::jit::Block* inner : node->blocks()) {
        if (found.is_cpu()) found = device_of(inner);
      }
    }
    return found;
  }

  void compile_region(const Region& region) {
    RegionPartition parts = partition_region(region, context_, settings_, profile_);
    result_.compute_nodes += parts.plan.parts.compute_nodes;
    for (const NativeNode& native : parts.plan.parts.native) {
      const tv::Node& node = parts.plan.graph.nodes.at(native.node);
      if (does_work(node)) note_native(parts.imported.nodes.at(node.origin.index), native.reason);
    }
    if (is_dry()) {
      result_.reports.push_back(region_report(region, parts));
      result_.covered_nodes += parts.plan.parts.covered_nodes;
      return;
    }
    std::vector<Excision> excisions = excise(region, parts.engines, context_);
    for (const Excision& excision : excisions) {
      if (!excision.refusal.empty())
        result_.failures.push_back(
            "an engine was not built and its "
            "nodes run natively: " +
            excision.refusal);
    }
    gather(region, excisions);
    for (const size_t i : in_order(excisions)) {
      build(parts, excisions, i);
    }
    remove_unread(region, context_, recordings_);
  }

  void note_native(const Node* node, std::string reason) {
    if (node->kind() == prim::ListConstruct || node->kind() == prim::ListUnpack) return;
    result_.native.push_back(
        {op_of(node), std::move(reason), source_of(node), module_path_of(node)});
  }

  // What stands between regions and computes.
  void note_barriers(const torch::jit::Block* block) {
    for (const Node* node : block->nodes()) {
      const bool is_operator = node->kind().is_aten() && is_barrier(node);
      if (is_operator && node->blocks().empty()) {
        ++result_.compute_nodes;
        note_native(node, refusal(context_, node));
      }
      for (const torch::jit::Block* inner : node->blocks()) note_barriers(inner);
    }
  }

  void build(RegionPartition& parts, std::vector<Excision>& excisions, size_t block) {
    const Excision& excision = excisions[block];
    const int64_t compute_nodes = script::compute_nodes(parts, parts.plan.parts.blocks[block]);
    const std::string name = "vulkan_engine_" + std::to_string(result_.engines.size());
    const auto start = std::chrono::steady_clock::now();
    try {
      Sizes sizes = sizes_of(excision);
      EngineGraph made = engine_graph(parts, block, excision, context_, sizes);
      made.graph.name = name;
      EngineCall call = call_of(excision, made);
      if (is_ranged()) {
        call.method = name + "_sizes";
        call.rule = add_check(excision, call, context_, sizes, prepared_.module);
        add_carriers(excision, sizes, made.graph);
      }
      call.engine = add_engine(name, made.graph);
      const std::vector<Value*> chosen = replace(excision, call, recordings_);
      for (size_t i = 0; i < chosen.size(); ++i) {
        use_instead(excision.outputs[i], chosen[i], parts, excisions);
      }
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      result_.engines.push_back({name, compute_nodes, taken.count()});
      result_.covered_nodes += compute_nodes;
    } catch (const Error& error) {
      if (options_.pass_through_build_failures || error.kind() == ErrorKind::kDevice) throw;
      keep(excision);
      result_.failures.push_back(name + " was not built and runs natively: " + error.what());
    }
  }

  // For engines that read the results of one that was built.
  static void use_instead(Value* old, Value* chosen, RegionPartition& parts,
                          std::vector<Excision>& excisions) {
    parts.imported.values[chosen] = parts.imported.values.at(old);
    for (Excision& excision : excisions) std::ranges::replace(excision.inputs, old, chosen);
  }

  // Over the sizes of what an engine is given, the smallest first: others are made of them.
  Sizes sizes_of(const Excision& excision) const {
    std::vector<Numbers> given;
    for (const Value* input : excision.inputs) {
      if (!recording_.observed(input) || recording_.observed(input)->tensors.size() != 1) continue;
      for (const Numbers& size : context_.runs.sizes(input, 0)) given.push_back(size);
    }
    for (const Value* value : excision.carried) given.push_back(carried(value));
    std::sort(given.begin(), given.end());
    Sizes sizes(context_.runs.fitted, is_ranged() ? options_.usual : 0);
    for (const Numbers& size : given) sizes.given(size);
    return sizes;
  }

  Numbers carried(const Value* value) const {
    Numbers numbers;
    for (const c10::IValue& each : context_.runs.plain(value)) numbers.push_back(each.toInt());
    return numbers;
  }

  void add_carriers(const Excision& excision, Sizes& sizes, tv::Graph& graph) const {
    for (const Value* number : excision.carried) {
      tv::Value value;
      value.name = "number_" + std::to_string(graph.inputs.size());
      value.kind = ValueKind::kInput;
      value.dtype = DType::kU8;
      value.shape = {sizes.given(carried(number)) + Expr(kCarriedBias), 0};
      graph.inputs.push_back(graph.add_value(std::move(value)));
    }
  }

  EngineCall call_of(const Excision& excision, const EngineGraph& made) const {
    EngineCall call;
    call.inputs = made.inputs;
    call.weights = made.weights;
    call.aliases = made.aliases;
    call.outputs = made.outputs;
    call.casts.resize(made.graph.outputs.size());
    if (!says_device(call)) {
      if (context_.device != c10::kCPU) call.results_on = context_.device;
    } else if (excision.names_device) {
      call.only_on = context_.device;
    }
    for (size_t i = 0; settings_.truncate_long_and_double && i < call.outputs.size(); ++i) {
      const ObservedValue& observed = *recording_.observed(excision.outputs[i]);
      for (size_t k = 0; k < call.outputs[i].size(); ++k) {
        const at::ScalarType dtype = observed.tensors.at(k).dtype;
        const DType held = torch_bindings::from_torch(dtype);
        if (truncated(held) != held) call.casts[call.outputs[i][k]] = dtype;
      }
    }
    return call;
  }

  // Whether an argument of the call is on the engines' device.
  bool says_device(const EngineCall& call) const {
    const auto is_there = [this](const Value* value) {
      if (const auto constant = torch::jit::toIValue(value); constant && constant->isTensor()) {
        return constant->toTensor().device() == context_.device;
      }
      const ObservedValue* observed = recording_.observed(value);
      return observed && !observed->tensors.empty() &&
             observed->tensors.front().device == context_.device;
    };
    return std::any_of(call.inputs.begin(), call.inputs.end(), is_there) ||
           std::any_of(call.weights.begin(), call.weights.end(), is_there);
  }

  // The engine as an attribute of the module; gives the value that reads it.
  Value* add_engine(const std::string& name, tv::Graph& graph) {
    const Plan whole = plan(graph, settings_, profile_, Rest::kNobody);
    if (whole.parts.blocks.empty()) {
      throw Error(ErrorKind::kUnsupported, "[torchscript] " + refusals(whole).front());
    }
    const std::vector<uint8_t> vke =
        to_vke(tv::build(whole, 0, {.cache = CacheSettings::from_json(options_.cache)}));
    at::Tensor file = at::empty({static_cast<int64_t>(vke.size())}, at::kByte);
    std::memcpy(file.mutable_data_ptr(), vke.data(), vke.size());
    auto engine = c10::make_intrusive<TorchEngine>(
        file, options_.device, options_.immutable_weights, settings_.truncate_long_and_double);
    engine->set_weight_budget(settings_.weight_budget);
    engine->open();
    const auto type = c10::getCustomClassType<c10::intrusive_ptr<TorchEngine>>();
    prepared_.module.register_attribute(name, type, c10::IValue(std::move(engine)));
    const torch::jit::WithInsertPoint at(*prepared_.graph->nodes().begin());
    return prepared_.graph->insertGetAttr(prepared_.graph->inputs().at(0), name);
  }

  Prepared prepared_;
  const Options& options_;
  const Settings settings_;
  Recording recording_;
  std::vector<Recording> others_;       ///< at other sizes
  std::vector<Recording*> recordings_;  ///< all of them
  ImportContext context_;
  const DeviceProfile profile_;
  Result result_;
};

}  // namespace

Result compile(const torch::jit::Module& module,
               const std::vector<std::vector<c10::IValue>>& examples, const Options& options) {
  return Compilation(prepare(module), options).run(examples);
}

}  // namespace tv::script
