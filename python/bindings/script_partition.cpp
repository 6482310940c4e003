#include "python/bindings/script_partition.h"

#include <algorithm>
#include <map>

#include "csrc/converter.h"
#include "csrc/partition/unsupported.h"
#include "python/bindings/script_nodes.h"

namespace tv::script {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;
using Nodes = std::unordered_set<const Node*>;

bool is_native(const tv::Node& node) { return node.op.starts_with("native::"); }

// Tensors that are read where the region ends, so that what partition() says of outputs holds.
std::vector<Value*> outputs_of(const Region& region, const Knowledge& knowledge) {
  const Nodes inside(region.nodes.begin(), region.nodes.end());
  std::vector<Value*> outputs;
  for (Node* node : region.nodes) {
    if (knowledge.hosts.contains(node)) continue;
    for (Value* value : node->outputs()) {
      const Fact* fact = knowledge.recording.fact(value);
      if (!fact || !fact->is_tensor || fact->tensors.empty()) continue;
      const bool leaves =
          std::any_of(value->uses().begin(), value->uses().end(),
                      [&inside](const auto& use) { return !inside.contains(use.user); });
      if (leaves) outputs.push_back(value);
    }
  }
  return outputs;
}

// Nodes of which a call is not supported: they stay native as a whole.
bool add_unsupported(const Imported& imported, const Settings& settings,
                     const DeviceProfile& device, Nodes& native,
                     std::unordered_map<const Node*, std::string>& reasons) {
  bool found = false;
  for (size_t i = 0; i < imported.graph.nodes.size(); ++i) {
    const tv::Node& node = imported.graph.nodes[i];
    if (is_native(node) || native.contains(imported.nodes[i])) continue;
    const std::string why = unsupported(NodeContext{imported.graph, node, device, settings});
    if (why.empty()) continue;
    native.insert(imported.nodes[i]);
    reasons.emplace(imported.nodes[i], why);
    found = true;
  }
  return found;
}

using Blocks = std::map<const Node*, int32_t>;  ///< -1: none
using Reasons = std::map<const Node*, std::string>;

// The block of each node; one that is in two, or in one and PyTorch's,
// is impossible.
Blocks blocks_of(const RegionPartition& parts, Reasons& impossible) {
  Blocks block_of;
  std::vector<int32_t> of_node(parts.imported.nodes.size(), -1);
  for (size_t b = 0; b < parts.partition.blocks.size(); ++b) {
    for (const int32_t n : parts.partition.blocks[b]) of_node[n] = static_cast<int32_t>(b);
  }
  for (size_t n = 0; n < of_node.size(); ++n) {
    const Node* node = parts.imported.nodes[n];
    const auto [place, fresh] = block_of.emplace(node, of_node[n]);
    if (!fresh && place->second != of_node[n]) {
      impossible.emplace(node, "its operators would run in two engines");
    }
  }
  return block_of;
}

// Engines take tensors, and lists that are put together from tensors for them.
void refuse_lists(const Region& region, const Blocks& block_of, Reasons& impossible) {
  for (const Node* node : region.nodes) {
    const auto block = block_of.find(node);
    if (block == block_of.end() || block->second < 0) continue;
    for (const Value* input : node->inputs()) {
      const Node* from = input->node();
      if (input->type()->kind() != c10::TypeKind::ListType || !holds_tensors(input) ||
          from->kind() == c10::prim::ListConstruct) {
        continue;
      }
      const auto its = block_of.find(from);
      if (its == block_of.end() || its->second != block->second) {
        impossible.emplace(node, "it takes a list of tensors that is made outside of its engine");
      }
    }
  }
}

}  // namespace

std::vector<Region> regions(Block* block) {
  std::vector<Region> found;
  Region open{block, {}, nullptr};
  const auto close = [&](Node* at) {
    open.end = at;
    if (!open.nodes.empty()) found.push_back(std::move(open));
    open = {block, {}, nullptr};
  };
  for (Node* node : block->nodes()) {
    if (is_barrier(node)) {
      close(node);
      for (Block* inner : node->blocks()) {
        for (Region& region : regions(inner)) found.push_back(std::move(region));
      }
    } else {
      open.nodes.push_back(node);
    }
  }
  close(block->return_node());
  return found;
}

RegionPartition partition_region(const Region& region, const Knowledge& knowledge,
                                 const Settings& settings, const DeviceProfile& device) {
  const std::vector<Value*> outputs = outputs_of(region, knowledge);
  RegionPartition made;
  Nodes native;
  while (true) {
    made.imported =
        import_nodes(knowledge, region.nodes, native, outputs, /*ordered=*/true, *knowledge.sizes);
    if (add_unsupported(made.imported, settings, device, native, made.reasons)) continue;
    made.partition = partition(made.imported.graph, settings, device);
    Reasons impossible;
    const auto block_of = blocks_of(made, impossible);
    refuse_lists(region, block_of, impossible);
    if (!impossible.empty()) {
      for (const auto& [node, why] : impossible) {
        native.insert(node);
        made.reasons.emplace(node, why);
      }
      continue;
    }
    made.engines.resize(made.partition.blocks.size());
    for (Node* node : region.nodes) {
      const auto found = block_of.find(node);
      if (found != block_of.end() && found->second >= 0) {
        made.engines[found->second].push_back(node);
      }
    }
    return made;
  }
}

std::string native_reason(const RegionPartition& parts, const Knowledge& knowledge,
                          const NativeNode& native) {
  const Node* node = parts.imported.nodes.at(native.node);
  const auto found = parts.reasons.find(node);
  if (found != parts.reasons.end()) return found->second;
  const std::string why = refusal(knowledge, node);
  return why.empty() ? native.reason : why;
}

}  // namespace tv::script
