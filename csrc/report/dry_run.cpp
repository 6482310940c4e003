#include "csrc/report/dry_run.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "csrc/partition/dependencies.h"
#include "csrc/report/flops.h"

namespace tv {
namespace {

using json = nlohmann::ordered_json;

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(whole);
}

json describe(const Graph& graph, const std::vector<ValueId>& ids) {
  json out = json::array();
  for (const ValueId v : ids) {
    const Value& value = graph.value(v);
    json shape = json::array();
    for (const Expr& dim : value.shape) {
      if (const auto known = dim.constant()) {
        shape.push_back(*known);
      } else {
        shape.push_back(named(dim, graph.symbols));
      }
    }
    out.push_back(
        {{"name", value.name}, {"dtype", std::string(name(value.dtype))}, {"shape", shape}});
  }
  return out;
}

int64_t size_of(const Value& value) {
  return product(value.shape).constant().value_or(0) * size_bytes(value.dtype);
}

json describe_quantised(const Plan& plan, size_t index) {
  json out = json::array();
  for (const QuantisedOutcome& tensor : quantised_tensors(plan, index)) {
    out.push_back({{"tensor", tensor.tensor},
                   {"outcome", tensor.outcome},
                   {"source", tensor.source},
                   {"module_path", tensor.module_path}});
  }
  return out;
}

json describe_sparse(const Plan& plan, size_t index) {
  json out = json::array();
  for (const SparseOutcome& weight : sparse_weights(plan, index)) {
    out.push_back({{"tensor", weight.tensor},
                   {"outcome", weight.outcome},
                   {"source", weight.source},
                   {"module_path", weight.module_path}});
  }
  return out;
}

json describe_engine(const Plan& plan, size_t index) {
  const Graph& graph = plan.graph;
  const std::vector<int32_t>& nodes = plan.parts.blocks[index];
  const Block block = cut(plan, index, {});
  std::map<std::string, int64_t> operators;
  int64_t compute = 0, weight_bytes = 0;
  for (const int32_t n : nodes) {
    ++operators[graph.nodes[n].op];
    compute += does_work(graph.nodes[n]);
  }
  for (const ValueId v : block.weights) weight_bytes += size_of(graph.value(v));
  return {{"nodes", nodes.size()},
          {"compute_nodes", compute},
          {"operators", operators},
          {"inputs", describe(graph, block.inputs)},
          {"outputs", describe(graph, block.outputs)},
          {"weights", block.weights.size()},
          {"weight_bytes", weight_bytes},
          {"quantised", describe_quantised(plan, index)},
          {"sparse", describe_sparse(plan, index)}};
}

json describe_native(const Graph& graph, const Partition& partition) {
  json out = json::array();
  for (const NativeNode& native : partition.native) {
    const Node& node = graph.nodes[native.node];
    out.push_back({{"node", native.node},
                   {"operator", node.op},
                   {"name", node.name},
                   {"reason", native.reason},
                   {"source", node.source},
                   {"module_path", node.module_path},
                   {"does_work", does_work(node)}});
  }
  return out;
}

json count_operators(const Graph& graph, const Partition& partition) {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (const NativeNode& native : partition.native) {
    const Node& node = graph.nodes[native.node];
    if (does_work(node)) ++counts[{node.op, native.reason}];
  }
  std::vector<std::pair<std::pair<std::string, std::string>, int64_t>> rows(counts.begin(),
                                                                            counts.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  json out = json::array();
  for (const auto& [key, count] : rows) {
    out.push_back({{"operator", key.first}, {"reason", key.second}, {"count", count}});
  }
  return out;
}

json describe_work(const Graph& graph, const Partition& partition) {
  std::vector<int64_t> engine(graph.nodes.size(), -1);
  for (size_t b = 0; b < partition.blocks.size(); ++b) {
    for (const int32_t n : partition.blocks[b]) engine[n] = static_cast<int64_t>(b);
  }
  json out = json::array();
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!does_work(node)) continue;
    out.push_back({{"operator", node.op},
                   {"engine", engine[n]},
                   {"module_path", node.module_path},
                   {"flops", flops_of(graph, node)}});
  }
  return out;
}

/// One row for 1 and for each size just above a block's: between them nothing changes.
json block_sizes(const std::vector<int64_t>& sizes, int64_t compute_nodes) {
  std::vector<int64_t> least = {1};
  for (const int64_t size : sizes) least.push_back(size + 1);
  std::sort(least.begin(), least.end());
  least.erase(std::unique(least.begin(), least.end()), least.end());

  json rows = json::array();
  int64_t most = 0, recommended = 1;
  for (const int64_t min : least) {
    int64_t engines = 0, covered = 0;
    for (const int64_t size : sizes) {
      if (size < min) continue;
      ++engines;
      covered += size;
    }
    most = std::max(most, covered);
    if (covered > 0 && share(most - covered, compute_nodes) <= 0.01) recommended = min;
    rows.push_back({{"min_block_size", min},
                    {"engines", engines},
                    {"covered_nodes", covered},
                    {"coverage", share(covered, compute_nodes)}});
  }
  return {{"min_block_size", std::move(rows)}, {"recommended_min_block_size", recommended}};
}

}  // namespace

std::string dry_run_report(const Plan& plan) {
  const Graph& graph = plan.graph;
  const Partition& partition = plan.parts;
  json report;
  report["graph"] = graph.name;
  report["nodes"] = graph.nodes.size();
  report["compute_nodes"] = partition.compute_nodes;
  report["covered_nodes"] = partition.covered_nodes;
  report["coverage"] = share(partition.covered_nodes, partition.compute_nodes);
  report["engines"] = json::array();
  for (size_t b = 0; b < partition.blocks.size(); ++b) {
    report["engines"].push_back(describe_engine(plan, b));
  }
  report["native"] = describe_native(graph, partition);
  report["work"] = describe_work(graph, partition);
  report["operators"] = count_operators(graph, partition);
  report.update(block_sizes(partition.candidate_sizes, partition.compute_nodes));
  return report.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string block_sizes_report(const std::vector<int64_t>& sizes, int64_t compute_nodes) {
  return block_sizes(sizes, compute_nodes).dump();
}

}  // namespace tv
