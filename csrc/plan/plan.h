#pragma once
// The compiler as frontends see it. A frontend translates a model into a Graph; plan() says which
// parts of it become engines and why the rest does not, build() makes the engine of a part. What
// lies between - partition, truncation, precision, passes, kernels, the cache - is theirs alone.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "csrc/cache/cache_settings.h"
#include "csrc/partition/partition.h"
#include "csrc/passes/quantise/calibrate.h"
#include "csrc/passes/quantise/multiply_quantised.h"
#include "csrc/passes/quantise/multiply_sparse.h"
#include "csrc/passes/write/write_in_place.h"
#include "csrc/progress.h"
#include "runtime/spec/engine_spec.h"

namespace tv {

/// What runs the nodes that no engine takes.
enum class Rest : uint8_t {
  kCaller,  ///< blocks as settings ask for
  kNobody,  ///< all of the graph is one block, or there is none
};

struct Plan {
  Graph graph;  ///< as the frontend made it: nodes know their Origin
  Settings settings;
  DeviceProfile device;
  Rest rest = Rest::kCaller;
  Partition parts;  ///< blocks, and for each node left out the reason
  CalibrationUse calibration;
};

/// Needs no device. Throws as partition() and calibrate() do.
Plan plan(Graph graph, const Settings& settings, const DeviceProfile& device,
          Rest rest = Rest::kCaller);

/// Whether engines take every node that does work or, where nobody runs the rest, every node.
bool is_whole(const Plan& plan);

/// The parts as if every node whose operator is in `operators` were supported, whatever its
/// converter says. Not to be built: only the sizes of its blocks mean something.
Partition parts_as_if(const Plan& plan, const std::set<std::string>& operators);

/// The Graph of parts.blocks[block] and what its parts stand for. It is for a frontend that knows
/// more about the block's border: it may change the Graph, plan it as a whole and build that.
Block cut(const Plan& plan, size_t block, const Border& border);

/// `graph` with other outputs: the values that calibration observes under these settings, by name,
/// except those that are inputs. It is to be planned and built with settings that do not permit
/// int8.
Graph observed_by_calibration(Graph graph, const Settings& settings);

/// The values that observed_by_calibration makes outputs, in order; one may occur several times.
std::vector<CalibrationPoint> observed_points(const Graph& graph, const Settings& settings);

/// A line for each node of a plan that refuses it: "model.py:4 aten::foo: no converter for …".
std::vector<std::string> refusals(const Plan& plan);

/// How each quantised tensor of parts.blocks[block] is read when the block is built by rule.
std::vector<QuantisedOutcome> quantised_tensors(const Plan& plan, size_t block);

/// How the weight of each product in parts.blocks[block] is read, by rule; nothing if
/// settings.sparse_weights is not set. Timing overrules the rule where the optimization level
/// permits it.
std::vector<SparseOutcome> sparse_weights(const Plan& plan, size_t block);

/// For each value of parts.blocks[block] that replaces an input: whether it is written in place.
std::vector<WriteOutcome> written_inputs(const Plan& plan, size_t block);

/// The weights of a graph that would be 2:4 sparse if their values were.
std::vector<SparseCandidate> sparse_candidates(const Graph& graph);

/// How a block is built.
struct BuildOptions {
  CacheSettings cache{.cache_built_engines = false, .reuse_cached_engines = false};
  Progress progress = nullptr;
};

/// The engine of parts.blocks[block]: from the cache, or compiled, tuned where the device is of
/// this machine. Throws Error.
EngineSpec build(const Plan& plan, size_t block, const BuildOptions& options);

/// The tuned engine that build() would take from the cache; nothing where it would build one.
std::optional<EngineSpec> find_built(const Plan& plan, size_t block, const CacheSettings& cache);

/// The key material of that engine: equal texts stand for engines with equal code.
std::string key_of(const Plan& plan, size_t block);

}  // namespace tv
