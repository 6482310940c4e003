// Split-K: products, convolutions among them, whose steps of k workgroups share: for few and small
// outputs with long sums, which leave most of a GPU idle. Each share goes to memory in fp32; a
// second launch adds them in order, so that a result has the same bits at every call, and sends
// them through the fused epilogue.

#include <algorithm>

#include "converters/matmul/matmul.h"
#include "converters/matmul/matrix_units.h"
#include "csrc/graph/strided.h"

namespace tv {

namespace {

constexpr int64_t kMostSplits = 16;
constexpr int64_t kShortestSplit = 256;  // steps of k that are worth the second launch
constexpr int64_t kVeryLong = 8192;      // steps of k from which the rule takes it

}  // namespace

int64_t split_k_of(const NodeContext& c, const Product& p, int64_t tile_rows, int64_t tile_cols) {
  const int64_t tiles = div_up(typical(c.graph, p.m), tile_rows) *
                        div_up(typical(c.graph, p.n), tile_cols) *
                        typical(c.graph, p.batch.count());
  const int64_t units = compute_units(c.device);
  const int64_t most = std::min(kMostSplits, typical(c.graph, p.k) / kShortestSplit);
  int64_t splits = 1;
  while (splits * 2 <= most && splits * 2 * tiles <= units + units / 8) splits *= 2;
  return splits;
}

std::vector<int64_t> candidate_split_k(const NodeContext& c, const Product& p, int64_t tile_rows,
                                       int64_t tile_cols) {
  const int64_t splits = split_k_of(c, p, tile_rows, tile_cols);
  if (splits == 1) return {1};
  if (typical(c.graph, p.k) >= kVeryLong) return {splits, 1};
  return {1, splits};
}

std::string batch_refusal(const NodeContext& c, const Expr& matrices, int64_t splits) {
  const int64_t most = c.device.max_grid[2] / splits;
  const bool fits = matrices.bounds(c.graph.symbols).second <= most;
  return fits ? "" : "more than " + std::to_string(most) + " matrices";
}

std::string split_k_refusal(const NodeContext& c, const Product& p, int64_t splits) {
  if (std::string reason = batch_refusal(c, p.batch.count(), splits); !reason.empty()) {
    return reason;
  }
  const Expr elements = p.batch.count() * p.m * p.n * splits;
  if (elements.bounds(c.graph.symbols).second >= int64_t{1} << 32) {
    return "sums of all splits pass 2^32 elements";
  }
  return "";
}

ValueId split_k_sums(Builder& b, const Product& p, int64_t splits) {
  return b.scratch("splits", DType::kF32, {p.batch.count() * p.m * p.n * splits});
}

Step split_k_step(const NodeContext& c, const Product& p, ValueId split_k_sums, int64_t splits) {
  const ValueId y = c.node.outputs[0];
  const Expr total = p.batch.count() * p.m * p.n;
  const bool fours = mod(total, 4) == Expr(0);
  Operand part = src("part", split_k_sums), result = dst("y", y);
  part.vec4 = fours;
  return {.kernel = "matmul_split_k",
          .defines = {{"SPLIT", std::to_string(splits)}, {"FOURS", fours ? "1" : "0"}},
          .operands = {part, result},
          .params = {param("total", total)},
          .grid = one_each(fours ? floordiv(total, 4) : total, 128),
          .local_size = {128, 1, 1}};
}

}  // namespace tv
