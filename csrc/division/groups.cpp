#include "csrc/division/groups.h"

#include <algorithm>
#include <optional>
#include <set>

#include "csrc/converter.h"
#include "csrc/division/file_names.h"
#include "runtime/base/error.h"

namespace tv::onnx {
namespace {

constexpr int32_t kNone = -1;

/// Gathers the blocks' nodes, and the nodes that only compute sizes for one of them.
class Grouper {
 public:
  Grouper(Division& division, const DivisionRequest& request)
      : division_(division),
        request_(request),
        nodes_(division.model.nodes),
        group_of_(nodes_.size(), kNone),
        names_(names_of(nodes_, *request.model)) {}

  /// All nodes as one group. Throws Error where it could not be called.
  Group all(bool by_value) {
    std::fill(group_of_.begin(), group_of_.end(), 0);
    Group made = of_block(0);
    made.by_value = by_value;
    request_.check(division_, made, border_of(0, made));
    return made;
  }

  void run(GroupedDivision& made) {
    move_parts();
    note_blocks();
    take_in_sizes();
    while (const auto smallest = one_of_a_cycle()) {
      dissolve(*smallest, "fused with its neighbours it would wait for itself");
    }
    check();
    for (size_t b = 0; b < division_.plan.parts.blocks.size(); ++b) {
      if (Group group = of_block(static_cast<int32_t>(b)); !group.nodes.empty()) {
        made.groups.push_back(std::move(group));
      }
    }
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (group_of_[n] != kNone) continue;
      const std::string& refusal = nodes_[n].refusal;
      reasons_.emplace(
          static_cast<int32_t>(n),
          !refusal.empty() ? refusal : "it computes sizes, or hands on a value, for others");
    }
    made.reasons = std::move(reasons_);
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
  std::set<ValueId> read_values(const FileNode& node) const {
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
        if (names_.outputs.contains(name)) readers.insert(kNone);
        for (const int32_t reader : readers_of(name)) {
          readers.insert(group_of_[static_cast<size_t>(reader)]);
        }
      }
      if (readers.size() == 1) group_of_[n] = *readers.begin();
    }
  }

  std::vector<int32_t> readers_of(const std::string& name) const {
    const auto found = names_.readers.find(name);
    return found == names_.readers.end() ? std::vector<int32_t>{} : found->second;
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
        const auto maker = names_.maker.find(name);
        if (maker == names_.maker.end()) continue;
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
      reasons_[static_cast<int32_t>(n)] = reason;
    }
    division_.plan.parts.blocks[static_cast<size_t>(group)].clear();
  }

  /// What the runtime would make of each group can be called.
  void check() {
    for (size_t b = 0; b < division_.plan.parts.blocks.size(); ++b) {
      const Group group = of_block(static_cast<int32_t>(b));
      if (group.nodes.empty()) continue;
      try {
        request_.check(division_, group, border_of(static_cast<int32_t>(b), group));
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

  GroupBorder border_of(int32_t block, const Group& group) const {
    GroupBorder border;
    std::set<std::string> seen;
    for (const int32_t n : group.nodes) {
      for (const std::string& name : nodes_[static_cast<size_t>(n)].reads) {
        const auto maker = names_.maker.find(name);
        const bool inside =
            maker != names_.maker.end() && group_of_[static_cast<size_t>(maker->second)] == block;
        if (inside || names_.initializers.contains(name) || !seen.insert(name).second) continue;
        border.inputs.push_back(name);
      }
      for (const std::string& name : nodes_[static_cast<size_t>(n)].writes) {
        const std::vector<int32_t> readers = readers_of(name);
        const bool outside = std::any_of(readers.begin(), readers.end(), [&](int32_t reader) {
          return group_of_[static_cast<size_t>(reader)] != block;
        });
        if (outside || names_.outputs.contains(name)) border.outputs.push_back(name);
      }
    }
    return border;
  }

  Division& division_;
  const DivisionRequest& request_;
  const std::vector<FileNode>& nodes_;
  std::vector<int32_t> group_of_;  ///< of each node its block
  const FileNames names_;
  std::map<int32_t, std::string> reasons_;
};

/// All of the model as one group, where it is one engine and large enough for one: then what moves
/// data at its borders is in it, too.
std::optional<Group> whole_group(Division& division, const DivisionRequest& request,
                                 const Settings& settings, const DeviceProfile& device) {
  for (const FileNode& node : division.model.nodes) {
    if (!node.refusal.empty()) return std::nullopt;
  }
  division.plan = plan(division.model.graph, settings, device, Rest::kNobody);
  if (!is_large_enough(division.plan)) return std::nullopt;
  try {
    return Grouper(division, request).all(/*by_value=*/false);
  } catch (const Error&) {  // it could not be called
    return std::nullopt;
  }
}

GroupedDivision all_by_value(const DivisionRequest& request, const Settings& settings,
                             const DeviceProfile& device) {
  GroupedDivision made;
  made.model = import_of(request);
  for (const FileNode& node : made.model.nodes) {
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
  made.groups.push_back(Grouper(made, request).all(/*by_value=*/true));
  return made;
}

GroupedDivision grouped(const DivisionRequest& request, const Settings& settings,
                        const DeviceProfile& device) {
  std::optional<Group> whole;
  GroupedDivision made{divide(request, settings, device, [&](Division& round) {
    whole = whole_group(round, request, settings, device);
    return whole.has_value();
  })};
  if (whole) {
    made.groups.push_back(*std::move(whole));
  } else {
    Grouper(made, request).run(made);
  }
  return made;
}

/// What a product sums over; none of another node.
std::optional<Expr> sum_of(const Graph& graph, const Node& node) {
  const Converter* converter = Registry::instance().find(node.op);
  const ValueId left =
      converter && converter->product ? node.input(converter->product->a) : kNoValue;
  if (left == kNoValue || graph.value(left).shape.empty()) return std::nullopt;
  return graph.value(left).shape.back();
}

/// Symbols that products sum over, so that these might be of nothing: few tactics can do that.
std::set<std::string> empty_sums(const Graph& graph) {
  std::set<std::string> found;
  std::vector<std::vector<int32_t>> of_several;
  for (const Node& node : graph.nodes) {
    const auto sum = sum_of(graph, node);
    if (!sum || sum->bounds(graph.symbols).first > 0) continue;
    const std::vector<int32_t> symbols = sum->symbols();
    if (symbols.size() > 1) of_several.push_back(symbols);
    if (symbols.size() == 1) found.insert(graph.symbols[static_cast<size_t>(symbols[0])].name);
  }
  for (const std::vector<int32_t>& symbols : of_several) {  // of a cache and what comes to it
    const bool known = std::ranges::any_of(symbols, [&](int32_t s) {
      return found.contains(graph.symbols[static_cast<size_t>(s)].name);
    });
    if (!known) {
      const int32_t first = *std::ranges::min_element(symbols);
      found.insert(graph.symbols[static_cast<size_t>(first)].name);
    }
  }
  return found;
}

/// Divides until no product may sum over nothing for want of a bound.
template <typename Divide>
GroupedDivision without_empty_sums(DivisionRequest request, const Divide& divide) {
  for (;;) {
    GroupedDivision made = divide(request);
    const size_t before = request.import.never_empty.size();
    if (request.import.may_be_empty) {
      request.import.never_empty.merge(empty_sums(made.model.graph));
    }
    if (request.import.never_empty.size() == before) return made;
  }
}

DivisionRequest without_empty(DivisionRequest request) {
  request.import.may_be_empty = false;
  return request;
}

bool has_symbols(const ImportedModel& model) {
  return std::ranges::any_of(model.inputs, [](const Binding& input) {
    return std::ranges::any_of(input.shape, [](const Expr& dim) { return !dim.is_constant(); });
  });
}

}  // namespace

bool is_large_enough(const Plan& plan) {
  const auto work = static_cast<double>(std::max<int64_t>(plan.parts.compute_nodes, 1));
  return !plan.parts.blocks.empty() && work >= least_block_size(plan.settings);
}

GroupedDivision divide_by_value(const DivisionRequest& request, const Settings& settings,
                                const DeviceProfile& device) {
  if (!request.import.may_be_empty) return all_by_value(request, settings, device);
  try {
    return without_empty_sums(
        request, [&](const DivisionRequest& with) { return all_by_value(with, settings, device); });
  } catch (const Error&) {
    return all_by_value(without_empty(request), settings, device);
  }
}

GroupedDivision divide_into_groups(const DivisionRequest& request, const Settings& settings,
                                   const DeviceProfile& device) {
  GroupedDivision made = without_empty_sums(
      request, [&](const DivisionRequest& with) { return grouped(with, settings, device); });
  if (!request.import.may_be_empty || made.reasons.empty() || !has_symbols(made.model)) return made;
  GroupedDivision other = grouped(without_empty(request), settings, device);
  return other.reasons.size() < made.reasons.size() ? other : made;
}

}  // namespace tv::onnx
