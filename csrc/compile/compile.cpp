#include "csrc/compile/compile.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "csrc/compile/debug_dump.h"
#include "csrc/counters.h"
#include "csrc/lowering/lower.h"
#include "csrc/lowering/node_times.h"
#include "csrc/passes/fuse/fuse.h"
#include "csrc/passes/fuse/fuse_products.h"
#include "csrc/passes/fuse/fuse_rotary.h"
#include "csrc/passes/fuse/measure_fusion.h"
#include "csrc/passes/layouts/choose_channels_last.h"
#include "csrc/passes/layouts/choose_layouts.h"
#include "csrc/passes/layouts/measure_layouts.h"
#include "csrc/passes/quantise/measure_integers.h"
#include "csrc/passes/quantise/merge_integer_products.h"
#include "csrc/passes/quantise/move_integers.h"
#include "csrc/passes/quantise/multiply_integers.h"
#include "csrc/passes/quantise/multiply_quantised.h"
#include "csrc/passes/quantise/multiply_sparse.h"
#include "csrc/passes/quantise/quantise_calibrated.h"
#include "csrc/passes/quantise/quantise_early.h"
#include "csrc/passes/quantise/whole_products.h"
#include "csrc/passes/recognise/group_heads.h"
#include "csrc/passes/recognise/recognise_attention.h"
#include "csrc/passes/recognise/recognise_linear.h"
#include "csrc/passes/recognise/recognise_mask.h"
#include "csrc/passes/recognise/recognise_rms_norm.h"
#include "csrc/passes/recognise/recognise_rotary.h"
#include "csrc/passes/simplify/canonicalise.h"
#include "csrc/passes/simplify/fold.h"
#include "csrc/passes/simplify/fold_batch_norm.h"
#include "csrc/passes/simplify/fold_padding.h"
#include "csrc/passes/simplify/gather_siblings.h"
#include "csrc/passes/simplify/hoist_scales.h"
#include "csrc/passes/simplify/lower_precision.h"
#include "csrc/passes/simplify/merge_matmuls.h"
#include "csrc/passes/simplify/simplify.h"
#include "csrc/passes/simplify/truncate.h"
#include "csrc/passes/write/merge_cache_writes.h"
#include "csrc/passes/write/move_windows.h"
#include "csrc/passes/write/place_outputs.h"
#include "csrc/passes/write/write_in_place.h"
#include "csrc/passes/write/write_rotated.h"
#include "csrc/precision.h"

namespace tv {

namespace {

/// From which optimization_level on decisions between graphs are measured: layouts and what is
/// fused before a node, and what behind it.
constexpr int64_t kMeasuredFromLevel = 4, kEpiloguesFromLevel = 5;

/// What hears of each pass.
using AfterPass = std::function<void(const Graph&, const char* pass)>;

/// The passes that read a model's own operators.
Graph recognise(Graph graph, const Settings& settings, const DeviceProfile& device,
                const AfterPass& after) {
  if (settings.truncate_long_and_double) {
    graph = truncate_long_and_double(std::move(graph));
    after(graph, "truncate");
  }
  graph = translate(std::move(graph), settings, device);
  after(graph, "translate");
  graph = whole_products(std::move(graph));
  after(graph, "whole_products");
  // Before its pieces become 16-bit ones; those that the user keeps in float32 stay pieces.
  const bool lowers = low_precision(settings) != DType::kOther;
  const ExcludedNodes excluded(settings);
  graph = recognise_attention(std::move(graph),
                              [&](const Node& node) { return lowers && excluded.contains(node); });
  after(graph, "recognise_attention");
  graph = group_heads(std::move(graph));
  after(graph, "group_heads");
  graph = recognise_mask(std::move(graph), settings, device);
  after(graph, "recognise_mask");
  graph = recognise_rms_norm(std::move(graph), settings, device);
  after(graph, "recognise_rms_norm");
  graph = recognise_rotary(std::move(graph));
  after(graph, "recognise_rotary");
  if (lowers) {
    graph = lower_precision(std::move(graph), settings);
    after(graph, "lower_precision");
  }
  return graph;
}

/// The passes that let products and convolutions read quantised tensors.
Graph multiply(Graph graph, const Settings& settings, const DeviceProfile& device,
               const AfterPass& after, std::vector<QuantisedOutcome>* outcomes = nullptr) {
  graph = quantise_calibrated(std::move(graph));
  after(graph, "quantise_calibrated");
  graph = recognise_linear(std::move(graph));
  after(graph, "recognise_linear");
  // Before anything moves or joins the weights of products.
  IntegerReads integers;
  IntegerReads* reads = outcomes ? &integers : nullptr;
  graph = move_integers(std::move(graph), reads);
  after(graph, "move_integers");
  if (!outcomes) {  // outcomes name each weight; merged ones have no names
    graph = merge_integer_products(std::move(graph));
    after(graph, "merge_integer_products");
  }
  graph = multiply_integers(std::move(graph), reads);
  after(graph, "multiply_integers");
  graph = translate(std::move(graph), settings, device);
  graph = move_integers(quantise_early(std::move(graph)), reads);
  after(graph, "quantise_early");
  graph = multiply_quantised(std::move(graph), outcomes, integers);
  after(graph, "multiply_quantised");
  return graph;
}

bool has_calibrated(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) { return node.input_scale != 0; });
}

/// Whether what calibration covers may be computed in floats where that is faster.
bool permits_floats(const Settings& settings) {
  return std::ranges::any_of(settings.enabled_precisions, is_float);
}

/// The passes that make of operators what kernels compute, and where.
Graph arrange(Graph graph, const Settings& settings, const DeviceProfile& device,
              const AfterPass& after) {
  graph = hoist_scales(std::move(graph));
  after(graph, "hoist_scales");
  graph = fold_padding(std::move(graph));
  after(graph, "fold_padding");
  // Before canonicalise takes batch norms apart.
  graph = fold_batch_norm(std::move(graph));
  after(graph, "fold_batch_norm");
  // Equal inputs must be one value to be seen as such.
  graph = merge_matmuls(simplify(std::move(graph)));
  after(graph, "merge_matmuls");
  // What it multiplies may be joined, as each part was marked.
  graph = multiply_sparse(std::move(graph));
  after(graph, "multiply_sparse");
  graph = canonicalise(std::move(graph), settings, device);
  after(graph, "canonicalise");
  graph = fold(std::move(graph));
  after(graph, "fold");
  graph = simplify(std::move(graph));
  after(graph, "simplify");
  graph = gather_siblings(std::move(graph));
  after(graph, "gather_siblings");
  graph = move_windows(std::move(graph), settings, device);
  after(graph, "move_windows");
  // Fusion comes after layouts: a view between two operators is gone by then.
  graph = choose_layouts(std::move(graph), settings, device);
  after(graph, "choose_layouts");
  graph = fuse(std::move(graph), device);
  after(graph, "fuse");
  graph = fuse_products(std::move(graph), device);
  after(graph, "fuse_products");
  graph = fuse_rotary(std::move(graph), device);
  after(graph, "fuse_rotary");
  graph = place_outputs(std::move(graph), settings, device);
  after(graph, "place_outputs");
  if (wants_channels_last(settings, device)) {
    graph = choose_channels_last(std::move(graph), device);
    after(graph, "choose_channels_last");
  }
  return graph;
}

/// µs of a graph of few nodes as it would be built.
std::optional<double> us_of(Graph graph, const Settings& settings, const DeviceProfile& device,
                            NodeTimes& times) {
  const AfterPass quietly = [](const Graph&, const char*) {};
  graph = arrange(multiply(std::move(graph), settings, device, quietly), settings, device, quietly);
  std::vector<size_t> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return times.us(graph, all);
}

}  // namespace

std::vector<QuantisedOutcome> quantised_outcomes(Graph graph, const Settings& settings,
                                                 const DeviceProfile& device) {
  std::vector<QuantisedOutcome> outcomes;
  const AfterPass quietly = [](const Graph&, const char*) {};
  graph = recognise(std::move(graph), settings, device, quietly);
  if (permits_floats(settings)) graph = measure_integers(std::move(graph), settings, device, {});
  multiply(std::move(graph), settings, device, quietly, &outcomes);
  return outcomes;
}

std::vector<SparseOutcome> sparse_outcomes(Graph graph, const Settings& settings,
                                           const DeviceProfile& device) {
  std::vector<SparseOutcome> outcomes;
  if (!settings.sparse_weights) return outcomes;
  const AfterPass quietly = [](const Graph&, const char*) {};
  choose_sparse(recognise(std::move(graph), settings, device, quietly), device, {}, &outcomes);
  return outcomes;
}

std::vector<WriteOutcome> write_outcomes(Graph graph, const Settings& settings,
                                         const DeviceProfile& device) {
  std::vector<WriteOutcome> outcomes;
  const AfterPass quietly = [](const Graph&, const char*) {};
  graph =
      multiply(recognise(std::move(graph), settings, device, quietly), settings, device, quietly);
  graph = arrange(std::move(graph), settings, device, quietly);
  write_in_place(std::move(graph), settings, device, &outcomes);
  return outcomes;
}

EngineSpec compile(Graph graph, const Settings& settings, const DeviceProfile& device,
                   const Progress& progress, CostModel* costs) {
  ++build_counters().engines;
  const DebugDump dump_files(settings, graph.name);
  const AfterPass after = [&](const Graph& made, const char* pass) {
    check(made, pass);
    dump_files.write_graph(pass, made);
    if (progress) progress(pass, 0, 0);
  };
  after(graph, "import");
  graph = recognise(std::move(graph), settings, device, after);
  std::optional<NodeTimes> times;
  if (costs) times.emplace(settings, device, *costs, progress);
  const GraphUs us = [&](Graph some) { return us_of(std::move(some), settings, device, *times); };
  if (has_calibrated(graph)) {
    graph = merge_calibrated(simplify(std::move(graph)));
    after(graph, "merge_calibrated");
  }
  if (permits_floats(settings)) {
    graph = measure_integers(std::move(graph), settings, device, times ? us : GraphUs());
    after(graph, "measure_integers");
  }
  if (settings.sparse_weights) {
    graph = choose_sparse(std::move(graph), device, times ? us : GraphUs());
    after(graph, "choose_sparse");
  }
  graph = multiply(std::move(graph), settings, device, after);
  graph = arrange(std::move(graph), settings, device, after);

  if (times && settings.optimization_level >= kMeasuredFromLevel) {
    const NodesUs nodes_us = [&](const Graph& g, std::span<const size_t> nodes) {
      return times->us(g, nodes);
    };
    if (wants_channels_last(settings, device)) {
      graph = measure_layouts(std::move(graph), nodes_us);
      after(graph, "measure_layouts");
    }
    graph = measure_fusion(std::move(graph), nodes_us,
                           settings.optimization_level >= kEpiloguesFromLevel);
    after(graph, "measure_fusion");
  }

  // No pass before it has to know that memory changes under readers.
  graph = write_in_place(std::move(graph), settings, device);
  after(graph, "write_in_place");
  graph = merge_cache_writes(std::move(graph));
  after(graph, "merge_cache_writes");
  graph = write_rotated(std::move(graph));
  after(graph, "write_rotated");
  LoweringReport report;
  EngineSpec spec = lower(graph, settings, device, progress, {costs, &report});
  dump_files.write_lowering(report, spec);
  validate(spec);  // before anybody keeps it
  return spec;
}

}  // namespace tv
