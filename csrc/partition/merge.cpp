#include "csrc/partition/merge.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace tv {
namespace {

/// A DAG whose contracted sets are vertices of their own. Vertices are named by their lowest node.
class Contracted {
 public:
  Contracted(const Dag& dag, const std::vector<int32_t>& vertex_of)
      : dag_(dag), vertex_of_(vertex_of), members_(dag.size()) {
    for (size_t n = 0; n < dag.size(); ++n)
      members_[vertex_of[n]].push_back(static_cast<int32_t>(n));
  }

  const std::vector<int32_t>& members(int32_t vertex) const { return members_[vertex]; }

  /// Calls f(vertex) for each neighbour of `vertex`, perhaps several times.
  template <typename F>
  void neighbours(int32_t vertex, bool forward, F f) const {
    for (const int32_t n : members_[vertex]) {
      for (const int32_t m : forward ? dag_.succs[n] : dag_.preds[n]) {
        if (vertex_of_[m] != vertex) f(vertex_of_[m]);
      }
    }
  }

  std::vector<int32_t> order() const {
    std::vector<int32_t> waiting(dag_.size(), 0), out;
    std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
    for (size_t v = 0; v < dag_.size(); ++v) {
      if (members_[v].empty()) continue;
      neighbours(static_cast<int32_t>(v), false, [&](int32_t) { ++waiting[v]; });
      if (waiting[v] == 0) ready.push(static_cast<int32_t>(v));
    }
    while (!ready.empty()) {
      const int32_t v = ready.top();
      ready.pop();
      out.push_back(v);
      neighbours(v, true, [&](int32_t next) {
        if (--waiting[next] == 0) ready.push(next);
      });
    }
    return out;
  }

 private:
  const Dag& dag_;
  const std::vector<int32_t>& vertex_of_;
  std::vector<std::vector<int32_t>> members_;
};

/// One set while it grows. A node may join unless a path through a node outside leads from the set
/// to it or from it to the set; the nodes that such paths reach are marked as the set grows, each
/// once, so growing costs O(edges) in all.
class Candidate {
 public:
  Candidate(const Contracted& graph, const std::vector<Role>& free_roles)
      : graph_(graph),
        roles_(free_roles),
        in_(free_roles.size()),
        after_(free_roles.size()),
        before_(free_roles.size()) {}

  bool fits(int32_t v) const {
    return roles_[v] != Role::kNative && !in_[v] && !after_[v] && !before_[v];
  }

  void add(int32_t v) {
    in_[v] = true;
    nodes_.push_back(v);
    if (roles_[v] == Role::kCompute) ++compute_;
    mark(v, true, after_);
    mark(v, false, before_);
  }

  int64_t compute() const { return compute_; }
  const std::vector<int32_t>& nodes() const { return nodes_; }

 private:
  /// Marks what lies beyond the native neighbours that `v` reaches through nodes that may join.
  void mark(int32_t v, bool forward, std::vector<bool>& marked) {
    std::vector<int32_t> stack;
    std::vector<bool>& seen = forward ? seen_forward_ : seen_backward_;
    seen.resize(roles_.size());
    if (!seen[v]) stack.push_back(v);
    while (!stack.empty()) {
      const int32_t at = stack.back();
      stack.pop_back();
      if (!marked[at]) seen[at] = true;
      const bool beyond = marked[at] || roles_[at] == Role::kNative;
      graph_.neighbours(at, forward, [&](int32_t next) {
        if (beyond) {
          if (!marked[next]) {
            marked[next] = true;
            stack.push_back(next);
          }
        } else if (!seen[next] && !marked[next]) {
          seen[next] = true;
          stack.push_back(next);
        }
      });
    }
  }

  const Contracted& graph_;
  const std::vector<Role>& roles_;
  std::vector<bool> in_, after_, before_;
  std::vector<bool> seen_forward_, seen_backward_;
  std::vector<int32_t> nodes_;
  int64_t compute_ = 0;
};

/// Level of each vertex: how many blocks, at least, must come before it (or, backwards, after it).
/// Nodes of one level never have a native node between them.
std::vector<int32_t> levels(const Contracted& graph, const std::vector<int32_t>& order,
                            const std::vector<Role>& roles, bool forward) {
  std::vector<int32_t> level(roles.size(), 0);
  const auto visit = [&](int32_t v) {
    const bool native = roles[v] == Role::kNative;
    graph.neighbours(v, !forward, [&](int32_t from) {
      const int32_t step = native && roles[from] != Role::kNative ? 1 : 0;
      level[v] = std::max(level[v], level[from] + step);
    });
  };
  if (forward) {
    std::for_each(order.begin(), order.end(), visit);
  } else {
    std::for_each(order.rbegin(), order.rend(), visit);
  }
  return level;
}

/// The heaviest level and whatever else fits, nodes that do work first.
Candidate grow(const Contracted& graph, const std::vector<int32_t>& order,
               const std::vector<Role>& roles, bool forward) {
  const std::vector<int32_t> level = levels(graph, order, roles, forward);
  std::vector<int64_t> weight(roles.size() + 1, 0);
  for (const int32_t v : order) {
    if (roles[v] == Role::kCompute) ++weight[level[v]];
  }
  const auto heaviest = std::max_element(weight.begin(), weight.end()) - weight.begin();
  Candidate set(graph, roles);
  for (const int32_t v : order) {
    if (roles[v] != Role::kNative && level[v] == heaviest) set.add(v);
  }
  for (const Role role : {Role::kCompute, Role::kFree}) {
    for (const int32_t v : order) {
      if (roles[v] == role && set.fits(v)) set.add(v);
    }
  }
  return set;
}

}  // namespace

void Dag::add_edge(int32_t from, int32_t to) {
  std::vector<int32_t>& out = succs[from];
  if (std::find(out.begin(), out.end(), to) != out.end()) return;
  out.push_back(to);
  preds[to].push_back(from);
}

std::vector<int32_t> topological_order(const Dag& dag, const std::vector<int32_t>& vertex_of) {
  return Contracted(dag, vertex_of).order();
}

std::vector<std::vector<int32_t>> merge_blocks(const Dag& dag, const std::vector<Role>& roles,
                                               double min_compute) {
  std::vector<std::vector<int32_t>> blocks;
  std::vector<int32_t> vertex_of(dag.size());
  for (size_t n = 0; n < dag.size(); ++n) vertex_of[n] = static_cast<int32_t>(n);
  std::vector<Role> left = roles;  // a finished block is as good as native to those that follow
  while (std::find(left.begin(), left.end(), Role::kCompute) != left.end()) {
    const Contracted graph(dag, vertex_of);
    const std::vector<int32_t> order = graph.order();
    const Candidate early = grow(graph, order, left, true);
    const Candidate late = grow(graph, order, left, false);
    const Candidate& best = late.compute() > early.compute() ? late : early;
    if (static_cast<double>(best.compute()) < min_compute) break;
    std::vector<int32_t> block = best.nodes();
    std::sort(block.begin(), block.end());
    for (const int32_t n : block) {
      vertex_of[n] = block.front();
      left[n] = Role::kNative;
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

}  // namespace tv
