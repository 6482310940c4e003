// The search for blocks on DAGs drawn at random: what must hold for every one of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "csrc/partition/merge.h"

namespace tv {
namespace {

using Blocks = std::vector<std::vector<int32_t>>;

struct Case {
  Dag dag;
  std::vector<Role> roles;
};

Case random_case(std::mt19937& random, int nodes) {
  Case c{Dag(nodes), {}};
  const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
  const int native = static_cast<int>(random() % 60),
            reach = 1 + static_cast<int>(random() % nodes);
  for (int n = 0; n < nodes; ++n) {
    c.roles.push_back(chance(native) ? Role::kNative : chance(25) ? Role::kFree : Role::kCompute);
    const int edges = static_cast<int>(random() % 4);
    for (int e = 0; n > 0 && e < edges; ++e) {
      c.dag.add_edge(n - 1 - static_cast<int>(random() % std::min(n, reach)), n);
    }
  }
  return c;
}

/// Independent of topological_order: depth-first search for a way back.
bool has_cycle(const Dag& dag, const std::vector<int32_t>& vertex_of) {
  enum { kNew, kOpen, kDone };
  std::vector<std::vector<int32_t>> next(dag.size());
  for (size_t n = 0; n < dag.size(); ++n) {
    for (const int32_t m : dag.succs[n]) {
      if (vertex_of[n] != vertex_of[m]) next[vertex_of[n]].push_back(vertex_of[m]);
    }
  }
  std::vector<int> state(dag.size(), kNew);
  const auto visit = [&](auto&& self, int32_t v) -> bool {
    state[v] = kOpen;
    for (const int32_t m : next[v]) {
      if (state[m] == kOpen || (state[m] == kNew && self(self, m))) return true;
    }
    state[v] = kDone;
    return false;
  };
  for (size_t v = 0; v < dag.size(); ++v) {
    if (state[v] == kNew && visit(visit, static_cast<int32_t>(v))) return true;
  }
  return false;
}

std::vector<int32_t> vertices(const Dag& dag, const Blocks& blocks) {
  std::vector<int32_t> vertex_of(dag.size());
  for (size_t n = 0; n < dag.size(); ++n) vertex_of[n] = static_cast<int32_t>(n);
  for (const auto& block : blocks) {
    for (const int32_t n : block) vertex_of[n] = block.front();
  }
  return vertex_of;
}

int64_t compute_in(const Case& c, const std::vector<int32_t>& block) {
  return std::count_if(block.begin(), block.end(),
                       [&](int32_t n) { return c.roles[n] == Role::kCompute; });
}

TEST(Merge, RandomGraphsStayAcyclicAndCovered) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 600; ++trial) {
    const Case c = random_case(random, 2 + static_cast<int>(random() % 60));
    const Blocks blocks = merge_blocks(c.dag, c.roles, 1);
    std::vector<int> times(c.dag.size(), 0);
    for (const auto& block : blocks) {
      EXPECT_TRUE(std::is_sorted(block.begin(), block.end()));
      for (const int32_t n : block) {
        ++times[n];
        EXPECT_NE(c.roles[n], Role::kNative) << "trial " << trial;
      }
    }
    for (size_t n = 0; n < c.dag.size(); ++n) {
      EXPECT_LE(times[n], 1) << "trial " << trial;
      if (c.roles[n] == Role::kCompute) {
        EXPECT_EQ(times[n], 1) << "trial " << trial;
      }
    }
    EXPECT_FALSE(has_cycle(c.dag, vertices(c.dag, blocks))) << "trial " << trial;
    EXPECT_EQ(blocks, merge_blocks(c.dag, c.roles, 1)) << "two runs differ";
  }
}

TEST(Merge, NoBlockCanTakeAnotherNode) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    const Case c = random_case(random, 2 + static_cast<int>(random() % 30));
    const Blocks blocks = merge_blocks(c.dag, c.roles, 1);
    if (blocks.empty()) continue;
    // The first block was grown with nothing else in its way.
    for (size_t n = 0; n < c.dag.size(); ++n) {
      const auto& block = blocks.front();
      if (c.roles[n] == Role::kNative || std::binary_search(block.begin(), block.end(), n))
        continue;
      std::vector<int32_t> larger = block;
      larger.insert(std::lower_bound(larger.begin(), larger.end(), n), static_cast<int32_t>(n));
      // A node may be kept out by free ones between it and the block, never by natives alone.
      if (!has_cycle(c.dag, vertices(c.dag, {larger}))) {
        ADD_FAILURE() << "trial " << trial << ": node " << n << " would fit";
      }
    }
  }
}

TEST(Merge, FirstBlockIsAlmostTheLargestThereIs) {
  // Against every subset, on graphs small enough for that.
  std::mt19937 random(5);
  int64_t found = 0, best = 0;
  for (int trial = 0; trial < 150; ++trial) {
    const int nodes = 2 + static_cast<int>(random() % 8);
    const Case c = random_case(random, nodes);
    const Blocks blocks = merge_blocks(c.dag, c.roles, 1);
    int64_t largest = 0;
    for (int mask = 1; mask < 1 << nodes; ++mask) {
      std::vector<int32_t> set;
      for (int n = 0; n < nodes; ++n) {
        if (mask >> n & 1) set.push_back(n);
      }
      const bool legal = std::all_of(set.begin(), set.end(),
                                     [&](int32_t n) { return c.roles[n] != Role::kNative; });
      if (legal && compute_in(c, set) > largest && !has_cycle(c.dag, vertices(c.dag, {set}))) {
        largest = compute_in(c, set);
      }
    }
    const int64_t got = blocks.empty() ? 0 : compute_in(c, blocks.front());
    EXPECT_LE(got, largest);
    found += got;
    best += largest;
  }
  EXPECT_GE(found, best * 98 / 100) << found << " of " << best;
}

TEST(Merge, IndependentComponentsAreOneBlock) {
  Dag dag(6);
  dag.add_edge(0, 1);
  dag.add_edge(2, 3);
  dag.add_edge(4, 5);
  EXPECT_EQ(merge_blocks(dag, std::vector<Role>(6, Role::kCompute), 1),
            (Blocks{{0, 1, 2, 3, 4, 5}}));
}

TEST(Merge, NativeDiamondSplits) {
  // 0 → native 1 → 2 → 3 and 0 → 3: 3 cannot go with 0, native 1 is between them.
  Dag dag(4);
  dag.add_edge(0, 1);
  dag.add_edge(1, 2);
  dag.add_edge(0, 3);
  dag.add_edge(2, 3);
  const Blocks blocks =
      merge_blocks(dag, {Role::kCompute, Role::kNative, Role::kCompute, Role::kCompute}, 1);
  EXPECT_EQ(blocks, (Blocks{{2, 3}, {0}}));
}

TEST(Merge, SideBranchDoesNotSplitTheMainPath) {
  // A native side branch of the input that joins late: what comes before the join can wait for it.
  Dag dag(8);
  dag.add_edge(0, 1);                                  // 0 native, 1 native
  for (int n = 2; n < 7; ++n) dag.add_edge(n, n + 1);  // 2 … 7 main path
  dag.add_edge(1, 5);
  std::vector<Role> roles(8, Role::kCompute);
  roles[0] = roles[1] = Role::kNative;
  EXPECT_EQ(merge_blocks(dag, roles, 1), (Blocks{{2, 3, 4, 5, 6, 7}}));
}

TEST(Merge, MinimumCountsComputeOnly) {
  Dag dag(4);
  for (int n = 0; n < 3; ++n) dag.add_edge(n, n + 1);
  const std::vector<Role> roles = {Role::kFree, Role::kCompute, Role::kFree, Role::kCompute};
  EXPECT_EQ(merge_blocks(dag, roles, 2).size(), 1u);
  EXPECT_TRUE(merge_blocks(dag, roles, 3).empty());
  EXPECT_TRUE(merge_blocks(dag, std::vector<Role>(4, Role::kFree), 1).empty());
}

TEST(Merge, LongGraphs) {
  const int nodes = 20000;
  Dag dag(nodes);
  std::vector<Role> roles(nodes, Role::kCompute);
  for (int n = 1; n < nodes; ++n) {
    dag.add_edge(n - 1, n);
    if (n > 7) dag.add_edge(n - 7, n);
    if (n % 4000 == 0) roles[n] = Role::kNative;
  }
  const Blocks blocks = merge_blocks(dag, roles, 1);
  ASSERT_EQ(blocks.size(), 5u);  // a chain, cut at its four native nodes
  size_t merged = 0;
  for (const auto& block : blocks) merged += block.size();
  EXPECT_EQ(merged, static_cast<size_t>(nodes - 4));
}

TEST(TopologicalOrder, StopsAtACycle) {
  Dag dag(3);
  dag.add_edge(0, 1);
  dag.add_edge(1, 2);
  EXPECT_EQ(topological_order(dag, {0, 1, 2}), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_LT(topological_order(dag, {0, 1, 0}).size(), 2u);
}

}  // namespace
}  // namespace tv
