#include "integrations/onnxruntime/division.h"

#include <algorithm>
#include <numeric>

#include "csrc/frontends/onnx/tensor.h"
#include "runtime/base/error.h"

namespace tv::ort {
namespace {

constexpr int32_t kNone = -1;

/// Gathers the blocks' nodes, and the nodes that only compute sizes for one of them.
class Grouping {
 public:
  Grouping(Division& division, const onnx_proto::GraphProto& file)
      : division_(division), nodes_(division.model.nodes), group_of_(nodes_.size(), kNone) {
    for (const auto& output : file.output()) graph_outputs_.insert(output.name());
    for (const auto& tensor : file.initializer()) constants_.insert(tensor.name());
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (const std::string& name : nodes_[n].writes) {
        if (!name.empty()) made_by_[name] = static_cast<int32_t>(n);
      }
      for (const std::string& name : nodes_[n].reads) {
        read_by_[name].push_back(static_cast<int32_t>(n));
      }
    }
  }

  /// All nodes as one group. Throws Error where it could not be called.
  void gather_all() {
    std::fill(group_of_.begin(), group_of_.end(), 0);
    Group all = of_block(0);
    const auto [inputs, outputs] = border_of(0, all);
    wire(division_, all, inputs, outputs);
    division_.groups.push_back(std::move(all));
  }

  /// The same. False, and nothing has changed, where it could not be called.
  bool run_whole() {
    try {
      gather_all();
    } catch (const Error&) {
      std::fill(group_of_.begin(), group_of_.end(), kNone);
      return false;
    }
    return true;
  }

  void run() {
    move_parts();
    note_blocks();
    take_in_sizes();
    while (const auto smallest = one_of_a_cycle()) {
      dissolve(*smallest, "fused with its neighbours it would wait for itself");
    }
    check();
    for (size_t b = 0; b < division_.plan.parts.blocks.size(); ++b) {
      if (Group group = of_block(static_cast<int32_t>(b)); !group.nodes.empty()) {
        division_.groups.push_back(std::move(group));
      }
    }
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (group_of_[n] != kNone) continue;
      const std::string& refusal = nodes_[n].refusal;
      division_.reasons.emplace(
          static_cast<int32_t>(n),
          !refusal.empty() ? refusal : "it computes sizes, or hands on a value, for others");
    }
  }

 private:
  /// What a node computes beside its block, of what it reads and for nothing but itself - numbers,
  /// views - moves to the block of its last part: joined for that, blocks would wait for what lies
  /// between them.
  void move_parts() {
    const Graph& graph = division_.plan.graph;
    std::vector<int32_t> block_of(graph.nodes.size(), kNone);
    std::map<int32_t, std::vector<int32_t>> parts;
    for (size_t b = 0; b < division_.plan.parts.blocks.size(); ++b) {
      for (const int32_t n : division_.plan.parts.blocks[b]) {
        block_of[static_cast<size_t>(n)] = static_cast<int32_t>(b);
      }
    }
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const int32_t index = graph.nodes[n].origin.index;
      if (index >= 0 && block_of[n] != kNone) parts[index].push_back(static_cast<int32_t>(n));
    }
    const std::vector<int32_t> made_by = producers(graph);
    const std::vector<std::vector<int32_t>> read_by = consumers(graph);
    for (const auto& [index, nodes] : parts) {
      const int32_t last = block_of[static_cast<size_t>(nodes.back())];
      const std::set<ValueId> given = read_values(nodes_[static_cast<size_t>(index)]);
      std::set<int32_t> own;  // parts that follow from nothing but these and each other
      for (const int32_t n : nodes) {
        const std::vector<ValueId> reads = graph.nodes[static_cast<size_t>(n)].all_inputs();
        const bool follows = std::all_of(reads.begin(), reads.end(), [&](ValueId v) {
          return v == kNoValue || given.contains(v) || graph.value(v).kind == ValueKind::kWeight ||
                 own.contains(made_by[static_cast<size_t>(v)]);
        });
        if (follows) own.insert(n);
      }
      for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
        int32_t& block = block_of[static_cast<size_t>(*n)];
        if (block == last || !own.contains(*n)) continue;
        if (!is_read_in(*n, last, block_of, read_by)) continue;
        std::erase(division_.plan.parts.blocks[static_cast<size_t>(block)], *n);
        auto& into = division_.plan.parts.blocks[static_cast<size_t>(last)];
        into.insert(std::lower_bound(into.begin(), into.end(), *n), *n);
        block = last;
      }
    }
  }

  /// The values that a node of the file reads by their names.
  std::set<ValueId> read_values(const onnx::FileNode& node) const {
    std::set<ValueId> found;
    for (const std::string& name : node.reads) {
      const auto as = division_.model.names.find(name);
      if (as != division_.model.names.end()) found.insert(as->second.id);
    }
    return found;
  }

  /// Whether nodes of one block alone read what a node of the graph makes.
  bool is_read_in(int32_t node, int32_t block, const std::vector<int32_t>& block_of,
                  const std::vector<std::vector<int32_t>>& read_by) const {
    const Graph& graph = division_.plan.graph;
    for (const ValueId v : graph.nodes[static_cast<size_t>(node)].outputs) {
      if (v == kNoValue) continue;
      const bool is_result =
          std::any_of(graph.outputs.begin(), graph.outputs.end(),
                      [&](const GraphOutput& output) { return output.value == v; });
      if (is_result || std::ranges::any_of(read_by[static_cast<size_t>(v)], [&](int32_t reader) {
            return block_of[static_cast<size_t>(reader)] != block;
          })) {
        return false;
      }
    }
    return true;
  }

  /// A node that has parts in several blocks joins them.
  void note_blocks() {
    auto& blocks = division_.plan.parts.blocks;
    for (size_t b = 0; b < blocks.size(); ++b) {
      const std::vector<int32_t> nodes = blocks[b];
      for (const int32_t n : nodes) {
        const int32_t index = division_.plan.graph.nodes[static_cast<size_t>(n)].origin.index;
        if (index < 0) continue;
        const int32_t other = group_of_[static_cast<size_t>(index)];
        if (other != kNone && other != static_cast<int32_t>(b)) join(other, b);
        group_of_[static_cast<size_t>(index)] = static_cast<int32_t>(b);
      }
    }
  }

  void join(int32_t from, size_t into) {
    auto& blocks = division_.plan.parts.blocks;
    auto& all = blocks[into];
    auto& more = blocks[static_cast<size_t>(from)];
    all.insert(all.end(), more.begin(), more.end());
    more.clear();
    std::sort(all.begin(), all.end());
    std::replace(group_of_.begin(), group_of_.end(), from, static_cast<int32_t>(into));
  }

  /// Nodes that left nothing in the graph - arithmetic on sizes, constants - go with the group that
  /// alone reads them. Readers come later in the file.
  void take_in_sizes() {
    for (size_t n = nodes_.size(); n-- > 0;) {
      if (group_of_[n] != kNone || !nodes_[n].refusal.empty()) continue;
      std::set<int32_t> readers;
      for (const std::string& name : nodes_[n].writes) {
        if (graph_outputs_.contains(name)) readers.insert(kNone);
        for (const int32_t reader : readers_of(name)) {
          readers.insert(group_of_[static_cast<size_t>(reader)]);
        }
      }
      if (readers.size() == 1) group_of_[n] = *readers.begin();
    }
  }

  std::vector<int32_t> readers_of(const std::string& name) const {
    const auto found = read_by_.find(name);
    return found == read_by_.end() ? std::vector<int32_t>{} : found->second;
  }

  /// The smallest group that, as one node, would wait for itself. A plan has no cycles among its
  /// values; the file's nodes may wait for sizes that the plan knows before.
  std::optional<int32_t> one_of_a_cycle() const {
    const size_t blocks = division_.plan.parts.blocks.size();
    const auto unit = [&](size_t n) {
      return group_of_[n] == kNone ? blocks + n : static_cast<size_t>(group_of_[n]);
    };
    std::vector<std::set<size_t>> after(blocks + nodes_.size());
    std::vector<size_t> waits(after.size());
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (const std::string& name : nodes_[n].reads) {
        const auto maker = made_by_.find(name);
        if (maker == made_by_.end()) continue;
        const size_t from = unit(static_cast<size_t>(maker->second));
        if (from != unit(n) && after[from].insert(unit(n)).second) ++waits[unit(n)];
      }
    }
    std::vector<size_t> ready;
    for (size_t u = 0; u < waits.size(); ++u) {
      if (waits[u] == 0) ready.push_back(u);
    }
    while (!ready.empty()) {
      const size_t u = ready.back();
      ready.pop_back();
      for (const size_t next : after[u]) {
        if (--waits[next] == 0) ready.push_back(next);
      }
    }
    std::optional<int32_t> found;
    size_t fewest = 0;
    for (size_t b = 0; b < blocks; ++b) {
      const size_t count = division_.plan.parts.blocks[b].size();
      if (waits[b] == 0 || (found && count >= fewest)) continue;
      found = static_cast<int32_t>(b);
      fewest = count;
    }
    return found;
  }

  void dissolve(int32_t group, const std::string& reason) {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (group_of_[n] != group) continue;
      group_of_[n] = kNone;
      division_.reasons[static_cast<int32_t>(n)] = reason;
    }
    division_.plan.parts.blocks[static_cast<size_t>(group)].clear();
  }

  /// What the runtime would make of each group can be called.
  void check() {
    for (size_t b = 0; b < division_.plan.parts.blocks.size(); ++b) {
      const Group group = of_block(static_cast<int32_t>(b));
      if (group.nodes.empty()) continue;
      const auto [inputs, outputs] = border_of(static_cast<int32_t>(b), group);
      try {
        wire(division_, group, inputs, outputs);
      } catch (const Error& error) {
        dissolve(static_cast<int32_t>(b), error.what());
      }
    }
  }

  Group of_block(int32_t block) const {
    Group group{.block = static_cast<size_t>(block)};
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (group_of_[n] == block) group.nodes.push_back(static_cast<int32_t>(n));
    }
    return group;
  }

  /// Names that it reads and that others do.
  std::pair<std::vector<std::string>, std::vector<std::string>> border_of(
      int32_t block, const Group& group) const {
    std::vector<std::string> inputs, outputs;
    std::set<std::string> seen;
    for (const int32_t n : group.nodes) {
      for (const std::string& name : nodes_[static_cast<size_t>(n)].reads) {
        const auto maker = made_by_.find(name);
        const bool inside =
            maker != made_by_.end() && group_of_[static_cast<size_t>(maker->second)] == block;
        if (inside || constants_.contains(name) || !seen.insert(name).second) continue;
        inputs.push_back(name);
      }
      for (const std::string& name : nodes_[static_cast<size_t>(n)].writes) {
        const std::vector<int32_t> readers = readers_of(name);
        const bool outside = std::any_of(readers.begin(), readers.end(), [&](int32_t reader) {
          return group_of_[static_cast<size_t>(reader)] != block;
        });
        if (outside || graph_outputs_.contains(name)) outputs.push_back(name);
      }
    }
    return {inputs, outputs};
  }

  Division& division_;
  const std::vector<onnx::FileNode>& nodes_;
  std::vector<int32_t> group_of_;  ///< of each node its block
  std::set<std::string> graph_outputs_, constants_;
  std::map<std::string, int32_t> made_by_;
  std::map<std::string, std::vector<int32_t>> read_by_;
};

/// Whether all of the model is one engine, and large enough for one: then what moves data at its
/// borders is in it, too.
bool is_whole(Division& division, const onnx_proto::GraphProto& file, const Settings& settings,
              const DeviceProfile& device) {
  for (const onnx::FileNode& node : division.model.nodes) {
    if (!node.refusal.empty()) return false;
  }
  division.plan = plan(division.model.graph, settings, device, Rest::kNobody);
  const Partition& parts = division.plan.parts;
  const auto work = static_cast<double>(std::max<int64_t>(parts.compute_nodes, 1));
  if (parts.blocks.empty() || work < settings.min_block_size) return false;
  return Grouping(division, file).run_whole();
}

onnx::ImportOptions import_options(const DivisionRequest& request, bool sparse_weights) {
  const auto& file = request.model->proto.graph();
  onnx::ImportOptions import{.inputs = request.shapes,
                             .constants = request.constants,
                             .partial = true,
                             .broadcasts = true,
                             .widened = true,
                             .sparse_weights = sparse_weights,
                             .left_out = request.left_out};
  for (int n = 0; n < file.node_size(); ++n) {
    const std::string& op = file.node(n).op_type();
    if (request.excluded.contains(op)) {
      import.left_out.emplace(n, "op_types_to_exclude names " + op);
    }
  }
  return import;
}

}  // namespace

Division divide_by_value(const DivisionRequest& request, const Settings& settings,
                         const DeviceProfile& device) {
  onnx::ImportOptions import = import_options(request, settings.sparse_weights);
  for (const auto& [name, value] : request.constants) import.inputs.erase(name);
  Division made{.model = onnx::import_model(request.model, import), .by_value = true};
  for (const onnx::FileNode& node : made.model.nodes) {
    if (!node.refusal.empty()) {
      throw Error(ErrorKind::kUnsupported, node.label + ": " + node.refusal);
    }
  }
  made.plan = plan(made.model.graph, settings, device, Rest::kNobody);
  if (made.plan.parts.blocks.empty() && made.plan.parts.compute_nodes > 0) {
    std::string message = "it cannot be built:";
    for (const std::string& line : refusals(made.plan)) message += "\n  " + line;
    throw Error(ErrorKind::kUnsupported, message);
  }
  Grouping(made, request.model->proto.graph()).gather_all();
  return made;
}

Division divide(const DivisionRequest& request, const Settings& settings,
                const DeviceProfile& device) {
  const auto& file = request.model->proto.graph();
  onnx::ImportOptions import = import_options(request, settings.sparse_weights);
  Division made;
  for (;;) {  // a node is fused as a whole, or not
    made.model = onnx::import_model(request.model, import);
    if (is_whole(made, file, settings, device)) return made;
    made.plan = plan(made.model.graph, settings, device);
    const size_t before = import.left_out.size();
    for (const NativeNode& native : made.plan.parts.native) {
      const int32_t at = made.plan.graph.nodes[static_cast<size_t>(native.node)].origin.index;
      if (at >= 0 && made.model.nodes.at(static_cast<size_t>(at)).refusal.empty()) {
        import.left_out.emplace(at, native.reason);
      }
    }
    if (import.left_out.size() == before) break;
  }
  Grouping(made, file).run();
  return made;
}

}  // namespace tv::ort
