#include "csrc/partition/partition.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "csrc/partition/dependencies.h"
#include "csrc/partition/merge.h"
#include "csrc/partition/symbols.h"
#include "csrc/partition/unsupported.h"
#include "csrc/partition/what_if.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

constexpr int64_t kSmallNumel = 16;  // integer tensors up to this are shape arithmetic
// Between kernels of CUDA's an engine costs two switches of the GPU's context, about 300 µs;
// PyTorch runs a node in about 7.
constexpr int64_t kSwitchNodes = 40;

class Partitioner {
 public:
  Partitioner(Graph graph, const Settings& settings, const DeviceProfile& device,
              const std::set<std::string>& assumed)
      : graph_(std::move(graph)),
        settings_(settings),
        device_(device),
        assumed_(assumed),
        dag_(execution_order(graph_)),
        roles_(graph_.nodes.size()),
        reasons_(graph_.nodes.size()),
        readers_(waiting_nodes(graph_)),
        is_output_(graph_.values.size(), false) {
    for (const GraphOutput& out : graph_.outputs) is_output_[out.value] = true;
  }

  Partition run() {
    assign_roles();
    keep_aliases_native();
    std::vector<std::vector<int32_t>> blocks = merge_bound_blocks();
    Partition result;
    for (const auto& block : blocks) result.candidate_sizes.push_back(compute_nodes(block));
    choose_by_size(blocks, result);
    finish(result);
    return result;
  }

 private:
  const Node& node(int32_t n) const { return graph_.nodes[n]; }

  void assign_roles() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      does_work_.push_back(does_work(graph_.nodes[n]));
      const Node& at = graph_.nodes[n];
      if (!assumed_.contains(at.op) && !assumed_.contains(at.origin.op)) {
        reasons_[n] = unsupported({graph_, at, device_, settings_});
      }
      refused_.push_back(!reasons_[n].empty());
      roles_[n] = !reasons_[n].empty() ? Role::kNative
                  : does_work_[n]      ? Role::kCompute
                                       : Role::kFree;
    }
  }

  void make_native(int32_t n, const std::string& reason) {
    roles_[n] = Role::kNative;
    if (reasons_[n].empty()) reasons_[n] = reason;
  }

  /// A view of a graph input that is returned must share the input's memory, and so must the views
  /// between them.
  void keep_aliases_native() {
    const std::vector<int32_t> made_by = producers(graph_);
    for (int32_t n = static_cast<int32_t>(graph_.nodes.size()) - 1; n >= 0; --n) {
      if (!is_view(node(n)) || !returns(n)) continue;
      std::vector<int32_t> chain = {n};
      while (true) {
        const std::vector<ValueId> read = node(chain.back()).all_inputs();
        const int32_t maker = read.empty() ? -1 : made_by[read.front()];
        if (maker < 0 || !is_view(node(maker))) {
          if (read.empty() || maker >= 0) chain.clear();
          break;
        }
        chain.push_back(maker);
      }
      for (const int32_t c : chain) {
        make_native(c, "a view of a graph input that is returned shares the input's memory");
      }
    }
  }

  bool returns(int32_t n) const {
    return std::any_of(node(n).outputs.begin(), node(n).outputs.end(),
                       [&](ValueId v) { return v != kNoValue && is_output_[v]; });
  }

  /// Blocks whose symbols their inputs determine; a node in the way of that becomes native.
  std::vector<std::vector<int32_t>> merge_bound_blocks() {
    while (true) {
      std::vector<std::vector<int32_t>> blocks = merge_blocks(dag_, roles_, 1);
      std::vector<int32_t> block_of(graph_.nodes.size(), -1);
      for (size_t b = 0; b < blocks.size(); ++b) {
        for (const int32_t n : blocks[b]) block_of[n] = static_cast<int32_t>(b);
      }
      for (auto& block : blocks) trim(block, block_of);
      adopt(blocks, block_of);
      keep_numbers_with_readers(blocks, block_of);
      bool changed = false;
      for (auto& block : blocks) changed |= drop_unbound(block);
      if (!changed) {
        std::erase_if(blocks, [&](const auto& b) { return compute_nodes(b) == 0; });
        std::stable_sort(blocks.begin(), blocks.end(), [&](const auto& a, const auto& b) {
          return compute_nodes(a) > compute_nodes(b);
        });
        return blocks;
      }
    }
  }

  /// True if nodes of the block became native because nothing determines a symbol of theirs.
  bool drop_unbound(const std::vector<int32_t>& block) {
    std::set<int32_t> unbound = used_symbols(graph_, block);
    if (unbound.empty()) return false;
    for (const ValueId v : outside_inputs(block)) drop_bound(unbound, graph_.value(v));
    inputs_that_bind(graph_, unbound);
    if (unbound.empty()) return false;
    for (const int32_t n : block) {
      for (const int32_t s : used_symbols(graph_, {n})) {
        if (!unbound.contains(s)) continue;
        make_native(n, "the size " + graph_.symbols.at(s).name +
                           " is not determined by the shape of any input");
        break;
      }
    }
    return true;
  }

  std::vector<ValueId> outside_inputs(const std::vector<int32_t>& block) const {
    std::set<ValueId> made, read;
    for (const int32_t n : block) {
      for (const ValueId v : node(n).waits_for()) read.insert(v);
      made.insert(node(n).outputs.begin(), node(n).outputs.end());
    }
    std::vector<ValueId> out;
    for (const ValueId v : read) {
      if (!made.contains(v) && graph_.value(v).kind != ValueKind::kWeight) out.push_back(v);
    }
    return out;
  }

  /// Takes from the end of a block what PyTorch can as well do: views that nothing in the block
  /// reads, and integer arithmetic on shapes that no block reads.
  void trim(std::vector<int32_t>& block, std::vector<int32_t>& block_of) {
    for (auto it = block.rbegin(); it != block.rend(); ++it) {
      const int32_t n = *it;
      if (returns(n) || is_part(n, block)) continue;
      if (roles_[n] == Role::kFree) {
        if (read_by(n, [&](int32_t r) { return block_of[r] == block_of[n]; })) continue;
        trimmed_[n] = "a view that nothing in its engine reads";
      } else {
        if (!is_small_integer(n) || read_by(n, [&](int32_t r) { return block_of[r] >= 0; }))
          continue;
        trimmed_[n] = "small integer arithmetic that only native nodes read";
      }
      block_of[n] = -1;
    }
    std::erase_if(block, [&](int32_t n) { return block_of[n] < 0; });
  }

  /// Whether more of what the frontend cannot divide is in the block.
  bool is_part(int32_t n, const std::vector<int32_t>& block) const {
    const Origin& origin = node(n).origin;
    return origin.whole && std::ranges::any_of(block, [&](int32_t m) {
             return m != n && node(m).origin.index == origin.index;
           });
  }

  /// Gives a view that no block has to the one block that reads it, and that nothing else waits
  /// for: a weight's transpose belongs where the weight is used.
  void adopt(std::vector<std::vector<int32_t>>& blocks, std::vector<int32_t>& block_of) {
    for (int32_t n = static_cast<int32_t>(graph_.nodes.size()) - 1; n >= 0; --n) {
      if (roles_[n] != Role::kFree || block_of[n] >= 0 || returns(n)) continue;
      const std::vector<int32_t>& after = dag_.succs[n];
      const int32_t reader = after.empty() ? -1 : block_of[after.front()];
      if (reader < 0 ||
          !std::ranges::all_of(after, [&](int32_t m) { return block_of[m] == reader; })) {
        continue;
      }
      block_of[n] = reader;
      std::vector<int32_t>& block = blocks[reader];
      block.insert(std::ranges::lower_bound(block, n), n);
    }
  }

  /// A number that a frontend made a tensor for one node is no node of its own there: no block can
  /// be given it.
  void keep_numbers_with_readers(std::vector<std::vector<int32_t>>& blocks,
                                 std::vector<int32_t>& block_of) const {
    for (int32_t n = 0; n < static_cast<int32_t>(graph_.nodes.size()); ++n) {
      const std::vector<int32_t>& after = dag_.succs[n];
      if (!is_number_of_frontend(node(n)) || after.size() != 1) continue;
      const int32_t from = block_of[n], to = block_of[after.front()];
      if (from == to || returns(n)) continue;
      if (from >= 0) std::erase(blocks[from], n);
      if (to >= 0) blocks[to].insert(std::ranges::lower_bound(blocks[to], n), n);
      block_of[n] = to;
    }
  }

  bool is_number_of_frontend(const Node& n) const {
    if (n.origin.index >= 0 || !n.waits_for().empty() || n.outputs.size() != 1) return false;
    const size_t rank = n.op.starts_with("complex::") ? 1 : 0;  // a pair
    return n.outputs[0] != kNoValue && graph_.value(n.outputs[0]).shape.size() == rank;
  }

  template <typename Test>
  bool read_by(int32_t n, Test test) const {
    for (const ValueId v : node(n).outputs) {
      if (v != kNoValue && std::any_of(readers_[v].begin(), readers_[v].end(), test)) return true;
    }
    return false;
  }

  bool is_small_integer(int32_t n) const {
    bool has_reader = false;
    for (const ValueId v : node(n).outputs) {
      if (v == kNoValue) continue;
      const Value& value = graph_.value(v);
      if (!is_integer(value.dtype) && value.dtype != DType::kBool) return false;
      if (product(value.shape).constant().value_or(kUnbounded) > kSmallNumel) return false;
      has_reader |= !readers_[v].empty();
    }
    return has_reader;
  }

  int64_t compute_nodes(const std::vector<int32_t>& nodes) const {
    return std::count_if(nodes.begin(), nodes.end(), [&](int32_t n) { return does_work_[n]; });
  }

  void choose_by_size(std::vector<std::vector<int32_t>>& blocks, Partition& result) {
    const double least = least_block_size(settings_);
    const bool nothing = std::isinf(least);
    // A size that the user chose stands for itself.
    const bool pays_switches = settings_.on_cuda && !settings_.require_full_compilation &&
                               settings_.min_block_size == Settings().min_block_size;
    int64_t left = 0;  // what remains for the GPU to do between engines
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const bool on_host = roles_[n] == Role::kNative && graph_.nodes[n].origin.on_host;
      left += does_work_[n] && !on_host;
    }
    for (const auto& block : blocks) {
      const int64_t size = compute_nodes(block);
      if (static_cast<double>(size) >= least) left -= size;
    }
    for (auto& block : blocks) {
      const int64_t size = compute_nodes(block);
      const bool worth_switching = left == 0 || !pays_switches || size >= kSwitchNodes;
      if (!nothing && static_cast<double>(size) >= least && worth_switching) {
        result.blocks.push_back(std::move(block));
        continue;
      }
      const std::string reason =
          nothing ? "min_block_size is infinite: no engine is built"
          : static_cast<double>(size) < least
              ? "its block has " + nodes(size) + ", fewer than min_block_size = " + whole(least)
              : "its block has " + nodes(size) +
                    "; the GPU's switch from CUDA to Vulkan and back takes as long "
                    "as " +
                    std::to_string(kSwitchNodes);
      for (const int32_t n : block) make_native(n, reason);
    }
  }

  static std::string nodes(int64_t count) {
    return std::to_string(count) + (count == 1 ? " compute node" : " compute nodes");
  }

  static std::string whole(double count) {
    return std::to_string(static_cast<int64_t>(std::ceil(count)));
  }

  void finish(Partition& result) {
    std::vector<int32_t> vertex_of(graph_.nodes.size());
    std::map<int32_t, int32_t> block_of_vertex;
    for (size_t n = 0; n < vertex_of.size(); ++n) vertex_of[n] = static_cast<int32_t>(n);
    for (size_t b = 0; b < result.blocks.size(); ++b) {
      const std::vector<int32_t>& block = result.blocks[b];
      block_of_vertex[block.front()] = static_cast<int32_t>(b);
      for (const int32_t n : block) vertex_of[n] = block.front();
      result.covered_nodes += compute_nodes(block);
    }
    result.compute_nodes = std::count(does_work_.begin(), does_work_.end(), true);
    size_t scheduled = 0;
    for (const int32_t v : topological_order(dag_, vertex_of)) {
      const auto block = block_of_vertex.find(v);
      const bool is_block = block != block_of_vertex.end();
      result.schedule.push_back({is_block, is_block ? block->second : v});
      scheduled += is_block ? result.blocks[block->second].size() : 1;
      if (!is_block) result.native.push_back({v, reason_of(v), refused_[v]});
    }
    if (scheduled != graph_.nodes.size()) {
      throw Error(ErrorKind::kInternal, "[partition] the engines and native nodes form a cycle");
    }
    std::sort(result.native.begin(), result.native.end(),
              [](const NativeNode& a, const NativeNode& b) { return a.node < b.node; });
  }

  std::string reason_of(int32_t n) const {
    if (!reasons_[n].empty()) return reasons_[n];
    const auto trimmed = trimmed_.find(n);
    return trimmed != trimmed_.end() ? trimmed->second : "a view that no engine reads";
  }

  const Graph graph_;
  const Settings& settings_;
  const DeviceProfile& device_;
  const std::set<std::string>& assumed_;  // operators that are taken without being asked
  const Dag dag_;
  std::vector<Role> roles_;
  std::vector<bool> does_work_, refused_;
  std::vector<std::string> reasons_;
  std::map<int32_t, std::string> trimmed_;
  const std::vector<std::vector<int32_t>> readers_;
  std::vector<bool> is_output_;
};

}  // namespace

double least_block_size(const Settings& settings) {
  // Whole-graph compilation takes blocks of any size: what is in the way is something else.
  return settings.require_full_compilation ? 1 : settings.min_block_size;
}

Partition partition(const Graph& graph, const Settings& settings, const DeviceProfile& device) {
  return partition_as_if(graph, settings, device, {});
}

Partition partition_as_if(const Graph& graph, const Settings& settings, const DeviceProfile& device,
                          const std::set<std::string>& operators) {
  return Partitioner(graph, settings, device, operators).run();
}

}  // namespace tv
