#pragma once
// The search for blocks, on bare numbers: which nodes of a DAG can be one engine.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tv {

/// Nodes 0 … n-1; each edge goes from a lower to a higher number.
struct Dag {
  std::vector<std::vector<int32_t>> preds, succs;
  explicit Dag(size_t nodes) : preds(nodes), succs(nodes) {}
  size_t size() const { return preds.size(); }
  void add_edge(int32_t from, int32_t to);  ///< once, however often it is added
};

enum class Role : uint8_t {
  kNative,   ///< cannot be in a block
  kFree,     ///< can, and does no work
  kCompute,  ///< can, and counts
};

/// Disjoint sets of kFree and kCompute nodes, largest (by compute nodes) first, each ascending,
/// such that the DAG with every set contracted to a node has no cycle. Sets need not be connected:
/// what no path through other nodes keeps apart is one set. Only sets of at least `min_compute`
/// (and 1) compute nodes are made. O(sets · edges).
std::vector<std::vector<int32_t>> merge_blocks(const Dag& dag, const std::vector<Role>& roles,
                                               double min_compute);

/// An order of vertices in which every edge goes forward. vertex_of[n] is the vertex of node n (its
/// own number, or that of another node where it is contracted with it); the lowest ready vertex
/// comes first. Shorter than the number of vertices where the contracted graph has a cycle.
std::vector<int32_t> topological_order(const Dag& dag, const std::vector<int32_t>& vertex_of);

}  // namespace tv
