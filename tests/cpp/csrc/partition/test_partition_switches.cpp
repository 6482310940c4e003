// Engines between CUDA's kernels: what the GPU's switch from one to the other costs.

#include <gtest/gtest.h>

#include "tests/cpp/kit/partition_fixture.h"

namespace tv {
namespace {

using test::Blocks;
using test::PartitionTest;

TEST_F(PartitionTest, AnEngineBetweenCudaKernelsPaysForTheSwitch) {
  const ValueId x = b.input();
  ValueId v = b.work({x});
  for (int i = 0; i < 3; ++i) v = b.work({v});
  v = b.op("t::unknown", {v});
  b.output(b.work({b.work({v})}));
  settings.switch_nodes = 4;
  Partition p = run();
  EXPECT_EQ(p.blocks, (Blocks{{0, 1, 2, 3}}));
  EXPECT_EQ(reason(p, 6),
            "its block has 2 compute nodes; the GPU's switch from CUDA to Vulkan and back takes as "
            "long as 4");
  settings.switch_nodes = 0;
  EXPECT_EQ(run().blocks.size(), 2U);
}

TEST_F(PartitionTest, AnEngineThatIsTheWholeGraphHasNoSwitchToPayFor) {
  const ValueId x = b.input();
  b.output(b.work({b.work({x})}));
  settings.switch_nodes = 4;
  EXPECT_EQ(run().blocks, (Blocks{{0, 1}}));
}

TEST_F(PartitionTest, WorkOfTheHostCostsNoSwitch) {
  const ValueId x = b.input();
  const ValueId made = refused("aten::arange", {});
  b.output(b.work({b.work({x}), made}));
  settings.switch_nodes = 4;
  EXPECT_TRUE(run().blocks.empty());
  b.graph.nodes[0].origin.on_host = true;
  EXPECT_EQ(run().blocks, (Blocks{{1, 2}}));
  const ValueId copied = refused("aten::_to_copy", {2});
  b.graph.nodes.back().origin.on_host = true;
  b.output(b.work({copied}));
  EXPECT_EQ(run().blocks, (Blocks{{1, 2}, {4}})) << "two engines, and nothing of CUDA's between";
  b.output(b.op("t::unknown", {copied}));
  EXPECT_TRUE(run().blocks.empty());
}

}  // namespace
}  // namespace tv
