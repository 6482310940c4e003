#include "python/bindings/script/partition.h"

#include <algorithm>
#include <map>

#include "python/bindings/script/nodes.h"

namespace tv::script {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;
using Nodes = std::unordered_set<const Node*>;

// Tensors that are read where the region ends, so that what plan() says of outputs holds.
std::vector<Value*> outputs_of(const Region& region, const ImportContext& context) {
  const Nodes inside(region.nodes.begin(), region.nodes.end());
  std::vector<Value*> outputs;
  for (Node* node : region.nodes) {
    if (context.hosts.contains(node)) continue;
    for (Value* value : node->outputs()) {
      const ObservedValue* observed = context.recording.observed(value);
      if (!observed || !observed->is_tensor || observed->tensors.empty()) continue;
      const bool leaves =
          std::any_of(value->uses().begin(), value->uses().end(),
                      [&inside](const auto& use) { return !inside.contains(use.user); });
      if (leaves) outputs.push_back(value);
    }
  }
  return outputs;
}

// Nodes of which a call is not supported: they stay native as a whole.
bool add_unsupported(const RegionPartition& parts, Refusals& native) {
  bool found = false;
  for (const NativeNode& refused : parts.plan.parts.native) {
    const Origin& origin = parts.plan.graph.nodes[refused.node].origin;
    if (!refused.refused || !origin.refusal.empty()) continue;
    found |= native.emplace(parts.imported.nodes.at(origin.index), refused.reason).second;
  }
  return found;
}

using Blocks = std::map<const Node*, int32_t>;  ///< -1: none

// The block of each node; one that is in two, or in one and PyTorch's,
// is impossible.
Blocks blocks_of(const RegionPartition& parts, Refusals& impossible) {
  Blocks block_of;
  const std::vector<tv::Node>& nodes = parts.plan.graph.nodes;
  std::vector<int32_t> of_node(nodes.size(), -1);
  for (size_t b = 0; b < parts.plan.parts.blocks.size(); ++b) {
    for (const int32_t n : parts.plan.parts.blocks[b]) of_node[n] = static_cast<int32_t>(b);
  }
  for (size_t n = 0; n < of_node.size(); ++n) {
    const Node* node = parts.imported.nodes.at(nodes[n].origin.index);
    const auto [place, fresh] = block_of.emplace(node, of_node[n]);
    if (!fresh && place->second != of_node[n]) {
      impossible.emplace(node, "its operators would run in two engines");
    }
  }
  return block_of;
}

// Engines take tensors, and lists that are put together from tensors for them.
void refuse_lists(const Region& region, const Blocks& block_of, Refusals& impossible) {
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

RegionPartition partition_region(const Region& region, const ImportContext& context,
                                 const Settings& settings, const DeviceProfile& device) {
  const std::vector<Value*> outputs = outputs_of(region, context);
  RegionPartition made;
  Refusals native;
  while (true) {
    made.imported = import_nodes(context, region.nodes, native, outputs, *context.sizes);
    made.plan = plan(std::move(made.imported.graph), settings, device);
    if (add_unsupported(made, native)) continue;
    Refusals impossible;
    const auto block_of = blocks_of(made, impossible);
    refuse_lists(region, block_of, impossible);
    if (!impossible.empty()) {
      native.merge(impossible);
      continue;
    }
    made.engines.resize(made.plan.parts.blocks.size());
    for (Node* node : region.nodes) {
      const auto found = block_of.find(node);
      if (found != block_of.end() && found->second >= 0) {
        made.engines[found->second].push_back(node);
      }
    }
    return made;
  }
}

}  // namespace tv::script
