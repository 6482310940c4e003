#pragma once
// A tiny interpreter of graphs, in double, for tests of passes: a pass must not change what a graph
// computes. Knows view operators (through their converters), tv::pointwise, tv::copy, aten::cat and
// the operators below, with fused prologues and epilogues.
//
//   test::scale(self)      3 x + 1, takes prologues and epilogues, reads dense tensors only
//   test::scale_any(self)  the same, reads views
//   test::row_sum(self)    sum over the last dimension, takes epilogues; reads dense tensors only

#include <random>

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv::test {

using Tensor = std::vector<double>;  // row-major

/// Registers the test operators; call before using them.
void register_test_operators();

/// Values of the graph's outputs, row-major in their shapes. `leaves[i]`: graph inputs, then
/// weights.
std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& leaves);

/// Numbers for every input and weight.
std::vector<Tensor> random_leaves(const Graph& graph, std::mt19937& random);

/// A device that tests compile for.
DeviceProfile test_device();

/// Builds graphs in a line each.
struct GraphMaker {
  Graph graph;
  ValueId input(Shape shape, DType dtype = DType::kF32);
  ValueId weight(Shape shape, DType dtype = DType::kF32);
  ValueId op(const std::string& op, std::vector<Arg> args, Shape shape, DType dtype = DType::kF32);
  ValueId pointwise(const std::string& function, std::vector<ValueId> operands);  // broadcasts
  ValueId view(ValueId self, Shape shape);
  ValueId permute(ValueId self, const std::vector<int64_t>& dims);
  ValueId expand(ValueId self, Shape shape);
  ValueId slice(ValueId self, int64_t dim, int64_t start, int64_t end);
  ValueId scale(ValueId self);
  ValueId cat(std::vector<ValueId> parts, int64_t dim);
  void output(ValueId value, Shape strides = {});
};

}  // namespace tv::test
