// Engines between CUDA's kernels: what the GPU's switch from one to the other costs.

#include <gtest/gtest.h>

#include "tests/cpp/kit/partition_fixture.h"

namespace tv {
namespace {

using test::Blocks;
using test::PartitionTest;

struct CudaPartitionTest : PartitionTest {
  CudaPartitionTest() {
    settings = Settings();  // the size that stands for a switch's cost is the one that is left
    settings.on_cuda = true;
  }

  ValueId work(int count, ValueId v) {
    for (int i = 0; i < count; ++i) v = b.work({v});
    return v;
  }
};

TEST_F(CudaPartitionTest, AnEngineBetweenCudaKernelsPaysForTheSwitch) {
  const ValueId v = b.op("t::unknown", {work(40, b.input())});
  b.output(work(39, v));
  Partition p = run();
  ASSERT_EQ(p.blocks.size(), 1U);
  EXPECT_EQ(p.blocks[0].size(), 40U);
  EXPECT_EQ(reason(p, 41),
            "its block has 39 compute nodes; the GPU's switch from CUDA to Vulkan and back takes "
            "as long as 40");
  settings.on_cuda = false;
  EXPECT_EQ(run().blocks.size(), 2U);
  settings = {.min_block_size = 6};  // the user's choice
  settings.on_cuda = true;
  EXPECT_EQ(run().blocks.size(), 2U);
}

TEST_F(CudaPartitionTest, AnEngineThatIsTheWholeGraphHasNoSwitchToPayFor) {
  b.output(work(5, b.input()));
  EXPECT_EQ(run().blocks.size(), 1U);
}

TEST_F(CudaPartitionTest, WorkOfTheHostCostsNoSwitch) {
  const ValueId x = b.input();
  const ValueId made = refused("aten::arange", {});
  const ValueId y = b.work({work(5, x), made});
  b.output(y);
  EXPECT_TRUE(run().blocks.empty());
  b.graph.nodes[0].origin.on_host = true;
  EXPECT_EQ(run().blocks.size(), 1U);
  const ValueId copied = refused("aten::_to_copy", {y});
  b.graph.nodes.back().origin.on_host = true;
  b.output(work(5, copied));
  EXPECT_EQ(run().blocks.size(), 2U) << "and nothing of CUDA's between";
  b.output(b.op("t::unknown", {copied}));
  EXPECT_TRUE(run().blocks.empty());
}

}  // namespace
}  // namespace tv
