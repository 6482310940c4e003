#pragma once
// A graph that grows and how it is partitioned, for the tests of the partitioner.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "csrc/partition/partition.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv::test {

using Blocks = std::vector<std::vector<int32_t>>;

struct PartitionTest : testing::Test {
  GraphBuilder b;
  Settings settings{.min_block_size = 1};

  /// What a frontend could not express.
  ValueId refused(const std::string& op, const std::vector<ValueId>& inputs) {
    const ValueId made = b.op(op, inputs);
    b.graph.nodes.back().origin.refusal = "the frontend's reason";
    return made;
  }

  /// What keeps its order among its kind.
  ValueId random(const std::vector<ValueId>& inputs) {
    const ValueId made = refused("aten::rand_like", inputs);
    b.graph.nodes.back().origin.effect = true;
    return made;
  }

  Partition run() { return partition(b.graph, settings, DeviceProfile::builtin_default()); }

  static std::string reason(const Partition& p, int32_t node) {
    for (const NativeNode& n : p.native) {
      if (n.node == node) return n.reason;
    }
    return "(in an engine)";
  }
};

}  // namespace tv::test
